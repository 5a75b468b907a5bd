"""Files come in while the batch flows: their folders are listed, then they are taken one after the other."""

from collections.abc import Collection, Iterable, Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import clean_row
from quire.ledger.flow_rows import EffectRows, open_phases
from quire.ledger.intake import FinishedInput, FolderNames, ListedName, TakenFile
from quire.ledger.intake_rows import (
    check_listed_before,
    keep_files,
    name_columns,
    number_names,
    refuse_more,
    taken_columns,
)
from quire.ledger.port import Upload
from quire.ledger.postgres.flow_effects import write_effects
from quire.ledger.postgres.flow_progress import HeldFlow, hold_flow
from quire.ledger.postgres.rows import (
    all_rows,
    change,
    columns,
    load_batch,
    notify_listeners,
    numbers,
    one_row,
    record_event,
)
from quire.ledger.record_rows import group_products
from quire.ledger.rows import Row, read_batch, read_file, upload_columns
from quire.model.batch import Batch
from quire.model.errors import Stale
from quire.model.files import File, fold


class PostgresIntakeStore:
    _database: PostgresDatabase

    async def begin_intake(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:
        values = {"waits_at": waits_at, "status": phases[0], "now": now, "no": batch.no}

        async def work(connection: Connection) -> Batch:
            if not await change(connection, "intake_begin", values):
                raise Stale(f"batch {batch.id} has been begun by somebody else")
            async with connection.pipeline():
                _, order, names, starts = zip(*open_phases(batch.no, phases, delays, now), strict=True)
                opened = (batch.no, list(order), list(names), list(starts))
                await change(connection, "flow_open_phases", opened)
                await record_event(
                    connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1}
                )
                return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_folder(self, batch_no: int, folder: FolderNames, *, now: float) -> list[ListedName]:
        async def work(connection: Connection) -> list[ListedName]:
            held = await _hold_open(connection, batch_no)
            wanted = [*folder.awaited, *folder.names]
            known = await _find_known(connection, batch_no, wanted[:1])
            if known:
                known = await _find_known(connection, batch_no, wanted)
                check_listed_before(wanted, known)
                return known
            listed = number_names(folder, held.last_file)
            async with connection.pipeline():
                if listed:
                    rows = columns(name_columns(batch_no, one) for one in listed)
                    await change(connection, "flow_insert_files", tuple(rows))
                await _record_uploads(connection, batch_no, folder.refusals)
                await change(connection, "intake_listed", (held.last_file + len(listed), now, batch_no))
            return listed

        return keep_files(await self._database.write(work))

    async def list_names(self, batch_no: int, *, after: int, limit: int) -> list[ListedName]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "intake_names", (batch_no, after, limit))
        )
        return [ListedName(*row) for row in rows]

    async def take_files(self, batch_no: int, files: Sequence[TakenFile], *, now: float) -> None:
        async def work(connection: Connection) -> None:
            held = await _hold_open(connection, batch_no)
            wanted = (batch_no, [one.no for one in files])
            before = set(await numbers(connection, "intake_taken_before", wanted))
            fresh = [one for one in files if one.no not in before]
            taken = [taken_columns(one, one.file) for one in fresh if one.file is not None]
            rows = EffectRows(batch_no, held.last_file, held.cursors)
            for one in fresh:
                if one.first is not None:
                    rows.follow(one.first, one.no)
            held.add_rows(rows)
            async with connection.pipeline():
                await _record_uploads(connection, batch_no, [one.upload for one in fresh])
                refused = [one.no for one in fresh if one.file is None]
                await change(connection, "intake_refuse", (batch_no, refused))
                if taken:
                    await change(connection, "intake_take", (*columns(taken), batch_no))
                await change(connection, "intake_count", (len(taken), batch_no))
                await write_effects(connection, batch_no, rows)
                await held.write(connection, now)

        await self._database.write(work)

    async def close_intake(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        message: bytes,
        refused: int,
        passed_over: int,
        now: float,
    ) -> Batch:
        values = {
            "manifest_key": manifest_key,
            "total_files": total_files,
            "refused": refused,
            "passed_over": passed_over,
            "message": message.decode(),
            "now": now,
            "no": batch_no,
        }

        async def work(connection: Connection) -> Batch:
            if not await change(connection, "intake_close", values):
                raise refuse_more(batch_no)
            held = await hold_flow(connection, batch_no)
            await record_event(connection, batch_no, now, "batch_finalized", {"total_files": total_files})
            if held is not None:
                await held.write(connection, now)
            await notify_listeners(connection)
            return await load_batch(connection, batch_no)

        return await self._database.write(work)

    async def list_runs(self, run_key: str) -> list[Batch]:
        rows = await self._database.read(lambda connection: all_rows(connection, "intake_runs", (run_key,)))
        return [read_batch(row, row[0]) for row in rows]

    async def list_finished(
        self, batch_no: int, *, after: int, numbers: Collection[int], limit: int
    ) -> tuple[list[FinishedInput], int]:
        async def work(connection: Connection) -> tuple[list[FinishedInput], int]:
            # First the number, then the rows: what is numbered later is looked at later.
            row = await one_row(connection, "intake_last_file", (batch_no,))
            to = max(after, min(0 if row is None else row[0], after + limit))
            values = {"no": batch_no, "after": after, "to": to, "numbers": list(numbers)}
            rows = await all_rows(connection, "intake_finished", values)
            roots = [no for no, _, finished in rows if finished]
            made = group_products(await all_rows(connection, "made_files", (batch_no, roots)))
            return [FinishedInput(no, path, finished, made.get(no, [])) for no, path, finished in rows], to

        return await self._database.read(work)

    async def list_withdrawn(self, batch_no: int, *, after: int, limit: int) -> list[tuple[int, File]]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "intake_withdrawn", (batch_no, after, limit))
        )
        return [(no, read_file(tuple(own))) for no, *own in rows]


async def _hold_open(connection: Connection, batch_no: int) -> HeldFlow:
    """The batch's row, held. Raises Stale."""
    held = await hold_flow(connection, batch_no)
    if held is None or not held.takes_files:
        raise refuse_more(batch_no)
    return held


async def _find_known(connection: Connection, batch_no: int, paths: Iterable[str]) -> list[ListedName]:
    wanted = set(paths)
    values = (batch_no, sorted({fold(path) for path in wanted}))
    rows: list[Row] = await all_rows(connection, "intake_known", values)
    return [ListedName(*row) for row in rows if row[1] in wanted]


async def _record_uploads(connection: Connection, batch_no: int, uploads: Sequence[Upload]) -> None:
    if uploads:
        rows = columns(clean_row(upload_columns(upload)) for upload in uploads)
        await change(connection, "upsert_uploads", (batch_no, *rows))
