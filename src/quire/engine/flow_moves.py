"""What a scheduler does for a batch that flows: its intake, the joins of steps side by side, the units of
phases about folders. Everything else happens when tasks are settled.

Each move is one transaction of the ledger, compare-and-swapped where two schedulers could meet.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from quire.blobs import keys
from quire.blobs.port import Blobs
from quire.engine import manifest
from quire.engine.flow import Settled, encode_values, follow, list_rivals, next_waiting_phase, plan_effects
from quire.engine.stopped import find_stopped, may_stop
from quire.ledger.flow_values import Admission, UnitFolder, UnitTask
from quire.ledger.port import FlowStore, ListedFile
from quire.model.batch import Batch, FlowState
from quire.model.clock import Clock
from quire.model.files import File
from quire.model.manifest import Manifest, files
from quire.model.plan import Plan, PlanUnit
from quire.model.work import MemberFile, Value

ROWS_AT_ONCE = 2000
JOINS_AT_ONCE = 500
UNITS_AT_ONCE = 100


class _OpenManifest:
    """A manifest that is read in chunks, twice: once for the list, once for the first tasks."""

    def __init__(self, checked: Manifest) -> None:
        self._manifest = checked
        self._at = -1
        self._following: File | None = None  # the first entry that was not given out
        self._entries: Iterator[File] = iter(())

    def read(self, after: int, limit: int) -> tuple[list[File], bool]:
        """Up to `limit` entries after so many, and whether they are the last."""
        if after != self._at:
            self._entries = files(self._manifest)
            for _ in islice(self._entries, after):
                pass  # written before a restart
            self._following = next(self._entries, None)
        chunk = [] if self._following is None else [self._following]
        chunk += islice(self._entries, limit - len(chunk))
        self._following = next(self._entries, None)
        self._at = after + len(chunk)
        return chunk, self._following is None


class FlowMoves:
    def __init__(self, flow: FlowStore, blobs: Blobs, clock: Clock) -> None:
        self._flow = flow
        self._blobs = blobs
        self._clock = clock
        self._manifests: dict[int, _OpenManifest] = {}  # by batch

    def forget(self, batch_no: int | None = None) -> None:
        """Forget manifests that are being read."""
        if batch_no is None:
            self._manifests.clear()
        else:
            self._manifests.pop(batch_no, None)

    async def begin(self, batch: Batch, plan: Plan) -> Batch:
        names = [phase.name for phase in plan.phases]
        waits_at = next_waiting_phase(plan, 0)
        delays = [phase.pace.first_seconds for phase in plan.phases]
        return await self._flow.begin_flow(
            batch, phases=names, waits_at=waits_at, now=self._clock.now(), delays=delays
        )

    async def move(self, batch: Batch, plan: Plan) -> tuple[Batch, bool]:
        """Make the next move; False: there is none at present."""
        flow = batch.flow or FlowState()
        if flow.gathers:
            return await self._gather(batch, plan, flow), True
        if await self._resolve_joins(batch, plan):
            return batch, True
        if flow.sources and batch.manifest_key is None:
            return batch, False  # the process that runs the folder brings its files
        if flow.sources:
            return await self._admit(batch, plan, flow), True
        if flow.waits_at is not None:
            gathering = await self._flow.begin_gather(batch, flow.waits_at)
            return gathering or batch, gathering is not None
        return batch, False

    async def _admit(self, batch: Batch, plan: Plan, flow: FlowState) -> Batch:
        """A chunk of the intake. All files are listed before the first one gets a task: what results are
        called depends on the whole list.
        """
        if flow.admitted < flow.admissible:
            return await self._give_first_tasks(batch, plan, flow)
        cursor = batch.position.cursor
        entries, is_end = await self._read_entries(batch, cursor, ROWS_AT_ONCE)
        last = cursor + len(entries)
        whole = is_end and not cursor  # a short list is written and given its tasks at once
        if whole:
            self.forget(batch.no)
        admissions = [
            Admission(no, file, follow(plan, file, no, 0) if whole else None)
            for no, file in enumerate(entries, start=cursor + 1)
        ]
        return await self._flow.admit_files(
            batch,
            admissions,
            cursor=last,
            admitted=last if whole else 0,
            admissible=last if is_end else 0,
            complete=is_end and (whole or not last),
            now=self._clock.now(),
        )

    async def _give_first_tasks(self, batch: Batch, plan: Plan, flow: FlowState) -> Batch:
        limit = min(ROWS_AT_ONCE, flow.admissible - flow.admitted)
        entries, _ = await self._read_entries(batch, flow.admitted, limit)
        first = flow.admitted + 1
        admissions = [
            Admission(no, None, follow(plan, file, no, 0), file)
            for no, file in enumerate(entries, start=first)
        ]
        admitted = flow.admitted + len(entries)
        if admitted == flow.admissible:
            self.forget(batch.no)
        return await self._flow.admit_files(
            batch,
            admissions,
            cursor=batch.position.cursor,
            admitted=admitted,
            admissible=flow.admissible,
            complete=admitted == flow.admissible,
            now=self._clock.now(),
        )

    async def _read_entries(self, batch: Batch, after: int, limit: int) -> tuple[list[File], bool]:
        """The next entries of the manifest, and whether they are the last."""
        opened = self._manifests.get(batch.no)
        if opened is None:
            opened = _OpenManifest(await manifest.read_manifest(self._blobs, batch))
            self._manifests[batch.no] = opened
        return opened.read(after, limit)

    async def _resolve_joins(self, batch: Batch, plan: Plan) -> bool:
        joins = await self._flow.list_complete_joins(batch.no, JOINS_AT_ONCE)
        if not joins:
            return False
        settled = [Settled(one.place, one.file, one.branches) for one in joins]
        rivals: set[str] = set()
        for one in settled:
            rivals |= list_rivals(plan, one)
        listed = await self._flow.find_listed(batch.no, rivals) if rivals else {}
        planned = []
        for one in settled:
            effects, doubts = plan_effects(plan, one, listed)
            planned.append((effects, [(doubt.branch, doubt.error_class, doubt.error) for doubt in doubts]))
        await self._flow.apply_joins(batch, planned, now=self._clock.now())
        return True

    async def _gather(self, batch: Batch, plan: Plan, flow: FlowState) -> Batch:
        phase = flow.waits_at or 0
        if flow.gathers == 1:
            return await self._find_units(batch, plan, phase)
        return await self._give_unit_tasks(batch, plan, phase)

    async def _find_units(self, batch: Batch, plan: Plan, phase: int) -> Batch:
        """The folders of the documents that the phase takes, with all folders above them."""
        files = await self._flow.list_seen(batch.no, phase, after=batch.position.cursor, limit=ROWS_AT_ONCE)
        rule = plan.phases[phase - 1]
        accepts = rule.steps[0].accepts
        stopped: set[int] = set()
        if files and may_stop(plan, phase):
            behind = await self._flow.list_tasks_behind(batch.no, [one.no for one in files])
            stopped = find_stopped(plan, files, behind, before=phase)
        members = [
            ("" if rule.unit is PlanUnit.BATCH else _folder(one.file.path), one.no)
            for one in files
            if accepts.matches(one.file) and one.no not in stopped
        ]
        folders = {above for path in {path for path, _ in members} for above in _with_ancestors(path)}
        return await self._flow.add_units(
            batch,
            phase,
            members,
            sorted(folders),
            cursor=files[-1].no if files else batch.position.cursor,
            complete=len(files) < ROWS_AT_ONCE,
            now=self._clock.now(),
        )

    async def _give_unit_tasks(self, batch: Batch, plan: Plan, phase: int) -> Batch:
        now = self._clock.now()
        units = await self._flow.list_flow_units(
            batch.no, phase, after=batch.position.cursor, limit=UNITS_AT_ONCE
        )
        if not units:
            following = next_waiting_phase(plan, phase)
            return await self._flow.end_gather(batch, waits_at=following, now=now)
        above = {_folder(unit.path) for unit, _ in units if unit.path}
        numbers = await self._flow.find_unit_numbers(batch.no, phase, above)
        names = _value_names(plan, phase)
        given = await self._values_of_folders(batch, plan, phase, [unit.path for unit, _ in units])
        tasks = []
        for unit, below in units:
            task = await self._store_unit(batch, phase, unit, below, numbers, names)
            tasks.append(msgspec.structs.replace(task, given=encode_values(given.get(unit.path, {}))))
        return await self._flow.add_unit_tasks(batch, phase, tasks, cursor=units[-1][0].no, now=now)

    async def _store_unit(
        self,
        batch: Batch,
        phase: int,
        unit: UnitFolder,
        below: int,
        numbers: dict[str, int],
        names: dict[tuple[int, int], str],
    ) -> UnitTask:
        """Store the list of a unit's members. It is content-addressed, so a unit whose members have not
        changed has the same digest and is answered by the step cache.
        """
        members = await self._flow.list_unit_members(batch.no, unit.no)
        members = sorted(members, key=lambda one: one.file.path)
        values = await self._values_of(batch, phase, members, names)
        listed = msgspec.json.encode([_member(one.file, values.get(one.no, {})) for one in members])
        digest = hashlib.sha256(listed).hexdigest()
        key = keys.content(digest)
        await self._blobs.put(key, listed, content_type="application/json")
        root = members[0].root_no if members else 0
        root = root or await self._flow.find_nearest_root(batch.no, phase, unit.path)
        blocks = numbers.get(_folder(unit.path)) if unit.path else None
        return UnitTask(unit.no, root, key, len(listed), digest, below, blocks)

    async def _values_of_folders(
        self, batch: Batch, plan: Plan, phase: int, paths: Sequence[str]
    ) -> dict[str, dict[str, Value]]:
        """What steps of earlier phases gave for the same folders (or for the batch)."""
        found: dict[str, dict[str, Value]] = {}
        unit = plan.phases[phase - 1].unit
        for number, earlier in enumerate(plan.phases[: phase - 1], start=1):
            if earlier.unit is not unit or not earlier.steps[0].gives_value:
                continue
            units = await self._flow.find_unit_numbers(batch.no, number, paths)
            values = await self._flow.list_values(batch.no, phase, list(units.values()))
            for path, no in units.items():
                for at, _, value in values[no]:
                    if at == number:
                        found.setdefault(path, {})[earlier.steps[0].name] = value
        return found

    async def _values_of(
        self, batch: Batch, phase: int, members: Sequence[ListedFile], names: dict[tuple[int, int], str]
    ) -> dict[int, dict[str, Value]]:
        if not names:
            return {}
        found = await self._flow.list_values(batch.no, phase, [one.no for one in members])
        return {
            no: {names[at, branch]: value for at, branch, value in values if (at, branch) in names}
            for no, values in found.items()
        }


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _with_ancestors(path: str) -> Iterator[str]:
    yield path
    while path:
        path = _folder(path)
        yield path


def _value_names(plan: Plan, before: int) -> dict[tuple[int, int], str]:
    """By phase and branch: the names of the steps of earlier phases that give values."""
    return {
        (number, branch): step.name
        for number, phase in enumerate(plan.phases[: before - 1], start=1)
        for branch, step in enumerate(phase.steps)
        if step.gives_value
    }


def _member(file: File, values: dict[str, Value]) -> MemberFile:
    return MemberFile(**{name: getattr(file, name) for name in File.__struct_fields__}, values=values)
