"""The named queries of this adapter, how they are asked, and the few statements that every door needs."""

import json
from collections.abc import Iterable
from typing import Any

from quire.database.postgres import Connection
from quire.database.postgres_queries import PostgresQueries
from quire.ledger.port import Known, Only, OutboxMessage
from quire.ledger.rows import OVER_BUDGET, Row, read_batch
from quire.model.batch import Batch

FILES = ("queries.sql", "submissions.sql", "flow.sql", "adoption.sql", "intake.sql")
_queries = PostgresQueries("quire.ledger.postgres.sql", *FILES)
SQL = _queries.texts
all_rows, one_row, numbers, change = _queries.all_rows, _queries.one_row, _queries.numbers, _queries.change


async def load_batch(connection: Connection, no: int) -> Batch:
    return read_batch(await one_row(connection, "batch_by_no", (no,)), no)


def columns(rows: Iterable[Row]) -> list[list[Any]]:
    """Rows as the arrays that `unnest` takes. Not for no rows: their columns cannot be known."""
    return [list(column) for column in zip(*rows, strict=True)]


def encode_batch_numbers(only: Only) -> list[int] | None:
    """A choice of batches as statements take it; NULL is all."""
    return None if only is None else sorted(only)


def encode_pipelines(known: Known) -> dict[str, Any]:
    """A choice of pipelines as statements take it: names, versions and digests side by side; NULL is all."""
    if known is None:
        return {"pipelines": None, "versions": None, "digests": None}
    names, versions, digests = columns(known) or ([], [], [])
    return {"pipelines": names, "versions": versions, "digests": digests}


async def record_event(
    connection: Connection, batch_no: int, at: float, kind: str, data: dict[str, object]
) -> None:
    """An event, with the deliveries to those who want to be told of it."""
    await connection.execute(SQL["insert_event"], (batch_no, at, kind, json.dumps(data)))


async def add_outbox_message(connection: Connection, message: OutboxMessage, now: float) -> None:
    await connection.execute(SQL["insert_letter"], (message.queue, message.message_id, message.body, now))


async def hold_over_budget(connection: Connection, batch_no: int, now: float) -> None:
    values = {"no": batch_no, "now": now, "reason": OVER_BUDGET, "data": json.dumps({"reason": OVER_BUDGET})}
    await connection.execute(SQL["hold_over_budget"], values)


async def is_removed(connection: Connection, member: int) -> bool:
    """Whether another member declared this one dead: a task that it claims now would belong to no member. A
    member that was not removed keeps its row until this transaction commits.
    """
    if await one_row(connection, "hold_member", (member,)) is not None:
        return False
    return await one_row(connection, "was_enlisted", (member,)) is not None


async def notify_listeners(connection: Connection) -> None:
    """Others have something to do once this is committed."""
    await connection.execute(SQL["wake"])
