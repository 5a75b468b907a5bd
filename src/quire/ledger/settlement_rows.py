"""From settlements to rows, for every ledger on SQL. Must not know: any database."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from quire.ledger.rows import EMPTY_RESULT, NO_COST, Row, encode_result
from quire.ledger.values import Settlement, StrayKind
from quire.model.batch import Spending, TaskState
from quire.model.cost import Cost
from quire.model.work import Outcome, Report

_encoder = msgspec.msgpack.Encoder()
_NO_FAILURES = frozenset({Outcome.DONE, Outcome.EXTERNAL})


def is_plain_success(settlement: Settlement) -> bool:
    """Done, without products, facts or costs."""
    report = settlement.report
    plain = report.result is None or report.result == EMPTY_RESULT
    return settlement.state is TaskState.DONE and plain and report.cost == NO_COST


def success_columns(settlement: Settlement) -> Row:
    """What `settle_success` sets, and then the attempt it is fenced by."""
    report = settlement.report
    return (
        *(settlement.cached, report.worker, report.started_at, report.seconds),
        *(report.batch_no, report.task_no, report.attempt),
    )


def settle_columns(settlement: Settlement) -> Row:
    """What `settle_task` sets, and then the attempt it is fenced by."""
    report = settlement.report
    tried = not settlement.cached and report.outcome not in _NO_FAILURES
    return (
        settlement.state,
        settlement.due_at,
        tried and settlement.blame,
        tried and not settlement.blame,
        settlement.cached,
        encode_result(report.result),
        report.error_class or ("unknown" if settlement.state is TaskState.FAILED else None),
        report.error or None,
        report.outcome,
        report.worker,
        report.started_at,
        report.seconds,
        encode_cost(report.cost),
        report.batch_no,
        report.task_no,
        report.attempt,
    )


def late_columns(settlement: Settlement) -> Row:
    """What `flow_late_success` sets, and then the attempt it belongs to."""
    report = settlement.report
    return (
        *(encode_result(report.result), report.worker, report.seconds, encode_cost(report.cost)),
        *(report.batch_no, report.task_no, report.attempt),
    )


def encode_cost(cost: Cost) -> bytes | None:
    return None if cost == NO_COST else _encoder.encode(cost)


def classify_stray(report: Report, now: tuple[int, str] | None) -> StrayKind:
    """Why it changed nothing, from the task's (attempt, state) as it is."""
    if now is None or report.attempt > now[0] or report.attempt < 1:
        return StrayKind.UNKNOWN
    if report.attempt < now[0] or now[1] in {TaskState.SUPERSEDED, TaskState.RUNNING}:
        return StrayKind.LATE  # of one that still runs: its batch has ended
    return StrayKind.DUPLICATE


def stray_columns(report: Report, kind: StrayKind, now: float) -> Row:
    return (report.batch_no, report.task_no, report.attempt, report.outcome, report.worker, now, kind)


class SettlementTotals(Struct, frozen=True, kw_only=True):
    """What a set of settlements adds to the counters of its phase."""

    done: int
    failed: int
    cached: int
    spent: Spending
    failures: dict[str, int]
    due_at: float | None

    @property
    def columns(self) -> Row:
        """As `flow_count_settled` wants them."""
        spent = self.spent
        return (
            *(self.done, self.failed, self.cached),
            *(spent.seconds, spent.bytes_in, spent.bytes_out),
            *(spent.tokens_in, spent.tokens_out, spent.money_micros),
        )


def count_settlements(settlements: Sequence[Settlement]) -> SettlementTotals:
    done = failed = cached = 0
    seconds = 0.0
    cost = NO_COST
    failures: dict[str, int] = {}
    due: list[float] = []
    for settlement in settlements:
        report = settlement.report
        if settlement.state is TaskState.DONE:
            done += 1
        elif settlement.state is TaskState.FAILED:
            failed += 1
            failures[report.error_class] = failures.get(report.error_class, 0) + 1
        cached += settlement.cached
        seconds += report.seconds
        if report.cost != NO_COST:
            cost += report.cost
        if settlement.due_at is not None:
            due.append(settlement.due_at)
    spent = Spending(
        seconds=seconds,
        bytes_in=cost.bytes_in,
        bytes_out=cost.bytes_out,
        tokens_in=cost.tokens_in,
        tokens_out=cost.tokens_out,
        money_micros=cost.money_micros,
    )
    return SettlementTotals(
        done=done, failed=failed, cached=cached, spent=spent, failures=failures, due_at=min(due, default=None)
    )
