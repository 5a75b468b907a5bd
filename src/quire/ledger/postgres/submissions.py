"""Files arrive over HTTP: announced, received, withdrawn, and the batch closed with its first message."""

from collections.abc import Sequence
from typing import Any

import msgspec

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import clean_row
from quire.ledger.postgres.rows import (
    SQL,
    add_outbox_message,
    all_rows,
    change,
    notify_listeners,
    numbers,
    one_row,
    record_event,
)
from quire.ledger.rows import Row, draft_columns, read_upload
from quire.ledger.submission_rows import (
    UPLOAD_COLUMNS,
    UploadCounts,
    announced_columns,
    build_collision_error,
    build_idempotency_error,
    build_not_open_error,
    build_reannounced_error,
    check_batch_limits,
    check_new_batch,
    check_quota,
    exceeds_opening,
    keep_last,
    list_folders_above,
    mark_taken,
    name_of,
    read_submission,
    submission_columns,
)
from quire.ledger.submissions import (
    NO_LIMITS,
    TAKEN,
    NewSubmission,
    OwnerLoad,
    OwnerQuota,
    Submission,
    UploadLimits,
)
from quire.ledger.values import OutboxMessage, Upload
from quire.model.errors import Missing, Stale
from quire.model.files import fold


class PostgresSubmissionStore:
    _database: PostgresDatabase

    async def open_submission(self, new: NewSubmission) -> Submission:
        return await self._database.write(lambda connection: _open(connection, new))

    async def get_submission(self, batch_id: str) -> Submission:
        return await self._database.read(lambda connection: _load(connection, "submission_by_id", batch_id))

    async def announce_upload(
        self, batch_no: int, upload: Upload, *, now: float, limits: UploadLimits = NO_LIMITS
    ) -> Upload | None:
        path = upload.path
        values = _find_upload(batch_no, upload, now)
        values |= {"folders": list_folders_above(path), "from": f"{path}/", "to": f"{path}0"}

        async def work(connection: Connection) -> Row:
            is_open, rival, *more = await _change_upload(connection, "announce", values)
            if not is_open:
                raise build_not_open_error(batch_no)
            if rival is not None:
                raise build_collision_error(path, rival)
            size = len(UploadCounts._fields)
            await _check_limits(connection, UploadCounts._make(more[:size]), limits)
            return tuple(more[size:])

        earlier = await self._database.write(work)
        return None if earlier[0] is None else read_upload(earlier)

    async def get_upload(self, batch_no: int, path: str) -> Upload:
        row = await self._database.read(lambda connection: one_row(connection, "upload_at", (batch_no, path)))
        if row is None:
            raise Missing(f"{path} was not announced in batch {batch_no}", code="unknown_upload")
        return read_upload(row)

    async def record_received(self, batch_no: int, upload: Upload, *, now: float) -> None:
        values = _find_upload(batch_no, mark_taken(upload, now), now)
        is_open, state, stamp = await _changed(self._database, "received", values)
        if stamp != upload.stamp:
            raise build_reannounced_error(batch_no, upload.path)
        if not is_open and state != TAKEN:
            raise build_not_open_error(batch_no)

    async def withdraw_upload(
        self, batch_no: int, path: str, *, now: float, awaited_only: bool = False
    ) -> Upload | None:
        values = {"no": batch_no, "path": path, "now": now, "kept": TAKEN if awaited_only else ""}
        is_open, *earlier = await _changed(self._database, "withdraw_upload", values)
        if not is_open:
            raise build_not_open_error(batch_no)
        return None if earlier[0] is None else read_upload(tuple(earlier))

    async def list_awaited(self, batch_no: int, *, limit: int) -> list[Upload]:
        return [read_upload(row) for row in await _fetch(self._database, "awaited", (batch_no, limit))]

    async def list_arrivals(
        self, batch_no: int, *, after: tuple[str, str] | None, limit: int
    ) -> list[Upload]:
        values = (batch_no, *(after or ("", "")), limit)
        return [read_upload(row) for row in await _fetch(self._database, "arrivals", values)]

    async def accept_processed(
        self, batch_no: int, uploads: Sequence[Upload], *, message: OutboxMessage, now: float
    ) -> Submission:
        taken = [mark_taken(upload, now) for upload in keep_last(uploads)]
        values = {"no": batch_no, "files": len(taken), "now": now}

        async def work(connection: Connection) -> Submission:
            await one_row(connection, "hold_submission", (batch_no,))
            row = await one_row(connection, "end_elsewhere", values)
            if row is None:
                raise Stale(f"batch {batch_no} is open, has ended or is none")
            await _replace_files(connection, batch_no, taken, *row)
            size = sum(upload.size for upload in taken)
            await change(connection, "recount_submission", values | {"size": size})
            await add_outbox_message(connection, message, now)
            await record_event(
                connection, batch_no, now, "batch_processed_elsewhere", {"total_files": len(taken)}
            )
            await notify_listeners(connection)
            return await _load(connection, "submission_by_no", batch_no)

        return await self._database.write(work)

    async def measure_load(self, owner: str, *, counts_kept: bool = False) -> OwnerLoad:
        quota = OwnerQuota(counts_kept=counts_kept)
        return await self._database.read(lambda connection: _measure(connection, owner, quota))

    async def list_idle_submissions(self, *, before: float, limit: int) -> list[Submission]:
        return [
            read_submission(row) for row in await _fetch(self._database, "idle_submissions", (before, limit))
        ]

    async def list_sweepable(self, *, before: float, limit: int) -> list[Submission]:
        return [read_submission(row) for row in await _fetch(self._database, "sweepable", (before, limit))]

    async def mark_swept(self, batch_no: int, *, now: float) -> None:
        async def work(connection: Connection) -> None:
            if await change(connection, "swept", (now, batch_no)):
                await change(connection, "unstage", (batch_no,))
                await record_event(connection, batch_no, now, "staging_swept", {})

        await self._database.write(work)


