"""The simulator sees when a batch moves twice, or is handed over wrongly: one protection at a time is taken
away.
"""

import pytest

from quire.engine import handover
from quire.ledger.port import OutboxMessage
from quire.ledger.sqlite.rows import SQL
from tests.simulation.flow.test_finds_bugs import finds


@pytest.mark.slow
def test_moves_without_compare_and_swap_are_missed(monkeypatch):
    words = "AND stage = ?10 AND phase = ?11 AND cursor = ?12 AND round = ?13"
    assert words in SQL["move"]
    anything = "AND ?10 || ?11 || ?12 || ?13 IS NOT NULL"
    monkeypatch.setitem(SQL, "move", SQL["move"].replace(words, anything))
    assert finds()


def test_a_message_for_each_round_is_missed(monkeypatch):
    async def always(batches, files, blobs, batch, phases, alive):
        message = await hand_over(batches, files, blobs, batch, phases, alive)
        return message or OutboxMessage(
            queue=batch.hands_over_to,
            message_id=f"handover-{batch.id}-{batch.position.round}",
            body=(await batches.get_start_message(batch.no)).encode(),
        )

    hand_over = handover.hand_over
    monkeypatch.setattr(handover, "hand_over", always)
    assert finds()


def test_a_first_manifest_that_is_not_kept_is_missed(monkeypatch):
    async def overwritten(blobs, key):
        await blobs.put(handover.original_key(key), await blobs.get(key))

    monkeypatch.setattr(handover, "keep_original", overwritten)
    assert finds()
