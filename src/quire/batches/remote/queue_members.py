"""The members of one ledger, as queue compute sees them, and how to settle reports to dead members.

Promise: a report to a member that is gone is settled by the usual rules; settling twice changes nothing, and
a late report is ignored, because the ledger compares the attempt. Must not know: queues and messages.
"""

from collections.abc import Collection

from quire.batches.remote.attempts import find_task, settle
from quire.batches.remote.context import RemoteContext
from quire.engine.retry import RetryPolicy
from quire.ledger.port import BatchFilter
from quire.model.errors import Missing
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
        batches = await context.records.list_batches(BatchFilter(before=report.batch_no + 1, limit=1))
        batch = next((one for one in batches if one.no == report.batch_no), None)
        if batch is None:
            return
        try:
            found = await find_task(context, batch, report.task_no)
        except Missing:
            return
        if 1 <= report.attempt <= found.claim.order.attempt:
            await settle(context, found, report, self._policy)
