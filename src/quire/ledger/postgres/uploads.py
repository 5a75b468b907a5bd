"""Files arrive: batches are opened, uploads noted, and the batch closed with its first message."""

from collections.abc import Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import clean_row, clean_text
from quire.ledger.port import BatchDraft, OutboxMessage, Upload
from quire.ledger.postgres.rows import (
    add_outbox_message,
    all_rows,
    change,
    columns,
    load_batch,
    notify_listeners,
    numbers,
    one_row,
    record_event,
)
from quire.ledger.rows import draft_columns, read_batch, read_upload, upload_columns
from quire.model.batch import Batch
from quire.model.errors import Stale


class PostgresUploadStore:
    _database: PostgresDatabase

    async def open_batch(self, draft: BatchDraft) -> Batch:
        async def work(connection: Connection) -> Batch:
            (no,) = await numbers(connection, "insert_batch", draft_columns(draft))
            await record_event(connection, no, draft.now, "batch_opened", {"pipeline": draft.pipeline})
            return await load_batch(connection, no)

        return await self._database.write(work)

    async def find_run(self, run_key: str) -> Batch | None:
        row = await self._database.read(
            lambda connection: one_row(connection, "newest_by_run_key", (run_key,))
        )
        return None if row is None else read_batch(row, run_key)

    async def record_uploads(self, batch_no: int, uploads: Sequence[Upload]) -> None:
        if not uploads:
            return
        # One statement cannot write the same row twice: the last record_event of a path counts.
        latest = {upload.path: upload for upload in uploads}
        values = (batch_no, *columns(clean_row(upload_columns(upload)) for upload in latest.values()))
        await self._database.write(lambda connection: change(connection, "upsert_uploads", values))

    async def list_uploads(self, batch_no: int, *, after: str = "", limit: int) -> list[Upload]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "uploads_after", (batch_no, after, limit))
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
        async def work(connection: Connection) -> Batch:
            if revision is not None:
                closing = {"no": batch_no, "revision": revision, "now": now}
                if await one_row(connection, "close_submission", closing) is None:
                    raise Stale(f"batch {batch_no} is not open any more, or its files have changed")
            counts = (total_files, refused, passed_over)
            values = (manifest_key, *counts, message.body.decode(), now, batch_no)
            if not await change(connection, "finalize", values):
                raise Stale(f"batch {batch_no} is not open any more")
            await add_outbox_message(connection, message, now)
            await record_event(connection, batch_no, now, "batch_finalized", {"total_files": total_files})
            await notify_listeners(connection)
            return await load_batch(connection, batch_no)

        return await self._database.write(work)

    async def mark_delivered(self, batch_no: int, *, now: float) -> None:
        await self._database.write(lambda connection: change(connection, "delivered", (now, batch_no)))

    async def abandon_batch(
        self, batch_no: int, *, reason: str, now: float, idle_before: float | None = None
    ) -> bool:
        values = {"stage": "cancelled", "status": "CANCELLED", "error": clean_text(reason)}

        async def work(connection: Connection) -> bool:
            if idle_before is not None:
                await one_row(connection, "hold_submission", (batch_no,))
                if await one_row(connection, "still_idle", (batch_no, idle_before)) is None:
                    return False
            if not await change(connection, "end_batch", values | {"now": now, "no": batch_no}):
                return False
            await change(connection, "clear_alarm", (batch_no,))
            await record_event(connection, batch_no, now, "batch_cancelled", {"reason": reason})
            await notify_listeners(connection)
            return True

        return await self._database.write(work)