def _find_upload(batch_no: int, upload: Upload, now: float) -> dict[str, Any]:
    record_event = dict(zip(UPLOAD_COLUMNS, clean_row(announced_columns(upload)), strict=True))
    return record_event | {"no": batch_no, "now": now}


async def _open(connection: Connection, new: NewSubmission) -> Submission:
    draft, key = new.draft, new.idempotency_key
    if key is not None:
        await one_row(connection, "hold_key", (new.owner, key))
        known = await one_row(connection, "submission_by_key", (new.owner, key))
        if known is not None:
            if known[1] != new.fingerprint:
                raise build_idempotency_error(key)
            return await _load(connection, "submission_by_no", known[0])
    if new.max_batches or new.quota.max_bytes or new.quota.max_files:
        # One after the other: of two that come at once the second counts the first.
        await one_row(connection, "hold_key", (new.owner, ""))
        check_new_batch(new, await _measure(connection, new.owner, new.quota))
    (no,) = await numbers(connection, "insert_batch", draft_columns(draft))
    async with connection.pipeline():
        await change(connection, "own_batch", (new.owner, no))
        await change(connection, "insert_submission", (no, *clean_row(submission_columns(new))))
        await record_event(connection, no, draft.now, "batch_opened", {"pipeline": draft.pipeline})
    return await _load(connection, "submission_by_no", no)


async def _check_limits(connection: Connection, counts: UploadCounts, limits: UploadLimits) -> None:
    check_batch_limits(counts, limits)
    if exceeds_opening(counts, limits.owner):
        await one_row(connection, "hold_key", (counts.owner, ""))
        check_quota(counts.owner, await _measure(connection, counts.owner, limits.owner), limits.owner)


async def _measure(connection: Connection, owner: str, quota: OwnerQuota) -> OwnerLoad:
    row = await one_row(connection, "owners_kept" if quota.counts_kept else "owners_load", (owner,))
    return OwnerLoad(*row) if row is not None else OwnerLoad(0, 0, 0)


async def _load(connection: Connection, query: str, name: str | int) -> Submission:
    row = await one_row(connection, query, (name,))
    if row is None:
        raise Missing(f"there is no submission {name}", code="unknown_batch")
    return read_submission(row)


async def _replace_files(
    connection: Connection, batch_no: int, uploads: Sequence[Upload], last_file: int, round_no: int
) -> None:
    async with connection.pipeline():
        for query in ("drop_uploads", "drop_files", "drop_members", "drop_unsettled", "drop_failures"):
            await change(connection, query, (batch_no,))
        await change(connection, "drop_counts", (batch_no,))
        await change(connection, "clear_alarm", (batch_no,))
        values = {"no": batch_no, "last_file": last_file, "round": round_no}
        await change(connection, "insert_processed", values | {"uploads": _document(uploads)})


def _document(uploads: Sequence[Upload]) -> str:
    names = (*UPLOAD_COLUMNS, "folded", "name")
    rows = [(*announced_columns(one), fold(one.path), name_of(one.path)) for one in uploads]
    text = msgspec.json.encode([dict(zip(names, row, strict=True)) for row in rows])
    if b"\\u0000" in text:  # rare, and looking at each value is dear
        text = msgspec.json.encode([dict(zip(names, clean_row(row), strict=True)) for row in rows])
    return text.decode()


async def _fetch(database: PostgresDatabase, query: str, values: Row) -> list[Row]:
    return await database.read(lambda connection: all_rows(connection, query, values))


async def _changed(database: PostgresDatabase, query: str, values: dict[str, Any]) -> Row:
    return await database.write(lambda connection: _change_upload(connection, query, values))


async def _change_upload(connection: Connection, query: str, values: dict[str, Any]) -> Row:
    """Hold the submission and change one of its files, both sent in one go: until the commit, others who
    change files of the same batch wait.
    """
    async with connection.pipeline():
        await connection.execute(SQL["hold_submission"], (values["no"],))
        asked = await connection.execute(SQL[query], values)
    row: Row | None = await asked.fetchone()
    assert row is not None  # noqa: S101 - it answers always
    return row
