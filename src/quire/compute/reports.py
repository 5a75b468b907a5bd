"""The report of an attempt, from its result or its failure."""

from quire.compute.failures import AttemptFailure
from quire.model.cost import NO_COST, Cost
from quire.model.work import Order, Outcome, Report, StepResult


def build_report(
    order: Order,
    started_at: float,
    seconds: float,
    worker: str,
    result: StepResult | AttemptFailure,
    cost: Cost = NO_COST,
) -> Report:
    if isinstance(result, AttemptFailure):
        error = (result.error_class, result.error, result.delay_seconds)
        return Report(*order.attempt_key, result.outcome, started_at, seconds, worker, None, *error, cost)
    return Report(*order.attempt_key, Outcome.DONE, started_at, seconds, worker, result, "", "", 0.0, cost)
