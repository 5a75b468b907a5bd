"""One move of a batch: the compare-and-swap, and all that changes on the way."""

import json

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_text
from quire.ledger.port import Move
from quire.ledger.postgres.rows import add_outbox_message, change, load_batch, notify_listeners, record_event
from quire.model.batch import TERMINAL, Batch
from quire.model.errors import Stale


async def make_move(connection: Connection, move: Move) -> Batch:
    to, expect, no = move.to, move.expect, move.batch_no
    ends = to.stage in TERMINAL
    values = {
        "stage": to.stage.value,
        "phase": to.phase,
        "cursor": to.cursor,
        "round": to.round,
        "status": move.status,
        "now": move.now,
        "error": clean_text(move.error),
        "ends": ends,
        "no": no,
        "at_stage": expect.stage.value,
        "at_phase": expect.phase,
        "at_cursor": expect.cursor,
        "at_round": expect.round,
    }
    if not await change(connection, "move", values):
        raise Stale(f"batch {no} has moved on from {expect}")
    # Nothing below asks for an answer: sent in one go.
    async with connection.pipeline():
        if move.skips is not None:
            error_class, reason = move.skips
            await change(connection, "flow_done_members", {"no": no})
            skipped = {"error_class": error_class, "reason": reason, "own": json.dumps(move.left_alone)}
            await change(connection, "skip_untouched", skipped | {"no": no})
        if move.message is not None:
            await add_outbox_message(connection, move.message, move.now)
        if move.event is not None:
            await record_event(connection, no, move.now, *move.event)
        if ends:
            await change(connection, "clear_alarm", (no,))
        if move.message is not None or ends:
            await notify_listeners(connection)
        return await load_batch(connection, no)
