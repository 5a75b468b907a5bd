"""Files arrive: batches are opened, uploads noted, and the batch closed with its first message."""

import sqlite3
from collections.abc import Sequence

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import BatchDraft, OutboxMessage, Upload
from quire.ledger.rows import draft_columns, read_batch, read_upload, upload_columns
from quire.ledger.sqlite.rows import SQL, load_batch, record_event
from quire.model.batch import Batch
from quire.model.errors import Stale


class SqliteUploadStore:
    _database: SqliteDatabase

    async def open_batch(self, draft: BatchDraft) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            no = insert_batch(connection, draft)
            record_event(connection, no, draft.now, "batch_opened", {"pipeline": draft.pipeline})
            return load_batch(connection, no)

        return await self._database.write(work)

    async def find_run(self, run_key: str) -> Batch | None:
        def work(connection: sqlite3.Connection) -> Batch | None:
            row = connection.execute(SQL["newest_by_run_key"], (run_key,)).fetchone()
            return None if row is None else read_batch(row, run_key)

        return await self._database.read(work)

    async def record_uploads(self, batch_no: int, uploads: Sequence[Upload]) -> None:
        rows = [(batch_no, *upload_columns(upload)) for upload in uploads]
        await self._database.write(lambda connection: connection.executemany(SQL["upsert_upload"], rows))

    async def list_uploads(self, batch_no: int, *, after: str = "", limit: int) -> list[Upload]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["uploads_after"], (batch_no, after, limit)).fetchall()
        )
        return [read_upload(row) for row in rows]

    async def close_batch(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        message: OutboxMessage,
        now: float,
        refused: int = 0,
        passed_over: int = 0,
        revision: int | None = None,
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            if revision is not None:
                closing = (now, batch_no, revision)
                if connection.execute(SQL["close_submission"], closing).fetchone() is None:
                    raise Stale(f"batch {batch_no} is not open any more, or its files have changed")
            counts = (total_files, refused, passed_over)
            values = (manifest_key, *counts, message.body.decode(), now, batch_no)
            if not connection.execute(SQL["finalize"], values).rowcount:
                raise Stale(f"batch {batch_no} is not open any more")
            add_outbox_message(connection, message, now)
            record_event(connection, batch_no, now, "batch_finalized", {"total_files": total_files})
            return load_batch(connection, batch_no)

        return await self._database.write(work)

    async def mark_delivered(self, batch_no: int, *, now: float) -> None:
        await self._database.write(lambda connection: connection.execute(SQL["delivered"], (now, batch_no)))

    async def abandon_batch(
        self, batch_no: int, *, reason: str, now: float, idle_before: float | None = None
    ) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            if idle_before is not None:
                values = (batch_no, idle_before)
                if connection.execute(SQL["still_idle"], values).fetchone() is None:
                    return False
            end = ("cancelled", "CANCELLED", reason, now, batch_no)
            if not connection.execute(SQL["end_batch"], end).rowcount:
                return False
            connection.execute(SQL["clear_alarm"], (batch_no,))
            record_event(connection, batch_no, now, "batch_cancelled", {"reason": reason})
            return True

        return await self._database.write(work)


def add_outbox_message(connection: sqlite3.Connection, message: OutboxMessage, now: float) -> None:
    connection.execute(SQL["insert_letter"], (message.queue, message.message_id, message.body, now))


def insert_batch(connection: sqlite3.Connection, draft: BatchDraft) -> int:
    no = connection.execute(SQL["insert_batch"], draft_columns(draft)).lastrowid
    assert no is not None  # noqa: S101 - an INSERT has one
    return no
