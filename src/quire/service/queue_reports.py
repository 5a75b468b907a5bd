"""What a worker on a queue told a house that is gone: folded by whoever finds it, by the usual rules.

Promise: folding twice is folding once, and too late is not at all; the ledger looks at the attempt.
"""

from quire.engine.conductor import pipeline_of
from quire.engine.judging import judged, policy_of
from quire.engine.retry import RetryPolicy
from quire.ledger.port import Wanted
from quire.model.errors import Missing
from quire.model.work import Report
from quire.service.house import Office


async def fold(office: Office, policy: RetryPolicy, report: Report) -> None:
    """A batch or task that is not there any more needs no report. Raises Retry when the ledger is away."""
    found = await office.ledger.batches(Wanted(before=report.batch_no + 1, limit=1))
    batch = next((one for one in found if one.no == report.batch_no), None)
    if batch is None:
        return
    try:
        task = await office.ledger.task(report.batch_no, report.task_no)
    except Missing:
        return
    if not 1 <= report.attempt <= task.claim.order.attempt:
        return
    phase = pipeline_of(batch, office.pipelines).phases[task.phase - 1]
    now = office.clock.now()
    settlement = judged(report, task.claim, policy_of(phase, policy), now=now, fraction=office.ids.fraction())
    await office.ledger.settle(batch.no, [settlement], now=now)
