"""How many uploads a server receives at once."""

import pytest

from quire.api.errors import build_error_response
from quire.api.upload_slots import UploadSlots
from quire.model.errors import Retry


async def test_an_upload_too_many_is_told_when_to_come_again():
    slots = UploadSlots(1, 0.01)
    async with slots.take():
        with pytest.raises(Retry) as caught:
            async with slots.take():
                pass
    refused = build_error_response(caught.value, contract=False)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_slot_is_free_again_however_its_upload_ended():
    slots = UploadSlots(1, 5.0)
    with pytest.raises(ValueError, match="broken"):
        async with slots.take():
            raise ValueError("broken")
    entered = False
    async with slots.take():
        entered = True
    assert entered
