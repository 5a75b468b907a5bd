"""Effects of settled tasks as statements, one for each kind of row. None of them asks for an answer: they are
sent in one go.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_text
from quire.ledger.flow_rows import EffectRows
from quire.ledger.flow_values import RootFailure, phase_of
from quire.ledger.port import Settlement
from quire.ledger.postgres.rows import change, columns
from quire.ledger.rows import Row
from quire.ledger.settlement_rows import SettlementTotals, count_settlements


async def write_effects(connection: Connection, batch_no: int, rows: EffectRows) -> None:
    if rows.files:
        await change(connection, "flow_insert_files", tuple(columns(rows.files)))
    if rows.left_list:
        phases, _, files = columns(rows.left_list)
        await change(connection, "flow_leave_list", (phases, files, batch_no))
    if rows.tasks:
        await change(connection, "flow_insert_tasks", tuple(columns(rows.tasks)))
        counts = (list(rows.created), list(rows.created.values()), batch_no)
        await change(connection, "flow_count_new", counts)
    if rows.joins:
        await change(connection, "flow_insert_joins", tuple(columns(rows.joins)))
    await _write_roots(connection, batch_no, rows)


async def _write_roots(connection: Connection, batch_no: int, rows: EffectRows) -> None:
    """How the inputs stand by that. A failure first: it stays, whatever else ends with it."""
    if rows.failures:
        await change(connection, "flow_fail_roots", (*columns(_tell_first(rows.failures)), batch_no))
    if rows.unit_failures:
        units, classes, reasons, places = columns(_tell_first(rows.unit_failures))
        values = {"units": units, "classes": classes, "reasons": reasons, "places": places, "no": batch_no}
        await change(connection, "flow_fail_members", values)
    tries: Counter[int] = Counter()
    more: Counter[int] = Counter()
    for root, further in rows.spread:
        more[root] += further
    for count, roots in rows.ended.items():
        for root in roots:
            tries[root] += count
            more[root] -= 1
    if more:
        roots = list(more)
        values_of_roots = (roots, [tries[root] for root in roots], list(more.values()), batch_no)
        await change(connection, "flow_walks", values_of_roots)


def _tell_first(failures: Iterable[tuple[int, RootFailure]]) -> list[Row]:
    """One row for each input or unit: of several failures the one with the lowest place."""
    told: dict[int, RootFailure] = {}
    for number, why in failures:
        if number not in told or why.place < told[number].place:
            told[number] = why
    return [
        (number, clean_text(str(why.error_class)), clean_text(why.reason), clean_text(why.place))
        for number, why in told.items()
    ]


class PhaseTotals:
    """What settlements add to the counters of their phases."""

    def __init__(self, applied: Sequence[Settlement]) -> None:
        by_phase: dict[int, list[Settlement]] = {}
        for one in applied:
            by_phase.setdefault(phase_of(one.report.task_no), []).append(one)
        self._sums: dict[int, SettlementTotals] = {
            phase: count_settlements(some) for phase, some in by_phase.items()
        }
        self.settled = {phase: sums.done + sums.failed for phase, sums in self._sums.items()}
        self.due_at = min(
            (sums.due_at for sums in self._sums.values() if sums.due_at is not None), default=None
        )

    async def write(self, connection: Connection, batch_no: int) -> None:
        rows = []
        failures: Counter[str] = Counter()
        for phase, sums in self._sums.items():
            rows.append((phase, *sums.columns))
            for kind, count in sums.failures.items():
                failures[clean_text(str(kind)) or ""] += count
        if rows:
            await change(connection, "flow_count_settled", (*columns(rows), batch_no))
        if failures:
            await change(connection, "count_failures", (batch_no, list(failures), list(failures.values())))
        if self.due_at is not None:
            await change(connection, "set_alarm", (self.due_at, batch_no))
