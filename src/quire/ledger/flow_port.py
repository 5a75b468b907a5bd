"""The door to batches whose documents move on by themselves.

One transaction settles tasks and begets those that follow, so that nothing is lost or done twice between the
two. A batch ends when it has no open task and no source that could bring another: the intake, or a phase
about folders whose units are being made.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from quire.ledger.adoption_port import AdoptionStore
from quire.ledger.flow_values import (
    Admission,
    ClaimRequest,
    CompleteJoin,
    Effects,
    ListedInput,
    TaskBehind,
    UnitFolder,
    UnitTask,
)
from quire.ledger.values import Claim, ListedFile, Settlement, SettleResult, WorkableBatch
from quire.model.batch import Batch
from quire.model.work import Value

Only = Collection[int] | None  # these batch numbers, or all
Known = (
    Collection[tuple[str, int, str]] | None
)  # batches of these pipelines (name, version, digest), or of all


class FlowStore(AdoptionStore, Protocol):
    async def begin_flow(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:
        """The batch has been started: its intake is the first source. `delays` are seconds, by phase, before
        its first task starts. Raises Stale when it was begun.
        """
        ...

    async def get_plan(self, batch_no: int) -> str:
        """The plan that is stored with the batch. Raises Missing."""
        ...

    async def reset_alarm(self, batch_no: int) -> None:
        """Set the batch's alarm to the next moment at which a task is due, or has waited long enough."""
        ...

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
        """Write files of the manifest and the tasks that they begin with. Files up to `admissible` lie in
        folders that are listed in full; up to `admitted` they have been given their tasks. Raises Stale when
        the intake has come further meanwhile. `complete` closes the intake.
        """
        ...

    async def rest_batch(self, batch_no: int, member: int, *, now: float) -> None:
        """The member no longer holds the batch. It is taken again when there is something to do."""
        ...

    async def find_listed(self, batch_no: int, paths: Collection[str]) -> dict[str, list[ListedInput]]:
        """The files at these folded paths, inputs and results. A path with a slash at its end asks whether it
        is a folder of inputs; a folder behind `twins:` asks for inputs in folders that differ from it in case
        (or in how accents are written) alone.
        """
        ...

    async def list_flowing(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        """Batches with tasks to start now, and in which phases, the highest first."""
        ...

    async def claim_phase(
        self, batch_no: int, phase: int, *, member: int, limit: int, now: float, pace_seconds: float = 0.0
    ) -> list[Claim]:
        """Start attempts of one phase: tasks due again first, then new ones. The attempt is counted here,
        before it runs, so that one that kills its worker is counted too. No further claim of the phase gives
        anything before `pace_seconds` have passed. A removed member gets nothing.
        """
        ...

    async def load_claims(self, batch_no: int, task_nos: Collection[int]) -> dict[int, Claim]:
        """These tasks as their last attempt was claimed, for reports that come from elsewhere."""
        ...

    async def list_overdue(self, *, now: float, limit: int, only: Only = None) -> list[tuple[Claim, str]]:
        """Tasks of all batches whose answer from outside did not come in time, with what was heard last."""
        ...

    async def note_answer(self, batch_no: int, task_no: int, attempt: int, error: str) -> bool:
        """Somebody outside has failed and will try again: what was heard is kept, the task goes on waiting.
        False: this attempt does not wait for an answer.
        """
        ...

    async def settle_flow(
        self,
        batch_no: int,
        settlements: Sequence[Settlement],
        *,
        now: float,
        claim: ClaimRequest | None = None,
    ) -> SettleResult:
        """Apply reports with their effects, and claim tasks of the batch after that. Each report counts only
        while its attempt is the current one and the batch flows; of the others the results are kept in the
        step cache alone. A success that arrives after its attempt was given up for lost time still counts
        while the task waits, or has failed and nothing that followed has started; beside other steps, while
        those have not all settled.
        """
        ...

    async def release_flow_claims(self, batch_no: int, attempts: Sequence[tuple[int, int]]) -> None:
        """(task, attempt) of orders that never started: due at once, and not counted as tries."""
        ...

    async def list_complete_joins(self, batch_no: int, limit: int) -> list[CompleteJoin]:
        """Documents whose branches have all settled, and whose effects were not applied yet."""
        ...

    async def apply_joins(
        self, batch: Batch, joins: Sequence[tuple[Effects, Sequence[tuple[int, str, str]]]], *, now: float
    ) -> None:
        """Apply the effects of joins, each once; with them (branch, error class, reason) of results that do
        not fit together with the others: those branches have failed. `batch` was read before the joins were
        listed. Raises Stale when a new round has begun since: its branches may have other results.
        """
        ...

    async def begin_gather(self, batch: Batch, phase: int) -> Batch | None:
        """The units of a phase that waits are made from now on, which is a source. None: not yet, for tasks
        of earlier phases are open, or somebody else has begun.
        """
        ...

    async def list_seen(self, batch_no: int, phase: int, *, after: int, limit: int) -> list[ListedFile]:
        """The file list as the phase sees it, by number."""
        ...

    async def list_tasks_behind(self, batch_no: int, file_nos: Sequence[int]) -> list[TaskBehind]:
        """What may have stopped these documents."""
        ...

    async def add_units(
        self,
        batch: Batch,
        phase: int,
        members: Sequence[tuple[str, int]],
        folders: Sequence[str],
        *,
        cursor: int,
        complete: bool,
        now: float,
    ) -> Batch:
        """Make units of `folders` that are not units yet; `members` are (folder, file number)."""
        ...

    async def list_flow_units(
        self, batch_no: int, phase: int, *, after: int, limit: int
    ) -> list[tuple[UnitFolder, int]]:
        """Units by number, with how many units are right below each."""
        ...

    async def find_unit_numbers(self, batch_no: int, phase: int, paths: Collection[str]) -> dict[str, int]:
        """The units of these folders."""
        ...

    async def list_unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        """The files that belong to a unit, by path."""
        ...

    async def find_nearest_root(self, batch_no: int, phase: int, path: str) -> int:
        """The input that stands for a folder without members: the first member of the nearest folder below
        that has one. 0: there is none.
        """
        ...

    async def list_values(
        self, batch_no: int, phase: int, file_nos: Sequence[int]
    ) -> dict[int, list[tuple[int, int, Value]]]:
        """(phase, branch, value) of what earlier steps gave for each document, in the order of the phases."""
        ...

    async def add_unit_tasks(
        self, batch: Batch, phase: int, tasks: Sequence[UnitTask], *, cursor: int, now: float
    ) -> Batch:
        """The tasks of units; those with units below them start when those are settled."""
        ...

    async def end_gather(self, batch: Batch, *, waits_at: int | None, now: float) -> Batch:
        """All units have their tasks; `waits_at` is the next phase that waits."""
        ...
