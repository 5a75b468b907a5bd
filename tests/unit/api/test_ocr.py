"""What a request for OCR over HTTP is refused for before anything is stored or read."""

from types import SimpleNamespace

import msgspec
import pytest

from quire.api import ocr
from quire.api.context import Caller
from quire.api.upload_slots import UploadSlots
from quire.model.errors import Reject, Retry

OF_TENANT = Caller(name="key", owner="K", tenant="acme")


class Sent:
    """A request as the routes see it; `read` says whether anybody has read its body."""

    def __init__(self, body):
        self.headers = {}
        self.read = False
        self._body = msgspec.json.encode(body)

    async def stream(self):
        self.read = True
        yield self._body


def ref(kind, value):
    return {"image_refs": [{"kind": kind, "value": value}]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("local_path", "0.png"),
        ("local_path", "http://example.org/0.png"),
        ("s3", "s3://pictures/0.png"),
        ("minio", "minio://pictures/0.png"),
        ("db", "7"),
        ("db", "https://example.org/0.png"),
    ],
)
async def test_a_key_of_a_tenant_names_nothing_that_is_the_whole_servers(kind, value):
    with pytest.raises(Reject) as caught:
        await ocr._read_images(Sent(ref(kind, value)), OF_TENANT, most=8)
    assert caught.value.code == "forbidden"
    (found,), _ = await ocr._read_images(Sent(ref(kind, value)), Caller(name="key", owner="K"), most=8)
    assert (found.kind, found.value) == (kind, value)


@pytest.mark.parametrize("image", [{"kind": "s3", "value": "https://example.org/0.png"}, {"base64": "aGk="}])
async def test_a_key_of_a_tenant_sends_pictures_and_web_addresses(image):
    found, wish = await ocr._read_images(Sent({"image": image}), OF_TENANT, most=8)
    assert (len(found), wish.language) == (1, "en")


async def test_a_job_too_many_is_refused_before_its_body_is_read(monkeypatch):
    slots, request = UploadSlots(1, 0.01), Sent(ref("db", "7"))
    monkeypatch.setattr(ocr, "_submissions", slots)
    async with slots.take():
        with pytest.raises(Retry) as caught:
            await ocr.submit_job(SimpleNamespace(ocr=object()), request, OF_TENANT)
    assert (caught.value.code, request.read) == ("too_busy", False)
