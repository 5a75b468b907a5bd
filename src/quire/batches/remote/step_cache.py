"""The key in the step cache of a result that has come from outside.

Promise: it is the key that the task had when it was claimed, so that the same input finds the result. Must
not know: how the result arrived.
"""

from msgspec import structs

from quire.batches.remote.attempts import FoundAttempt
from quire.batches.remote.context import RemoteContext
from quire.engine.cache import cache_key_of, cache_key_prefix
from quire.engine.flow import select_values
from quire.model.plan import PlanStep
from quire.model.work import Outcome, Report


async def find_cache_key(context: RemoteContext, found: FoundAttempt, report: Report) -> str | None:
    """None for a report whose result is not kept: it has none, its step is not `cached`, or an output lies in
    the batch's own folder, which is removed with the batch.
    """
    rules, claim, result = found.step.rules, found.claim, report.result
    if report.outcome is not Outcome.DONE or result is None or claim.place is None:
        return None
    if not isinstance(rules, PlanStep) or not all(product.digest for product in result.products):
        return None
    values, _ = select_values(rules, claim.place.given)
    order = structs.replace(claim.order, values=values)
    if found.step.waits:
        earlier = await context.tasks.load_child_results(found.batch.no, [order.task_no])
        order = structs.replace(order, earlier=earlier[order.task_no])
    return cache_key_of(cache_key_prefix(rules), rules, order)
