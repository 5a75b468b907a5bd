"""The foreman keeps compute busy: it claims tasks, hands them out, and folds what comes back.

Any number of foremen work on one ledger; which tasks are whose is in the ledger. A foreman that cannot reach
it keeps what it has to say and says it later: folding a report twice is folding it once.
"""

from collections.abc import Mapping

from quire.blobs.port import Blobs
from quire.engine import cache, moves
from quire.engine.claims import Out, Outstanding, cache_key
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import known_pipelines, pipeline_of
from quire.engine.settlement import judged, policy_of
from quire.engine.sharing import Candidate, Shares
from quire.ledger.port import BatchStore, Claim, Only, Settlement, TaskStore
from quire.model.batch import Batch, Stage, TaskState
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.pipeline import Phase, Pipeline, Unit
from quire.model.work import Compute, Order, Outcome, Report, StepResult

CANDIDATES_AT_ONCE = 200
FREE_AT_ONCE = 2000
LOOK_SECONDS = 0.5
_DEFAULT_POLICY = RetryPolicy()


class Dispatcher:
    def __init__(
        self,
        *,
        batches: BatchStore,
        tasks: TaskStore,
        blobs: Blobs,
        compute: Compute,
        pipelines: Mapping[str, Pipeline],
        clock: Clock,
        ids: Ids,
        policy: RetryPolicy,
        shares: Shares,
    ) -> None:
        self._batches = batches
        self._tasks = tasks
        self._blobs = blobs
        self._compute = compute
        self._computes = sorted({phase.compute for one in pipelines.values() for phase in one.phases}) or [""]
        self._pipelines = pipelines
        self._clock = clock
        self._ids = ids
        self._policy = policy
        self._shares = shares
        self._out = Outstanding()
        self._unfolded: dict[int, list[Settlement]] = {}  # the ledger has not confirmed these
        self._again: list[Out] = []  # claimed, and to be handed out anew
        self._free = 0  # how many may be claimed beyond what compute has room for
        self._more = True  # there may be tasks to claim: asking costs, so not when we know better
        self._unsure = False  # something may be claimed for us that we know nothing of
        self._looked_at = 0.0
        self.phase_ended = False
        self.asked = False  # in the last turn it was looked whether there are tasks to claim

    @property
    def idle(self) -> bool:
        return not self._out and not self._unfolded and not self._again

    @property
    def full(self) -> bool:
        """There is more to do than compute can take: only a report can change anything."""
        return self._more and bool(self._out)

    def look_again(self) -> None:
        """Something may have changed elsewhere: there may be tasks to claim."""
        self._more = True

    async def turn(self, member: int, only: Only, *, claiming: bool = True) -> bool:
        """Fold what came back, hand out what there is room for; True when there was anything to do."""
        self.phase_ended = False
        if self._unsure:
            await self._recover(member)
        reports = self._compute.reports()
        for report in reports:
            self._judge(report)
        folded = await self._fold()
        await self._look()
        handed = await self._hand_out(member, only) if claiming else 0
        return bool(reports or folded or handed)

    async def wind_down(self, grace_seconds: float) -> None:
        """Let compute finish what is running, settle that, and give back what never started."""
        unstarted = await self._compute.stop(grace_seconds)
        unstarted += self._out.withdraw()
        unstarted += [out.claim.order for out in self._again]
        self._again = []
        for report in self._compute.reports():
            self._judge(report)
        await self._fold()
        if unstarted:
            await self._tasks.release_claims(unstarted)
        self._out.clear()

    async def abandon(self) -> None:
        """We were taken for dead: what is out with us is somebody else's by now."""
        for batch_no in self._out.batches():
            self._compute.revoke(batch_no)
        self._out.clear()
        self._unfolded.clear()
        self._again = []

    def _judge(self, report: Report) -> None:
        """What becomes of it; kept until the ledger has it."""
        now = self._clock.now()
        out, behind = self._out.back(report)
        if report.known:
            self._again += behind
            return
        policy = _DEFAULT_POLICY if out is None else policy_of(out.phase, self._policy)
        settlements = self._unfolded.setdefault(report.batch_no, [])
        if report.outcome is Outcome.DONE:
            settlements.append(
                Settlement(report=report, state=TaskState.DONE, cache_key=cache_key(out, report))
            )
            for equal in behind:
                hit = _hit(equal.claim, report.result or StepResult(), now=now)
                self._unfolded.setdefault(hit.report.batch_no, []).append(hit)
            return
        claim = out.claim if out else None
        settlements.append(judged(report, claim, policy, now=now, fraction=self._ids.fraction()))
        self._again += behind

    async def _fold(self) -> int:
        folded = 0
        for batch_no in list(self._unfolded):
            settlements = self._unfolded[batch_no]
            settled = await self._tasks.settle_reports(batch_no, settlements, now=self._clock.now())
            del self._unfolded[batch_no]
            folded += len(settlements)
            self.phase_ended = self.phase_ended or settled.phase_ended
            # Tasks due again, or the next rank: worth asking for.
            self._more = self._more or any(one.state is not TaskState.DONE for one in settlements)
        return folded

    async def _look(self) -> None:
        """Now and then: is what we work on still wanted? And has anybody else made work for us?"""
        moment = self._clock.monotonic()
        if moment - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = moment
        self._more = True
        batches = self._out.batches()
        if not batches:
            return
        standing = await self._batches.get_positions(batches)
        ended = [no for no in batches if no not in standing or standing[no].stage is not Stage.WORKING]
        for batch_no in ended:
            self._compute.revoke(batch_no)
        self._again += self._out.drop(ended)

    async def _hand_out(self, member: int, only: Only) -> int:
        try:
            return await self._hand_again() + await self._hand_new(member, only)
        except Unavailable:
            self._unsure = True
            raise

    async def _hand_again(self) -> int:
        """Claimed already, but what it waited for failed: now it is the first of its kind."""
        again, self._again = self._again, []
        return sum([await self._dispatch(out.phase, [(out.claim, out.key)]) for out in again])

    async def _hand_new(self, member: int, only: Only) -> int:
        self.asked = self._more
        rooms = {name: self._room(name) for name in self._computes} if self._more else {}
        if not any(rooms.values()):
            return 0
        claimed = 0
        for batch, phase, wanted in await self._offers(rooms, only):
            claimed += await self._claim(batch, phase, member, wanted)
        self._more = claimed >= max(rooms.values())
        return claimed

    def _room(self, compute: str) -> int:
        return max(0, self._compute.room(compute) - self._out.parked, self._free)

    async def _offers(self, rooms: Mapping[str, int], only: Only) -> list[tuple[Batch, Phase, int]]:
        """Which batches get how much of the room of the compute that their phase runs on."""
        now = self._clock.now()
        known: dict[int, tuple[Batch, Phase]] = {}
        candidates: dict[str, list[Candidate]] = {name: [] for name in rooms}
        for one in await self._tasks.list_workable(
            limit=CANDIDATES_AT_ONCE,
            now=now,
            only=only,
            known=known_pipelines(self._pipelines, only),
            ageing_seconds=self._shares.ageing_seconds,
        ):
            batch = one.batch
            phase = moves.current_phase(batch, pipeline_of(batch, self._pipelines))
            known[batch.no] = (batch, phase)
            room = rooms.get(phase.compute, 0)
            most = phase.pace.at_once or room
            if room:
                candidate = Candidate(batch.no, batch.tier, batch.tenant, one.served_at, most)
                candidates[phase.compute].append(candidate)
        return [
            (*known[no], wanted)
            for name, some in candidates.items()
            if some
            for no, wanted in self._shares.split(some, rooms[name], now)
        ]

    async def _claim(self, batch: Batch, phase: Phase, member: int, wanted: int) -> int:
        now = self._clock.now()
        claims = await self._tasks.claim_tasks(
            batch.no,
            member=member,
            limit=wanted,
            now=now,
            pace_seconds=phase.pace.between_seconds,
            # Since the offer others may have brought the batch into its next phase, with another step.
            phase=batch.position.phase,
            round_no=batch.position.round,
        )
        self._shares.served(batch.tenant, len(claims), now)
        if phase.rank is not None and phase.unit is not Unit.FILE:
            claims = await self._told(batch.no, claims)
        prefix = cache.key_prefix(phase)
        await self._dispatch(phase, [(claim, cache.key(prefix, phase, claim.order)) for claim in claims])
        return len(claims)

    async def _told(self, batch_no: int, claims: list[Claim]) -> list[Claim]:
        """Claims whose orders know the results of the directories below."""
        earlier = await self._tasks.load_child_results(batch_no, [claim.order.task_no for claim in claims])
        told = []
        for claim in claims:
            order = claim.order
            order = Order(order.batch_no, order.task_no, order.attempt, order.file, earlier[order.task_no])
            told.append(Claim(order, claim.failures, claim.interruptions, claim.started_at))
        return told

    async def _dispatch(self, phase: Phase, keyed: list[tuple[Claim, str | None]]) -> int:
        """What the cache knows is settled at once, the rest goes to compute."""
        known = await self._known([key for _, key in keyed if key is not None])
        fresh: list[Order] = []
        hits = 0
        for claim, key in keyed:
            if key is not None and key in known:
                hit = _hit(claim, known[key], now=self._clock.now())
                self._unfolded.setdefault(hit.report.batch_no, []).append(hit)
                hits += 1
            elif self._out.add(claim, phase, key):
                fresh.append(claim.order)
        # Results from the cache need no worker: while there is nothing else, take them by the hundred.
        self._free = 0 if fresh else min(FREE_AT_ONCE, 2 * hits)
        if fresh:
            await self._compute.hand(phase.call(), fresh)
        if hits:
            await self._fold()
        return len(fresh) + hits

    async def _known(self, keys: list[str]) -> dict[str, StepResult]:
        """Cached results whose blobs are still there; the others are forgotten."""
        if not keys:
            return {}
        known = await self._tasks.load_cached(keys)
        broken = [key for key, result in known.items() if not await self._whole(result)]
        if broken:
            await self._tasks.evict_cached(broken)
        return {key: result for key, result in known.items() if key not in broken}

    async def _whole(self, result: StepResult) -> bool:
        try:
            return all([(await self._blobs.head(made.key)).size == made.size for made in result.products])
        except Reject:
            return False
        except Retry as error:
            # Neither known nor unknown: computing it again for that would be wasted work. Later, then.
            raise Unavailable(f"a cached result could not be looked at: {error}", code=error.code) from error

    async def _recover(self, member: int) -> None:
        """Attempts that are ours by the ledger and unknown to us: the answer to a claim was lost."""
        ours = self._out.orders()
        ours |= {
            (one.report.batch_no, one.report.task_no, one.report.attempt)
            for settlements in self._unfolded.values()
            for one in settlements
        }
        ours |= {_name(out.claim.order) for out in self._again}
        lost = [
            claim.order for claim in await self._tasks.list_running(member) if _name(claim.order) not in ours
        ]
        if lost:
            await self._tasks.release_claims(lost)
        self._unsure = False
        self._more = True


def _name(order: Order) -> tuple[int, int, int]:
    return order.batch_no, order.task_no, order.attempt


def _hit(claim: Claim, result: StepResult, *, now: float) -> Settlement:
    order = claim.order
    report = Report(*(order.batch_no, order.task_no, order.attempt, Outcome.DONE), now, 0.0, "cache", result)
    return Settlement(report=report, state=TaskState.DONE, cached=True)
