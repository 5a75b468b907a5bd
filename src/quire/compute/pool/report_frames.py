"""The frame of a report, as worker processes and hosts send it.

Promise: the pool can decode every frame; a result that cannot be encoded becomes a failed attempt that says
so.
"""

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames
from quire.compute.pool.order_run import OrderRun
from quire.compute.reports import build_report
from quire.model.work import ExternalRequest, StepResult


def encode_report(
    run: OrderRun,
    seconds: float,
    worker: str,
    result: StepResult | AttemptFailure,
    request: ExternalRequest | None = None,
) -> bytes:
    """The report of an order that ran for so long. `request` counts only with a result."""
    cost = run.meter.cost()
    if isinstance(result, AttemptFailure):
        request = None
    report = build_report(run.order, run.started_at, seconds, worker, result, cost, request)
    try:
        framed = frames.encode_frame(frames.REPORT, report)
        if not isinstance(result, StepResult) or result.facts or result.products or result.value or request:
            # Decoded here first: content that cannot be decoded would break the pool.
            frames.report_decoder.decode(framed[frames.HEAD_BYTES :])
    except Exception as error:  # noqa: BLE001 - any error becomes the report
        failure = failures.of_bad_result(error, run.call)
        report = build_report(run.order, run.started_at, seconds, worker, failure, cost)
        framed = frames.encode_frame(frames.REPORT, report)
    return framed
