"""Ends the wait of tasks whose answer from outside did not come in time.

Any process with a dispatcher does it, for all batches: whoever settles needs none of a pipeline's code, and
whether there is room for other work does not matter.
"""

from quire.engine.flow_settler import FlowSettler
from quire.engine.retry import RetryPolicy
from quire.engine.settlement import decide_settlement, step_retry_policy
from quire.ledger.port import Claim, FlowStore, Only, Settlement
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.plan import PlanStep
from quire.model.work import Outcome, Report

OVERDUE_AT_ONCE = 500
WORKER = "deadline"


class Deadlines:
    def __init__(
        self, flow: FlowStore, settler: FlowSettler, clock: Clock, ids: Ids, policy: RetryPolicy
    ) -> None:
        self._flow = flow
        self._settler = settler
        self._clock = clock
        self._ids = ids
        self._policy = policy

    async def settle_overdue(self, only: Only) -> int:
        """How many tasks have waited in vain. May be repeated, and run in several processes at once."""
        now = self._clock.now()
        overdue = await self._flow.list_overdue(now=now, limit=OVERDUE_AT_ONCE, only=only)
        by_batch: dict[int, list[tuple[Settlement, Claim | None]]] = {}
        for claim, said in overdue:
            plan = await self._settler.load_plan(claim.order.batch_no)
            if claim.place is not None:
                step = plan.phases[claim.place.phase - 1].steps[claim.place.branch]
                decided = self._decide(claim, step, said, now)
                by_batch.setdefault(claim.order.batch_no, []).append((decided, claim))
        for batch_no, decisions in by_batch.items():
            await self._settler.settle(batch_no, decisions, now=now)
            await self._flow.reset_alarm(batch_no)
        return len(overdue)

    def _decide(self, claim: Claim, step: PlanStep, said: str, now: float) -> Settlement:
        heard = f"; the last that was heard: {said}" if said else ""
        report = Report(
            *(*claim.order.attempt_key, Outcome.TIMED_OUT, claim.started_at, 0.0, WORKER),
            error_class="no_answer",
            error=(
                f"nobody has answered the request of {step.name} in time{heard}; find out whether it arrived "
                "and whether answers come back, or give them longer: External(within=…)"
            ),
        )
        policy = step_retry_policy(step, self._policy)
        return decide_settlement(report, claim, policy, now=now, fraction=self._ids.fraction())
