"""Files arrive over HTTP: announced, received, withdrawn, and the batch closed with its first message."""

import json
import sqlite3
from collections.abc import Sequence

from quire.database.sqlite import SqliteDatabase
from quire.ledger.rows import Row, read_upload
from quire.ledger.sqlite.rows import SQL, record_event
from quire.ledger.sqlite.uploads import add_outbox_message, insert_batch
from quire.ledger.submission_rows import (
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
    input_columns,
    keep_last,
    list_folders_above,
    mark_taken,
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


class SqliteSubmissionStore:
    _database: SqliteDatabase

    async def open_submission(self, new: NewSubmission) -> Submission:
        return await self._database.write(lambda connection: _open(connection, new))

    async def get_submission(self, batch_id: str) -> Submission:
        return await self._database.read(lambda connection: _load(connection, "submission_by_id", batch_id))

    async def announce_upload(
        self, batch_no: int, upload: Upload, *, now: float, limits: UploadLimits = NO_LIMITS
    ) -> Upload | None:
        def work(connection: sqlite3.Connection) -> Upload | None:
            earlier = _find_upload(connection, batch_no, upload.path)
            announced = (0 if earlier else 1, upload.size - (earlier.size if earlier else 0))
            counts = _count(connection, batch_no, earlier, None, now=now, announced=announced)
            check_batch_limits(counts, limits)
            if exceeds_opening(counts, limits.owner):
                check_quota(counts.owner, _measure(connection, counts.owner, limits.owner), limits.owner)
            if earlier is None:
                values = (batch_no, upload.path, json.dumps(list_folders_above(upload.path)))
                rival = connection.execute(SQL["rival_path"], values).fetchone()
                if rival is not None:
                    raise build_collision_error(upload.path, rival[0])
            connection.execute(SQL["put_upload"], (batch_no, *announced_columns(upload)))
            return earlier

        return await self._database.write(work)

    async def get_upload(self, batch_no: int, path: str) -> Upload:
        found = await self._database.read(lambda connection: _find_upload(connection, batch_no, path))
        if found is None:
            raise Missing(f"{path} was not announced in batch {batch_no}", code="unknown_upload")
        return found

    async def record_received(self, batch_no: int, upload: Upload, *, now: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            noted = _find_upload(connection, batch_no, upload.path)
            if noted is None or noted.stamp != upload.stamp:
                raise build_reannounced_error(batch_no, upload.path)
            if noted.state == TAKEN:
                return
            taken = mark_taken(upload, now)
            _count(connection, batch_no, None, taken, now=now, announced=(0, taken.size - noted.size))
            connection.execute(SQL["put_upload"], (batch_no, *announced_columns(taken)))

        await self._database.write(work)

    async def withdraw_upload(
        self, batch_no: int, path: str, *, now: float, awaited_only: bool = False
    ) -> Upload | None:
        def work(connection: sqlite3.Connection) -> Upload | None:
            earlier = _find_upload(connection, batch_no, path)
            if earlier is not None and awaited_only and earlier.state == TAKEN:
                earlier = None
            if earlier is not None:
                _count(connection, batch_no, earlier, None, now=now, announced=(-1, -earlier.size))
                connection.execute(SQL["delete_upload"], (batch_no, path))
            elif connection.execute(SQL["is_open"], (batch_no,)).fetchone() is None:
                raise build_not_open_error(batch_no)
            return earlier

        return await self._database.write(work)

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

        def work(connection: sqlite3.Connection) -> Submission:
            row = connection.execute(SQL["end_elsewhere"], (len(taken), now, batch_no)).fetchone()
            if row is None:
                raise Stale(f"batch {batch_no} is open, has ended or is none")
            _replace_files(connection, batch_no, taken, *row)
            size = sum(upload.size for upload in taken)
            connection.execute(SQL["recount_submission"], (len(taken), size, now, batch_no))
            add_outbox_message(connection, message, now)
            record_event(connection, batch_no, now, "batch_processed_elsewhere", {"total_files": len(taken)})
            return _load(connection, "submission_by_no", batch_no)

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
        def work(connection: sqlite3.Connection) -> None:
            if connection.execute(SQL["swept"], (now, batch_no)).rowcount:
                connection.execute(SQL["unstage"], (batch_no,))
                record_event(connection, batch_no, now, "staging_swept", {})

        await self._database.write(work)


def _open(connection: sqlite3.Connection, new: NewSubmission) -> Submission:
    draft, key = new.draft, new.idempotency_key
    if key is not None:
        known = connection.execute(SQL["submission_by_key"], (new.owner, key)).fetchone()
        if known is not None:
            if known[1] != new.fingerprint:
                raise build_idempotency_error(key)
            return _load(connection, "submission_by_no", known[0])
    if new.max_batches or new.quota.max_bytes or new.quota.max_files:
        check_new_batch(new, _measure(connection, new.owner, new.quota))
    no = insert_batch(connection, draft)
    connection.execute(SQL["own_batch"], (new.owner, no))
    connection.execute(SQL["insert_submission"], (no, *submission_columns(new)))
    record_event(connection, no, draft.now, "batch_opened", {"pipeline": draft.pipeline})
    return _load(connection, "submission_by_no", no)


def _measure(connection: sqlite3.Connection, owner: str, quota: OwnerQuota) -> OwnerLoad:
    query = "owners_kept" if quota.counts_kept else "owners_load"
    return OwnerLoad(*connection.execute(SQL[query], (owner,)).fetchone())


def _load(connection: sqlite3.Connection, query: str, name: str | int) -> Submission:
    row = connection.execute(SQL[query], (name,)).fetchone()
    if row is None:
        raise Missing(f"there is no submission {name}", code="unknown_batch")
    return read_submission(row)


def _find_upload(connection: sqlite3.Connection, batch_no: int, path: str) -> Upload | None:
    row = connection.execute(SQL["upload_at"], (batch_no, path)).fetchone()
    return None if row is None else read_upload(row)


def _count(
    connection: sqlite3.Connection,
    batch_no: int,
    gone: Upload | None,
    come: Upload | None,
    *,
    now: float,
    announced: tuple[int, int] = (0, 0),
) -> UploadCounts:
    """What was taken counts until it is gone; `announced` are files and bytes that were announced in
    addition. Raises Stale when the batch is not open.
    """
    files = size = 0
    if gone is not None and gone.state == TAKEN:
        files, size = -1, -gone.size
    if come is not None:
        files, size = files + 1, size + come.size
    values = (announced[0], files, size, now, batch_no, announced[1])
    row = connection.execute(SQL["count_uploads"], values).fetchone()
    if row is None:
        raise build_not_open_error(batch_no)
    return UploadCounts._make(row)


def _replace_files(
    connection: sqlite3.Connection, batch_no: int, uploads: Sequence[Upload], last_file: int, round_no: int
) -> None:
    for query in ("drop_uploads", "drop_files", "drop_members", "drop_unsettled", "drop_failures"):
        connection.execute(SQL[query], (batch_no,))
    connection.execute(SQL["drop_counts"], (batch_no,))
    connection.execute(SQL["clear_alarm"], (batch_no,))
    connection.executemany(SQL["put_upload"], ((batch_no, *announced_columns(one)) for one in uploads))
    connection.executemany(
        SQL["insert_input"],
        (
            (batch_no, number, *input_columns(one), round_no)
            for number, one in enumerate(uploads, start=last_file + 1)
        ),
    )


async def _fetch(database: SqliteDatabase, query: str, values: Row) -> list[Row]:
    return await database.read(lambda connection: connection.execute(SQL[query], values).fetchall())
