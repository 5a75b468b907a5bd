"""Claims tasks of batches that flow: the highest phase with something to do first, so that documents finish,
caches stay warm and space is freed.

Room (`rooms`) and pace are those of a phase, and a claim is of one phase. Each claim leaves with the values
and results that its step takes; a task that lacks a value it needs is settled as failed without running.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from quire.engine import cache
from quire.engine.claims import Work
from quire.engine.continuation import Continuation, Continuations
from quire.engine.flow import select_values
from quire.engine.names import add_mark
from quire.engine.retry import RetryPolicy
from quire.engine.rooms import PhaseRooms, RoomGroup, find_group
from quire.engine.settlement import decide_settlement, step_retry_policy
from quire.engine.sharing import ShareCandidate, Shares
from quire.ledger.flow_values import FlowOffer, phase_of
from quire.ledger.port import Claim, FlowStore, Known, Only, Settlement, TaskStore, WorkableBatch
from quire.model.batch import Batch
from quire.model.clock import Clock
from quire.model.files import fold
from quire.model.pipelines import Pipelines
from quire.model.plan import Plan, PlanPhase, PlanStep
from quire.model.task_tokens import TokenAddress
from quire.model.work import Outcome, Report

CANDIDATES_AT_ONCE = 200
READS_MARK = "marked"  # of a file; see there
_MANY = 1 << 20

IssueToken = Callable[[TokenAddress], str]
Keyed = list[tuple[Claim, str | None]]  # claims with their keys in the step cache


class Claimed(Struct, frozen=True):
    """What a round of claiming has brought: work to hand out, and tasks that are settled without running.
    `limited` holds the phases, by batch, of which there may be more tasks than there was room for.
    """

    work: list[tuple[Work, Keyed]]
    settled: list[tuple[Settlement, Claim]]
    limited: set[tuple[int, int]]

    @property
    def count(self) -> int:
        return sum(len(keyed) for _, keyed in self.work) + len(self.settled)


class FlowClaims:
    def __init__(
        self,
        flow: FlowStore,
        tasks: TaskStore,
        pipelines: Pipelines,
        clock: Clock,
        policy: RetryPolicy,
        shares: Shares,
        issue_token: IssueToken | None = None,
    ) -> None:
        """`issue_token` is for steps that leave tasks to somebody outside."""
        self._issue_token = issue_token
        self._flow = flow
        self._tasks = tasks
        self._pipelines = pipelines
        self._clock = clock
        self._policy = policy
        self._shares = shares
        self._continuations = Continuations(clock)

    def find_continuation(self, batch_no: int, member: int, rooms: PhaseRooms) -> Continuation | None:
        """What may be claimed with the next settlement of this batch."""
        return self._continuations.find(batch_no, member, rooms)

    async def continue_batch(self, continued: Continuation, claims: Sequence[Claim]) -> Claimed:
        """What was claimed with a settlement, as work to hand out."""
        claimed = Claimed([], [], set())
        by_phase: dict[int, list[Claim]] = {}
        for claim in claims:
            by_phase.setdefault(phase_of(claim.order.task_no), []).append(claim)
        for number, some in by_phase.items():
            await self._complete(continued.batch, continued.plan.phases[number - 1], some, claimed)
        self._shares.record_use(continued.batch.tenant, len(claims), self._clock.now())
        return claimed

    async def claim(self, member: int, rooms: PhaseRooms, only: Only, known: Known) -> Claimed:
        """Claim as many tasks as there is room for."""
        now = self._clock.now()
        claimed = Claimed([], [], set())
        batches: dict[int, tuple[WorkableBatch, Plan]] = {}
        candidates: dict[RoomGroup, list[ShareCandidate]] = {}
        group_rooms: dict[RoomGroup, int] = {}
        for one in await self._flow.list_flowing(
            limit=CANDIDATES_AT_ONCE,
            now=now,
            only=only,
            known=known,
            ageing_seconds=self._shares.ageing_seconds,
        ):
            batch = one.batch
            plan = self._pipelines.of(batch)
            batches[batch.no] = (one, plan)
            most: Counter[RoomGroup] = Counter()
            for offer in one.offers:
                phase = plan.phases[offer.phase - 1]
                group = find_group(phase)
                most[group] += min(_available(plan, offer), rooms.of_phase(phase))
                group_rooms[group] = rooms.of_group(group, phase)
                if not rooms.of_phase(phase):
                    claimed.limited.add((batch.no, offer.phase))
            for group, count in most.items():
                if wanted := min(count, group_rooms[group]):
                    candidates.setdefault(group, []).append(
                        ShareCandidate(batch.no, batch.tier, batch.tenant, one.served_at, wanted)
                    )
            if not one.offers:
                await self._flow.reset_alarm(batch.no)  # what it was set for is over, or waits for an answer
        self._continuations.note([(one.batch, plan) for one, plan in batches.values()])
        for group, some in candidates.items():
            for batch_no, wanted in self._shares.split(some, group_rooms[group], now):
                one, plan = batches[batch_no]
                await self._claim_batch(one, plan, member, group, wanted, rooms, claimed)
        return claimed

    async def _claim_batch(
        self,
        one: WorkableBatch,
        plan: Plan,
        member: int,
        group: RoomGroup,
        wanted: int,
        rooms: PhaseRooms,
        claimed: Claimed,
    ) -> None:
        batch, now = one.batch, self._clock.now()
        taken = 0
        for offer in one.offers:
            phase = plan.phases[offer.phase - 1]
            limit = min(wanted - taken, phase.pace.at_once or wanted, rooms.of_phase(phase))
            if find_group(phase) != group or limit <= 0:
                continue
            claims = await self._flow.claim_phase(
                batch.no,
                offer.phase,
                member=member,
                limit=limit,
                now=now,
                pace_seconds=phase.pace.between_seconds,
            )
            taken += len(claims)
            if len(claims) == limit:
                claimed.limited.add((batch.no, offer.phase))
            await self._complete(batch, phase, claims, claimed)
        self._shares.record_use(batch.tenant, taken, now)

    async def _complete(self, batch: Batch, phase: PlanPhase, claims: list[Claim], claimed: Claimed) -> None:
        """Give claims of a phase what their steps take."""
        if phase.waits:
            claims = await self._add_child_results(batch.no, claims)
        if any(step.external for step in phase.steps):
            claims = [self._add_token(batch.id, phase, claim) for claim in claims]
        if claims and any(READS_MARK in step.cache_by for step in phase.steps):
            claims = await self._add_marks(batch, phase, claims)
        self._sort(phase, claims, claimed)

    async def _add_marks(self, batch: Batch, phase: PlanPhase, claims: list[Claim]) -> list[Claim]:
        """Tell steps whose outputs link to each other how these will be marked."""
        paths = {fold(claim.order.file.path) for claim in claims}
        listed = await self._flow.find_listed(batch.no, paths)
        return [add_mark(phase, claim, listed) for claim in claims]

    def _add_token(self, batch_id: str, phase: PlanPhase, claim: Claim) -> Claim:
        """By it somebody outside may complete the task."""
        order = claim.order
        if claim.place is None or self._issue_token is None or not phase.steps[claim.place.branch].external:
            return claim
        token = self._issue_token(TokenAddress(batch_id, order.task_no, order.attempt))
        return structs.replace(claim, order=structs.replace(order, task=token))

    def _sort(self, phase: PlanPhase, claims: list[Claim], claimed: Claimed) -> None:
        """By step, with the values that each takes."""
        by_branch: dict[int, list[Claim]] = {}
        for claim in claims:
            if claim.place is not None:
                by_branch.setdefault(claim.place.branch, []).append(claim)
        for branch, some in sorted(by_branch.items()):
            step = phase.steps[branch]
            prefix = cache.cache_key_prefix(step)
            keyed: Keyed = []
            for claim in some:
                ready, missing = _give_values(step, claim)
                if missing is None:
                    keyed.append((ready, cache.cache_key_of(prefix, step, ready.order)))
                else:
                    claimed.settled.append((self._refuse(claim, step, missing), claim))
            if keyed:
                work = Work(phase.call(step), step_retry_policy(step, self._policy))
                claimed.work.append((work, keyed))

    def _refuse(self, claim: Claim, step: PlanStep, missing: str) -> Settlement:
        words = (
            f"{step.name} needs the value of {missing}, and there is none: that step failed or took no part"
        )
        return self._settle(claim, Outcome.REJECTED, "input_missing", words, RetryPolicy())

    def _settle(
        self, claim: Claim, outcome: Outcome, error_class: str, error: str, policy: RetryPolicy
    ) -> Settlement:
        now, order = self._clock.now(), claim.order
        report = Report(
            *(order.batch_no, order.task_no, order.attempt, outcome),
            *(claim.started_at, max(0.0, now - claim.started_at), "engine", None),
            error_class=error_class,
            error=error,
        )
        return decide_settlement(report, claim, policy, now=now, fraction=0.0)

    async def _add_child_results(self, batch_no: int, claims: list[Claim]) -> list[Claim]:
        """Add to each order of a folder the results of the folders right below."""
        if not claims:
            return claims
        earlier = await self._tasks.load_child_results(batch_no, [claim.order.task_no for claim in claims])
        return [
            structs.replace(claim, order=structs.replace(claim.order, earlier=earlier[claim.order.task_no]))
            for claim in claims
        ]


def _give_values(step: PlanStep, claim: Claim) -> tuple[Claim, str | None]:
    """The claim with the values that its step takes, and the name of one that is missing."""
    if not step.takes or claim.place is None:
        return claim, None
    values, missing = select_values(step, claim.place.given)
    return structs.replace(claim, order=structs.replace(claim.order, values=values)), missing


def _available(plan: Plan, offer: FlowOffer) -> int:
    at_once = plan.phases[offer.phase - 1].pace.at_once
    most = _MANY if offer.due else offer.fresh
    return min(most, at_once) if at_once else most
