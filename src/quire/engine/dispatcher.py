"""The dispatcher keeps compute busy: it claims tasks, starts them, and settles their reports.

Any number of dispatchers work on one ledger; the ledger knows which tasks belong to which. A dispatcher that
cannot reach the ledger keeps its reports and settles them later: settling a report twice changes nothing.
"""

from collections.abc import Mapping

from quire.blobs.port import Blobs
from quire.engine.claims import RunningClaim, RunningClaims, Work, cache_key
from quire.engine.continuation import Continuation
from quire.engine.deadlines import Deadlines
from quire.engine.flow_claims import Claimed, FlowClaims, IssueToken
from quire.engine.flow_settler import FlowSettler
from quire.engine.retry import RetryPolicy
from quire.engine.rooms import PhaseRooms, list_coroutine_calls
from quire.engine.scheduler import known_pipelines
from quire.engine.settlement import decide_settlement
from quire.engine.sharing import Shares
from quire.ledger.port import BatchStore, Claim, FlowStore, Only, Settlement, SettleResult, TaskStore
from quire.model.batch import Stage, TaskState
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.pipelines import list_computes, to_pipelines
from quire.model.plan import Plan
from quire.model.work import Compute, Order, Outcome, Report, StepCall, StepResult

FREE_AT_ONCE = 2000
LOOK_SECONDS = 0.5
_DEFAULT_POLICY = RetryPolicy()


