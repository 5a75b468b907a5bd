"""A batch that flows, its row held until the end of the transaction: what is added to its counters, and how
far it has come by that. The counters are read once and written once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from quire.database.postgres import Connection
from quire.ledger.flow_progress import FlowCounters, find_progress
from quire.ledger.flow_progress import is_open_before as is_open_before_phase
from quire.ledger.flow_rows import EffectRows
from quire.ledger.postgres.rows import SQL, change, notify_listeners, record_event
from quire.model.batch import Stage

_QUESTIONS = ("flow_hold", "flow_rounds", "flow_next_join")


class _HeldRow(NamedTuple):
    """The columns of `flow_hold`."""

    stage: str
    round: int
    phase: int
    status: str
    last_file: int
    sources: int
    open_tasks: int
    waits_at: int | None
    gathers: int
    wants_move: bool
    has_manifest: bool
    budgeted: bool


class HeldFlow:
    def __init__(
        self, batch_no: int, row: _HeldRow, rounds: list[tuple[Any, ...]], joins_at: int | None
    ) -> None:
        self.batch_no = batch_no
        self.last_file = row.last_file
        self.budgeted = row.budgeted
        self.takes_files = row.stage == Stage.FLOWING and row.sources > 0 and not row.has_manifest
        self.flows = row.stage == Stage.FLOWING
        self.round = row.round
        self.cursors = {phase: last for phase, _, _, last, _ in rounds}
        self._names = {phase: name for phase, name, *_ in rounds}
        self._left = {phase: left for phase, _, left, *_ in rounds}
        self._offered = {phase for phase, _, _, _, fresh in rounds if fresh}
        self._row = row
        self._open = row.open_tasks
        self._joins_at = joins_at
        self._news = False

    def is_open_before(self, phase: int) -> bool:
        """Whether a task or a join of an earlier phase is not settled."""
        return is_open_before_phase(self._count(), phase)

    def add_tasks(self, tasks: Mapping[int, int], *, joins: int = 0) -> None:
        """New tasks by phase. Who waits for work has been told of phases that had some already."""
        self._news = self._news or bool(tasks.keys() - self._offered)
        for phase, count in tasks.items():
            self._left[phase] += count
        self._open += sum(tasks.values()) + joins

    def add_rows(self, rows: EffectRows) -> None:
        self.add_tasks(rows.created, joins=len(rows.joins))
        self.last_file = rows.last_file

    def settle_tasks(self, tasks: Mapping[int, int]) -> None:
        """By phase: how many are done or failed now."""
        for phase, count in tasks.items():
            self._left[phase] -= count
        self._open -= sum(tasks.values())

    def settle_joins(self, count: int) -> None:
        """The effects of so many joins are applied."""
        self._open -= count

    def complete_join(self, phase: int) -> None:
        """All branches of a document in this phase have settled."""
        self._joins_at = phase if self._joins_at is None else min(self._joins_at, phase)

    async def write(self, connection: Connection, now: float) -> bool:
        """Bring counters, status and stage up to date; True when there is something for a scheduler. Asks for
        no answer, so it may be sent with other statements in one go.
        """
        if not self.flows:
            return False
        progress = find_progress(self._count())
        stage = Stage.ENDING if progress.ends else Stage.FLOWING
        for name in progress.started:
            told = {"phase": name, "round": self._row.round}
            await record_event(connection, self.batch_no, now, "phase_started", told)
        place = (progress.phase, progress.status, progress.wants_move, stage.value, self.batch_no)
        await change(connection, "flow_progress", (self._open, self.last_file, now, *place))
        if self._news or (progress.wants_move and not self._row.wants_move) or progress.ends:
            await notify_listeners(connection)
        return progress.wants_move

    def _count(self) -> FlowCounters:
        row = self._row
        return FlowCounters(
            round=row.round,
            phase=row.phase,
            sources=row.sources,
            open_tasks=self._open,
            waits_at=row.waits_at,
            gathers=row.gathers,
            has_manifest=row.has_manifest,
            phases=[(phase, name, self._left[phase]) for phase, name in self._names.items()],
            joins_at=self._joins_at,
        )


async def ask_flow(connection: Connection, batch_no: int) -> list[Any]:
    """Hold the batch's row and read its counters after that: three statements, each of which sees what was
    committed before it. For `read_flow`, at the end of the pipeline in which they are sent.
    """
    return [await connection.execute(SQL[question], (batch_no,)) for question in _QUESTIONS]


async def read_flow(batch_no: int, asked: list[Any]) -> HeldFlow | None:
    """None: there is no such batch."""
    held, rounds, join = asked
    row = await held.fetchone()
    if row is None:
        return None
    joins = await join.fetchone()
    return HeldFlow(batch_no, _HeldRow._make(row), await rounds.fetchall(), joins and joins[0])


async def hold_flow(connection: Connection, batch_no: int) -> HeldFlow | None:
    async with connection.pipeline():
        asked = await ask_flow(connection, batch_no)
    return await read_flow(batch_no, asked)
