"""The members of one ledger, as queue compute sees them, and how to settle reports to dead members.

Promise: a report to a member that is gone is settled by the usual rules; settling twice changes nothing, and
a late report is ignored, because the ledger compares the attempt. Must not know: queues and messages.
"""

from collections.abc import Collection

from quire.batches.remote.context import RemoteContext
from quire.engine.retry import RetryPolicy
from quire.engine.settlement import decide_settlement, phase_retry_policy
from quire.ledger.port import BatchFilter
from quire.model.errors import Missing
from quire.model.pipelines import old_form, stored_plan, to_pipelines
from quire.model.work import Report


class LedgerQueueMembers:
    def __init__(self, context: RemoteContext, policy: RetryPolicy) -> None:
        self._context = context
        self._policy = policy

    async def member_names(self) -> Collection[str]:
        """Raises Retry when the ledger is unavailable."""
        return {member.name for member in await self._context.members.list_members()}

    async def settle_report(self, report: Report) -> None:
        """A report for a batch or task that does not exist any more is dropped. Raises Retry."""
        context = self._context
        found = await context.records.list_batches(BatchFilter(before=report.batch_no + 1, limit=1))
        batch = next((one for one in found if one.no == report.batch_no), None)
        if batch is None or stored_plan(batch) is not None:
            # The attempts of a batch that flows ended with their member; they run again elsewhere.
            return
        try:
            task = await context.tasks.get_task(report.batch_no, report.task_no)
        except Missing:
            return
        if not 1 <= report.attempt <= task.claim.order.attempt:
            return
        phase = old_form(to_pipelines(context.pipelines).of(batch)).phases[task.phase - 1]
        policy, now = phase_retry_policy(phase, self._policy), context.clock.now()
        settlement = decide_settlement(report, task.claim, policy, now=now, fraction=context.ids.fraction())
        await context.tasks.settle_reports(batch.no, [settlement], now=now)
