"""The report of an attempt, from its result or its failure."""

from msgspec import structs

from quire.compute.failures import AttemptFailure
from quire.model.cost import NO_COST, Cost
from quire.model.work import ExternalRequest, Order, Outcome, Report, StepResult


def build_report(
    order: Order,
    started_at: float,
    seconds: float,
    worker: str,
    result: StepResult | AttemptFailure,
    cost: Cost = NO_COST,
    request: ExternalRequest | None = None,
) -> Report:
    """With `request` the attempt has not ended: an answer from outside is to come."""
    if isinstance(result, AttemptFailure):
        error = (result.error_class, result.error, result.delay_seconds)
        return Report(*order.attempt_key, result.outcome, started_at, seconds, worker, None, *error, cost)
    outcome = Outcome.DONE if request is None else Outcome.EXTERNAL
    report = Report(*order.attempt_key, outcome, started_at, seconds, worker, result, "", "", 0.0, cost)
    return report if request is None else structs.replace(report, request=request)