class Dispatcher:
    def __init__(
        self,
        *,
        batches: BatchStore,
        tasks: TaskStore,
        flow: FlowStore,
        blobs: Blobs,
        compute: Compute,
        pipelines: Mapping[str, Plan],
        clock: Clock,
        ids: Ids,
        policy: RetryPolicy,
        shares: Shares,
        issue_token: IssueToken | None = None,
    ) -> None:
        self._batches = batches
        self._tasks = tasks
        self._blobs = blobs
        self._compute = compute
        self._flow = flow
        self._pipelines = to_pipelines(pipelines)
        self._computes = sorted(list_computes(self._pipelines)) or [""]
        self._coroutine_calls = list(list_coroutine_calls(self._pipelines))
        self._settler = FlowSettler(flow)
        self._flow_claims = FlowClaims(flow, tasks, self._pipelines, clock, policy, shares, issue_token)
        self._deadlines = Deadlines(flow, self._settler, clock, ids, policy)
        self._clock = clock
        self._ids = ids
        self._out = RunningClaims()
        # Settlements that the ledger has not confirmed, with the claims they belong to.
        self._unsettled: dict[int, list[tuple[Settlement, Claim | None]]] = {}
        self._restart: list[RunningClaim] = []  # claimed, and to be started anew
        self._extra_claims = 0  # tasks that may be claimed beyond the room of compute
        self._may_have_tasks = True  # asking the ledger costs: not while it is known to have none
        self._may_have_lost_claims = False  # the answer to a claim may have been lost
        self._looked_at = 0.0
        self.phase_ended = False
        self.has_asked = False  # the last turn put requests to somebody outside into the outbox
        self.asked_for_tasks = False  # whether the last turn asked the ledger for tasks

    @property
    def idle(self) -> bool:
        return not self._out and not self._unsettled and not self._restart

    @property
    def full(self) -> bool:
        """There are more tasks than compute can take: only a report can change that."""
        return self._may_have_tasks and bool(self._out)

    def notify(self) -> None:
        """Something may have changed elsewhere: there may be tasks to claim."""
        self._may_have_tasks = True

    async def turn(self, member: int, only: Only, *, claiming: bool = True) -> bool:
        """Settle reports, start as many tasks as there is room for; True when there was anything to do."""
        self.phase_ended = self.has_asked = False
        if self._may_have_lost_claims:
            await self._recover(member)
        reports = self._compute.take_reports()
        self._decide(reports)
        try:
            settled_count = await self._settle(member if claiming else None)
        except Unavailable:
            self._may_have_lost_claims = True  # of those that are claimed with a settlement
            raise
        await self._check_batches(only)
        handed = await self._start_tasks(member, only) if claiming else 0
        return bool(reports or settled_count or handed)

    async def shut_down(self, grace_seconds: float) -> None:
        """Let compute finish running tasks, settle them, and release claims that never started."""
        unstarted = await self._compute.stop(grace_seconds)
        unstarted += self._out.withdraw_waiting()
        unstarted += [out.claim.order for out in self._restart]
        self._restart = []
        self._decide(self._compute.take_reports())
        await self._settle()
        await self._release(unstarted)
        self._out.clear()

    async def abandon(self) -> None:
        """This member was presumed dead: other members have its tasks by now."""
        for batch_no in self._out.batches():
            self._compute.revoke(batch_no)
        self._out.clear()
        self._unsettled.clear()
        self._restart = []

    def _decide(self, reports: list[Report]) -> None:
        """Decide the settlements of reports and keep them until the ledger has confirmed them."""
        now = self._clock.now()
        for report in reports:
            out, waiting = self._out.remove(report)
            if report.known:
                self._restart += waiting
                continue
            claim = out.claim if out else None
            if report.outcome is Outcome.DONE:
                key = cache_key(out, report)
                self._keep(Settlement(report=report, state=TaskState.DONE, cache_key=key), claim)
                for equal in waiting:
                    hit = _build_cache_hit(equal.claim, report.result or StepResult(), now=now)
                    self._keep(hit, equal.claim)
                continue
            policy = _DEFAULT_POLICY if out is None else out.work.policy
            settlement = decide_settlement(report, claim, policy, now=now, fraction=self._ids.fraction())
            self._keep(settlement, claim)
            self._restart += waiting

    def _keep(self, settlement: Settlement, claim: Claim | None) -> None:
        """Until the ledger has confirmed it."""
        self._unsettled.setdefault(settlement.report.batch_no, []).append((settlement, claim))

    async def _settle(self, member: int | None = None) -> int:
        """Settle what was decided; a member is given the next tasks with it, where no other batch waits."""
        settled_count = 0
        continued: list[tuple[Continuation, SettleResult]] = []
        for batch_no in list(self._unsettled):
            decided = self._unsettled[batch_no]
            going_on = None if member is None else self._find_continuation(batch_no, member)
            settled = await self._settle_batch(batch_no, decided, going_on)
            del self._unsettled[batch_no]
            settled_count += len(decided)
            self.phase_ended = self.phase_ended or settled.phase_ended
            self.has_asked = self.has_asked or any(one.state is TaskState.EXTERNAL for one, _ in decided)
            # A retry or what follows may be due.
            self._may_have_tasks = (
                self._may_have_tasks
                or settled.created
                or any(one.state is not TaskState.DONE for one, _ in decided)
            )
            if going_on is not None:
                continued.append((going_on, settled))
        for going_on, settled in continued:
            await self._hand_out(await self._flow_claims.continue_batch(going_on, settled.claims))
        return settled_count

    def _find_continuation(self, batch_no: int, member: int) -> Continuation | None:
        if self._restart or not self._may_have_tasks:
            return None
        rooms = {name: self._room(name) for name in self._computes}
        return self._flow_claims.find_continuation(batch_no, member, PhaseRooms(rooms, self._room))

    async def _settle_batch(
        self, batch_no: int, decided: list[tuple[Settlement, Claim | None]], continued: Continuation | None
    ) -> SettleResult:
        now = self._clock.now()
        request = None if continued is None else continued.request
        return await self._settler.settle(batch_no, decided, now=now, claim=request)

    async def _release(self, orders: list[Order]) -> None:
        """Give back claims that never started."""
        by_batch: dict[int, list[tuple[int, int]]] = {}
        for order in orders:
            by_batch.setdefault(order.batch_no, []).append((order.task_no, order.attempt))
        for batch_no, attempts in by_batch.items():
            await self._flow.release_flow_claims(batch_no, attempts)

    async def _check_batches(self, only: Only) -> None:
        """Now and then: revoke tasks of batches that no longer work, look for tasks made by other processes,
        and end the wait for answers that did not come.
        """
        moment = self._clock.monotonic()
        if moment - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = moment
        self._may_have_tasks = True
        await self._deadlines.settle_overdue(only)
        batches = self._out.batches()
        if not batches:
            return
        positions = await self._batches.get_positions(batches)
        ended = [no for no in batches if no not in positions or positions[no].stage is not Stage.FLOWING]
        for batch_no in ended:
            self._compute.revoke(batch_no)
        self._restart += self._out.drop(ended)

    async def _start_tasks(self, member: int, only: Only) -> int:
        try:
            return await self._restart_waiting() + await self._claim_new(member, only)
        except Unavailable:
            self._may_have_lost_claims = True
            raise

    async def _restart_waiting(self) -> int:
        """Start claims whose equal work failed: the first of them now runs itself."""
        again, self._restart = self._restart, []
        return sum([await self._dispatch(out.work, [(out.claim, out.key)]) for out in again])

    async def _claim_new(self, member: int, only: Only) -> int:
        self.asked_for_tasks = self._may_have_tasks
        if not self._may_have_tasks:
            return 0
        rooms = {name: self._room(name) for name in self._computes}
        if not any(rooms.values()) and not any(
            self._room(call.compute, call) for call in self._coroutine_calls
        ):
            return 0
        known = known_pipelines(self._pipelines, only)
        claimed = await self._flow_claims.claim(member, PhaseRooms(dict(rooms), self._room), only, known)
        for work, keyed in claimed.work:
            if not work.call.asynchronous:
                rooms[work.call.compute] = max(0, rooms.get(work.call.compute, 0) - len(keyed))
        await self._hand_out(claimed)
        self._may_have_tasks = bool(claimed.limited) or claimed.count >= max(rooms.values())
        return claimed.count

    async def _hand_out(self, claimed: Claimed) -> None:
        """Start what was claimed; settle what is settled without running."""
        for settlement, claim in claimed.settled:
            self._keep(settlement, claim)
        for work, keyed in claimed.work:
            await self._dispatch(work, keyed)
        if claimed.settled:
            await self._settle()

    def _room(self, compute: str, call: StepCall | None = None) -> int:
        return max(0, self._compute.capacity(compute, call) - self._out.waiting_count, self._extra_claims)

    async def _dispatch(self, work: Work, keyed: list[tuple[Claim, str | None]]) -> int:
        """Settle cached results at once; give the rest to compute."""
        known = await self._load_cached([key for _, key in keyed if key is not None])
        fresh: list[Order] = []
        hits = 0
        for claim, key in keyed:
            if key is not None and key in known:
                self._keep(_build_cache_hit(claim, known[key], now=self._clock.now()), claim)
                hits += 1
            elif self._out.add(claim, work, key):
                fresh.append(claim.order)
        # Results from the cache need no worker: while there is nothing else, take them by the hundred.
        self._extra_claims = 0 if fresh else min(FREE_AT_ONCE, 2 * hits)
        if fresh:
            await self._compute.submit(work.call, fresh)
        if hits:
            await self._settle()
        return len(fresh) + hits

    async def _load_cached(self, keys: list[str]) -> dict[str, StepResult]:
        """Cached results whose blobs still exist; the others are evicted."""
        if not keys:
            return {}
        known = await self._tasks.load_cached(keys)
        broken = [key for key, result in known.items() if not await self._is_complete(result)]
        if broken:
            await self._tasks.evict_cached(broken)
        return {key: result for key, result in known.items() if key not in broken}

    async def _is_complete(self, result: StepResult) -> bool:
        blobs = [(made.key, made.size) for made in result.products]
        if result.value is not None and result.value.digest:
            blobs.append((result.value.key, result.value.size))  # a later step may need it
        try:
            return all([(await self._blobs.head(key)).size == size for key, size in blobs])
        except Reject:
            return False
        except Retry as error:
            # The store is away: computing the result again would be wasted work, so try later.
            raise Unavailable(f"a cached result could not be looked at: {error}", code=error.code) from error

    async def _recover(self, member: int) -> None:
        """Release attempts that the ledger counts as this member's and that are unknown here: the answer to a
        claim was lost.
        """
        ours = self._out.orders()
        ours |= {
            (one.report.batch_no, one.report.task_no, one.report.attempt)
            for decided in self._unsettled.values()
            for one, _ in decided
        }
        ours |= {_name(out.claim.order) for out in self._restart}
        lost = [
            claim.order for claim in await self._tasks.list_running(member) if _name(claim.order) not in ours
        ]
        await self._release(lost)
        self._may_have_lost_claims = False
        self._may_have_tasks = True


def _name(order: Order) -> tuple[int, int, int]:
    return order.batch_no, order.task_no, order.attempt


def _build_cache_hit(claim: Claim, result: StepResult, *, now: float) -> Settlement:
    order = claim.order
    report = Report(*(order.batch_no, order.task_no, order.attempt, Outcome.DONE), now, 0.0, "cache", result)
    return Settlement(report=report, state=TaskState.DONE, cached=True)
