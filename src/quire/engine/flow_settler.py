"""Settles reports of batches that flow: plans what follows from them, outside of any transaction, and has the
ledger apply both at once.

The same for reports of compute, for callbacks, and for attempts whose process has died. The rules come from
the plan that is stored with the batch: who settles needs none of the pipeline's code.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from quire.engine.flow import Settled, accepting, list_rivals, pass_on, plan_effects
from quire.engine.names import Listed
from quire.ledger.flow_values import BranchResult, ClaimRequest, JoinPart, TaskPlace
from quire.ledger.port import Claim, FlowStore, Settlement, SettleResult
from quire.model.batch import TaskState
from quire.model.errors import Missing
from quire.model.plan import Plan, PlanUnit, decode_plan
from quire.model.work import Outcome, StepResult

PLANS_KEPT = 256
_FINAL = frozenset({TaskState.DONE, TaskState.FAILED})
_EMPTY = StepResult()

Decided = tuple[Settlement, Claim | None]  # a settlement, and the claim it belongs to when that is known


class FlowSettler:
    def __init__(self, flow: FlowStore) -> None:
        self._flow = flow
        self._plans: dict[int, Plan] = {}

    async def settle(
        self, batch_no: int, decided: Sequence[Decided], *, now: float, claim: ClaimRequest | None = None
    ) -> SettleResult:
        """May be repeated: what was applied is not applied again. A report of a batch that does not exist is
        nobody's. With `claim` the result has tasks that were claimed in the same transaction.
        """
        try:
            plan = await self.load_plan(batch_no)
        except Missing:
            return SettleResult(applied=0, strays=len(decided), phase_ended=False)
        claims = await self._complete_claims(batch_no, decided)
        settlements = await self._add_effects(batch_no, plan, claims)
        *others, last = _part(settlements)
        earlier = [await self._flow.settle_flow(batch_no, some, now=now) for some in others]
        result = await self._flow.settle_flow(batch_no, last, now=now, claim=claim)
        if not earlier:
            return result
        return SettleResult(
            sum(one.applied for one in (*earlier, result)),
            sum(one.strays for one in (*earlier, result)),
            result.phase_ended,
            any(one.created for one in (*earlier, result)),
            result.claims,
        )

    async def load_plan(self, batch_no: int) -> Plan:
        """The plan that is stored with the batch."""
        plan = self._plans.get(batch_no)
        if plan is None:
            plan = decode_plan(await self._flow.get_plan(batch_no))
            if len(self._plans) >= PLANS_KEPT:
                self._plans.clear()
            self._plans[batch_no] = plan
        return plan

    async def _complete_claims(self, batch_no: int, decided: Sequence[Decided]) -> list[Decided]:
        unknown = {one.report.task_no for one, claim in decided if claim is None and one.state in _FINAL}
        if not unknown:
            return list(decided)
        loaded = await self._flow.load_claims(batch_no, unknown)
        return [(one, claim or loaded.get(one.report.task_no)) for one, claim in decided]

    async def _add_effects(self, batch_no: int, plan: Plan, decided: Sequence[Decided]) -> list[Settlement]:
        named = [
            _settled_document(one, claim, claim.place)
            for one, claim in decided
            if one.state is TaskState.DONE and claim and claim.place and _has_outputs(one)
        ]
        rivals: set[str] = set()
        for settled in named:
            rivals |= list_rivals(plan, settled)
        listed = await self._flow.find_listed(batch_no, rivals) if rivals else {}
        return [add_effects(plan, one, claim, listed) for one, claim in decided]


def _part(settlements: list[Settlement]) -> list[list[Settlement]]:
    """One report of each task at a time: what a second one does depends on what followed from the first, as
    when an attempt was given up and has succeeded after all.
    """
    if len({one.report.task_no for one in settlements}) == len(settlements):
        return [settlements]
    parts: list[list[Settlement]] = [[]]
    times: Counter[int] = Counter()
    for one in settlements:
        place = times[one.report.task_no]
        times[one.report.task_no] += 1
        if place == len(parts):
            parts.append([])
        parts[place].append(one)
    return parts


def add_effects(plan: Plan, settlement: Settlement, claim: Claim | None, listed: Listed) -> Settlement:
    """The settlement with what follows from it, when its task is over. A result that cannot be applied turns
    it into a failure.
    """
    if settlement.state not in _FINAL or claim is None or claim.place is None:
        return settlement
    place = claim.place
    phase = plan.phases[place.phase - 1]
    of_file = phase.unit is PlanUnit.FILE
    if of_file and len(phase.steps) > 1 and len(accepting(phase, claim.order.file)) > 1:
        return structs.replace(settlement, effects=JoinPart(place.phase, place.file_no))
    if of_file and place.given is None and _gives_nothing(settlement):
        tries = settlement.report.attempt - settlement.cached
        return structs.replace(settlement, effects=pass_on(plan, place, claim.order.file, tries))
    effects, doubts = plan_effects(plan, _settled_document(settlement, claim, place), listed)
    if not doubts:
        return structs.replace(settlement, effects=effects)
    doubt = doubts[0]
    report = structs.replace(
        settlement.report, outcome=Outcome.REJECTED, error_class=doubt.error_class, error=doubt.error
    )
    failed = structs.replace(
        settlement, report=report, state=TaskState.FAILED, blame=True, cached=False, cache_key=None
    )
    return structs.replace(failed, effects=effects)


def _settled_document(settlement: Settlement, claim: Claim, place: TaskPlace) -> Settled:
    report = settlement.report
    result = BranchResult(
        *(place.branch, settlement.state, report.attempt - settlement.cached, report.result or _EMPTY),
        *(report.error_class, report.error),
    )
    return Settled(place, claim.order.file, (result,))


def _gives_nothing(settlement: Settlement) -> bool:
    """A success that changes nothing for its document but that it moves on."""
    result = settlement.report.result
    plain = result is None or not (result.products or result.tags or result.value)
    return plain and settlement.state is TaskState.DONE


def _has_outputs(settlement: Settlement) -> bool:
    return settlement.report.result is not None and bool(settlement.report.result.products)
