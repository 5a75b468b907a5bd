"""Batches whose documents move on by themselves: intake and joins. Claims are in `flow_claims`, folders in
`flow_units`.

Every method is one transaction. Who changes a batch holds its row first, by a statement of its own: what the
next statement reads was committed before. Cost per task does not depend on the size of the batch.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import Values, clean_text
from quire.ledger.documents import KnownDocuments
from quire.ledger.flow_rows import EffectRows, folder_file, open_phases, read_join
from quire.ledger.flow_values import Admission, CompleteJoin, Effects, ListedInput
from quire.ledger.postgres.flow_effects import write_effects
from quire.ledger.postgres.flow_progress import HeldFlow, ask_flow, hold_flow, read_flow
from quire.ledger.postgres.rows import (
    SQL,
    all_rows,
    change,
    columns,
    load_batch,
    notify_listeners,
    one_row,
    record_event,
)
from quire.ledger.rows import Row, file_columns, read_file
from quire.model.batch import Batch
from quire.model.errors import Missing, Stale
from quire.model.files import fold

Doubts = Sequence[tuple[int, str, str]]


class PostgresFlowStore:
    _database: PostgresDatabase
    _documents: KnownDocuments

    async def begin_flow(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:
        async def work(connection: Connection) -> Batch:
            if not await change(connection, "flow_begin", (waits_at, now, batch.no)):
                raise Stale(f"batch {batch.id} has been begun by somebody else")
            async with connection.pipeline():
                _, numbers, names, starts = zip(*open_phases(batch.no, phases, delays, now), strict=True)
                opened = (batch.no, list(numbers), list(names), list(starts))
                await change(connection, "flow_open_phases", opened)
                await record_event(
                    connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1}
                )
                return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def get_plan(self, batch_no: int) -> str:
        row = await self._database.read(lambda connection: one_row(connection, "flow_plan", (batch_no,)))
        if row is None:
            raise Missing(f"there is no batch {batch_no}", code="unknown_batch")
        return str(row[0])

    async def admit_files(
        self,
        batch: Batch,
        admissions: Sequence[Admission],
        *,
        cursor: int,
        admitted: int,
        admissible: int,
        complete: bool,
        now: float,
    ) -> Batch:
        moved = {
            "cursor": cursor,
            "admitted": admitted,
            "admissible": admissible,
            "complete": complete,
            "now": now,
            "no": batch.no,
            "at_cursor": batch.position.cursor,
            "at_admitted": 0 if batch.flow is None else batch.flow.admitted,
        }

        async def work(connection: Connection) -> Batch:
            held = await move_and_hold(connection, batch, "flow_admit", moved)
            rows = EffectRows(batch.no, held.last_file, held.cursors)
            for one in admissions:
                if one.file is not None:
                    own = file_columns(one.file)
                    rows.files.append((batch.no, one.no, one.no, 0, True, "input", *own, None, ""))
                if one.first is not None:
                    rows.follow(one.first, one.no)
            held.add_rows(rows)
            async with connection.pipeline():
                await write_effects(connection, batch.no, rows)
                await held.write(connection, now)
                return await load_batch(connection, batch.no)

        changed = await self._database.write(work)
        self._documents.admit(batch.no, admissions)
        return changed

    async def rest_batch(self, batch_no: int, member: int, *, now: float) -> None:
        async def work(connection: Connection) -> None:
            held = await hold_flow(connection, batch_no)
            async with connection.pipeline():
                if held is not None:
                    await held.write(connection, now)
                await change(connection, "flow_rest", (batch_no, member))

        await self._database.write(work)

    async def find_listed(self, batch_no: int, paths: Collection[str]) -> dict[str, list[ListedInput]]:
        twins = {path for path in paths if path.startswith("twins:")}
        folders = {path for path in paths if path.endswith("/")} - twins
        files = set(paths) - folders - twins
        alike = [path.removeprefix("twins:") for path in sorted(twins)]

        async def work(connection: Connection) -> tuple[list[Row], list[Row], list[Row]]:
            return (
                await all_rows(connection, "flow_listed_files", (batch_no, sorted(files))) if files else [],
                await all_rows(connection, "flow_listed_folders", (sorted(folders), batch_no))
                if folders
                else [],
                await all_rows(connection, "flow_twin_folders", (list(map(fold, alike)), alike, batch_no))
                if alike
                else [],
            )

        of_files, of_folders, of_twins = await self._database.read(work)
        found: dict[str, list[ListedInput]] = {}
        for no, folded, born, root, *own in of_files:
            one = ListedInput(no, folded, read_file(tuple(own)), born, root)
            found.setdefault(folded, []).append(one)
        for (folder,) in of_folders:
            found[folder] = [ListedInput(0, folder, folder_file(folder))]
        for folder, path in of_twins:
            found[f"twins:{folder}"] = [ListedInput(0, fold(path), folder_file(path))]
        return found

    async def list_complete_joins(self, batch_no: int, limit: int) -> list[CompleteJoin]:
        async def work(connection: Connection) -> tuple[list[Row], list[Row]]:
            joins = await all_rows(connection, "flow_complete_joins", (batch_no, limit))
            if not joins:
                return [], []
            phases, files = columns(row[:2] for row in joins)
            return joins, await all_rows(connection, "flow_branches", (phases, files, batch_no))

        joins, rows = await self._database.read(work)
        branches: dict[tuple[int, int], list[Row]] = {}
        for phase, file_no, *branch in rows:
            branches.setdefault((phase, file_no), []).append(tuple(branch))
        return [read_join(row, branches.get((row[0], row[1]), [])) for row in joins]

    async def apply_joins(self, batch: Batch, joins: Sequence[tuple[Effects, Doubts]], *, now: float) -> None:
        batch_no = batch.no

        async def work(connection: Connection) -> None:
            held = await hold_flow(connection, batch_no)
            if not joins or held is None or not held.flows:
                return  # it waits for the batch to be opened again
            if held.round != batch.position.round:
                raise Stale(f"batch {batch.id} has moved on")
            values = {
                "phases": [effects.phase for effects, _ in joins],
                "files": [effects.parent_no for effects, _ in joins],
                "no": batch_no,
            }
            resolved = set(await all_rows(connection, "flow_resolve_joins", values))
            rows = EffectRows(batch_no, held.last_file, held.cursors)
            doubts: list[Row] = []
            for effects, own in joins:
                place = (effects.phase, effects.parent_no)
                if place not in resolved:
                    continue
                resolved.discard(place)
                held.settle_joins(1)
                rows.add([effects])
                doubts += ((*place, branch, kind, clean_text(error)) for branch, kind, error in own)
            held.add_rows(rows)
            async with connection.pipeline():
                await write_effects(connection, batch_no, rows)
                await fail_branches(connection, batch_no, doubts)
                await held.write(connection, now)

        await self._database.write(work)

    async def release_flow_claims(self, batch_no: int, attempts: Sequence[tuple[int, int]]) -> None:
        if not attempts:
            return

        async def work(connection: Connection) -> None:
            async with connection.pipeline():
                await change(connection, "lock_batch", (batch_no,))
                await change(connection, "flow_give_back", (*columns(attempts), batch_no))
                await change(connection, "set_alarm", (0.0, batch_no))
                await notify_listeners(connection)

        await self._database.write(work)

    async def _flow_rows(self, query: str, values: Values) -> list[Row]:
        return await self._database.read(lambda connection: all_rows(connection, query, values))


async def move_and_hold(connection: Connection, batch: Batch, query: str, values: dict[str, Any]) -> HeldFlow:
    """A compare-and-swap on the batch, which holds its row, and its counters after that."""
    async with connection.pipeline():
        moved = await connection.execute(SQL[query], values)
        asked = await ask_flow(connection, batch.no)
    held = await read_flow(batch.no, asked)
    if held is None or not moved.rowcount:
        raise Stale(f"batch {batch.id} has moved on")
    return held


async def fail_branches(connection: Connection, batch_no: int, doubts: Sequence[Row]) -> None:
    """Results that turned out at the join not to fit together: (phase, file, branch, error class, reason)."""
    if not doubts:
        return
    await change(connection, "flow_doubt_branches", (*columns(doubts), batch_no))
    phases = Counter(doubt[0] for doubt in doubts)
    counts = ((phase, -count, count, 0, 0.0, 0, 0, 0, 0, 0) for phase, count in phases.items())
    await change(connection, "flow_count_settled", (*columns(counts), batch_no))
    kinds = Counter(doubt[3] for doubt in doubts)
    await change(connection, "count_failures", (batch_no, list(kinds), list(kinds.values())))
