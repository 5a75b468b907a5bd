"""The houses on one ledger, as queue compute sees them: who is there, and how to settle what one left.

Promise: what a worker told a house that is gone is folded by the usual rules; folding twice is folding once,
and too late is not at all, as the ledger looks at the attempt. Must not know: queues and messages.
"""

from collections.abc import Collection

from quire.batches.remote.context import RemoteContext
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import pipeline_of
from quire.engine.settlement import decide_settlement, phase_retry_policy
from quire.ledger.port import BatchFilter
from quire.model.errors import Missing
from quire.model.work import Report


class LedgerQueueMembers:
    def __init__(self, office: RemoteContext, policy: RetryPolicy) -> None:
        self._office = office
        self._policy = policy

    async def present(self) -> Collection[str]:
        """Raises Retry when the ledger is away."""
        return {member.name for member in await self._office.members.list_members()}

    async def fold(self, report: Report) -> None:
        """A batch or task that is not there any more needs no report. Raises Retry."""
        office = self._office
        found = await office.records.list_batches(BatchFilter(before=report.batch_no + 1, limit=1))
        batch = next((one for one in found if one.no == report.batch_no), None)
        if batch is None:
            return
        try:
            task = await office.tasks.get_task(report.batch_no, report.task_no)
        except Missing:
            return
        if not 1 <= report.attempt <= task.claim.order.attempt:
            return
        phase = pipeline_of(batch, office.pipelines).phases[task.phase - 1]
        policy, now = phase_retry_policy(phase, self._policy), office.clock.now()
        settlement = decide_settlement(report, task.claim, policy, now=now, fraction=office.ids.fraction())
        await office.tasks.settle_reports(batch.no, [settlement], now=now)
