"""The conductor carries a batch from its first message to its end.

It brings rows to the pure rules in `moves` and `retry`, has the ledger apply what they decide, and keeps
compute busy. It holds nothing that matters: killed at any moment, its successor reads the ledger and goes
on. It waits for signals; the timeout of a wait is the batch's next alarm.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import islice

from quire.blobs.port import Blobs
from quire.engine import cache, manifest, moves
from quire.engine.mail import Mail
from quire.engine.outstanding import Outstanding
from quire.engine.retry import RetryPolicy, rule
from quire.ledger.port import Claim, Ledger, Move, Settlement
from quire.model.batch import Batch, Stage, TaskState
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject, Stale
from quire.model.ids import Ids
from quire.model.pipeline import Phase, Pipeline
from quire.model.signal import Signal
from quire.model.work import Compute, Outcome, Report, StepResult

ROWS_AT_ONCE = 2000
PRODUCTS_AT_ONCE = 4000
# Without an alarm there is always something that wakes us; this is the net under it.
LONGEST_WAIT_SECONDS = 5.0

Observer = Callable[[Batch], Awaitable[None]]


class Rest(Enum):
    """How a pause ended."""

    WOKEN = "woken"  # by a report, or to stop
    RANG = "rang"  # the alarm: tasks may be due again
    OVER = "over"  # nothing was left to wait for: the phase has ended


class Conductor:
    def __init__(
        self,
        *,
        ledger: Ledger,
        blobs: Blobs,
        mail: Mail,
        compute: Compute,
        pipelines: Mapping[str, Pipeline],
        clock: Clock,
        ids: Ids,
        signal: Signal,
        policy: RetryPolicy,
    ) -> None:
        self._ledger = ledger
        self._blobs = blobs
        self._mail = mail
        self._compute = compute
        self._pipelines = pipelines
        self._clock = clock
        self._ids = ids
        self._signal = signal
        self._policy = policy
        self._out = Outstanding()
        self._free = 0  # how many may be claimed beyond what compute has room for
        self._stopping = False

    def stop(self) -> None:
        """Claim nothing more; `conduct` returns when what is out has come back or been given back."""
        self._stopping = True
        self._signal.set()

    async def conduct(self, batch_id: str, observe: Observer) -> Batch:
        """Until the batch has ended or `stop` was called."""
        batch = await self._ledger.batch(batch_id)
        pipeline = self._pipeline(batch)
        await self._pick_up(batch, pipeline)
        while not batch.ended and not self._stopping:
            try:
                await self._advance(batch, pipeline, observe)
            except Stale:
                pass  # somebody moved it: look again
            except Reject as error:
                await self._give_up(batch_id, str(error))
            batch = await self._ledger.batch(batch_id)
            await observe(batch)
        return batch

    async def _give_up(self, batch_id: str, reason: str) -> None:
        """From where it stands now: it may have moved since we read it."""
        batch = await self._ledger.batch(batch_id)
        if not batch.ended:
            with suppress(Stale):
                await self._ledger.apply(moves.fail(batch, reason, now=self._clock.now()))

    async def wind_down(self, batch_id: str, grace_seconds: float) -> None:
        """Let compute finish what is running, settle that, and give back what never started."""
        unstarted = await self._compute.stop(grace_seconds)
        batch = await self._ledger.batch(batch_id)
        if batch.position.stage is Stage.WORKING:
            phase = moves.current_phase(batch, self._pipeline(batch))
            unstarted += [claim.order for claim in self._out.withdraw()]
            await self._ledger.give_back(unstarted)
            await self._settle(batch, phase, self._compute.reports())
        self._out.clear()

    async def _advance(self, batch: Batch, pipeline: Pipeline, observe: Observer) -> None:
        match batch.position.stage:
            case Stage.QUEUED:
                if not await self._mail.deliver(pipeline.queue):
                    await self._signal.wait(1.0)
            case Stage.FILLING:
                await self._fill(batch, pipeline)
            case Stage.DISCOVERING:
                await self._ledger.apply(await self._discovery(batch, pipeline))
            case Stage.WORKING:
                await self._work(batch, pipeline, observe)
            case Stage.TRANSFORMING:
                await self._ledger.apply(await self._transformation(batch, pipeline))
            case _:
                raise Reject(f"a batch in stage {batch.position.stage} cannot be conducted", code="not_ready")

    async def _fill(self, batch: Batch, pipeline: Pipeline) -> None:
        """All of it in one go, a chunk per move, so that the manifest is decoded once."""
        entries = await manifest.entries(self._blobs, batch)
        for _ in islice(entries, batch.position.cursor):
            pass  # written before a restart
        while batch.position.stage is Stage.FILLING:
            chunk = list(islice(entries, ROWS_AT_ONCE))
            complete = len(chunk) < ROWS_AT_ONCE
            move = moves.fill(batch, pipeline, chunk, complete=complete, now=self._clock.now())
            batch = await self._ledger.apply(move)

    async def _discovery(self, batch: Batch, pipeline: Pipeline) -> Move:
        files = await self._ledger.files(batch.no, after=batch.position.cursor, limit=ROWS_AT_ONCE)
        complete = len(files) < ROWS_AT_ONCE
        with _rules_of(moves.current_phase(batch, pipeline)):
            return moves.discover(batch, pipeline, files, complete=complete, now=self._clock.now())

    async def _transformation(self, batch: Batch, pipeline: Pipeline) -> Move:
        position = batch.position
        tasks = await self._ledger.settled_tasks(
            batch.no, phase=position.phase, after=position.cursor, limit=ROWS_AT_ONCE
        )
        phase = moves.current_phase(batch, pipeline)
        chunk = moves.within(tasks, PRODUCTS_AT_ONCE)
        complete = len(tasks) < ROWS_AT_ONCE and len(chunk) == len(tasks)
        with _rules_of(phase):
            rivals = moves.rivals(phase, chunk)
        taken = await self._ledger.taken(batch.no, rivals)
        with _rules_of(phase):
            return moves.transform(batch, pipeline, chunk, taken, complete=complete, now=self._clock.now())

    async def _work(self, batch: Batch, pipeline: Pipeline, observe: Observer) -> None:
        """Turn the wheel until the phase has ended: fold reports, hand out work, wait to be woken."""
        phase = moves.current_phase(batch, pipeline)
        more = True  # there may be tasks to claim: asking costs a transaction, so not when we know better
        self._free = 0
        while not self._stopping:
            reports = self._compute.reports()
            if reports and await self._settle(batch, phase, reports):
                return
            room = max(0, self._compute.room() - self._out.parked, self._free) if more else 0
            claims = await self._ledger.claim(batch.no, limit=room, now=self._clock.now()) if room else []
            if claims and await self._dispatch(batch, phase, claims):
                return
            more = more and len(claims) == room
            if not reports and not claims:
                rest = await self._rest(batch, phase, full=more)
                if rest is Rest.OVER:
                    return
                more = more or rest is Rest.RANG
            await observe(batch)

    async def _rest(self, batch: Batch, phase: Phase, *, full: bool) -> "Rest":
        """Nothing to do just now: wait for a report or, unless compute is full, for the alarm."""
        if full:
            await self._signal.wait(LONGEST_WAIT_SECONDS)
            return Rest.WOKEN
        alarm = await self._ledger.next_alarm(batch.no)
        if not self._out and alarm is None:
            # Nothing is out, nothing is due: the phase was empty, or it ended elsewhere.
            if await self._settle(batch, phase, []):
                return Rest.OVER
            await self._signal.wait(1.0)
            return Rest.RANG if (await self._ledger.batch(batch.id)).position == batch.position else Rest.OVER
        now = self._clock.now()
        wait = LONGEST_WAIT_SECONDS if alarm is None else min(LONGEST_WAIT_SECONDS, max(0.0, alarm - now))
        if await self._signal.wait(wait):
            return Rest.WOKEN
        await self._ledger.clear_alarm(batch.no, now=self._clock.now())
        return Rest.RANG

    async def _dispatch(self, batch: Batch, phase: Phase, claims: list[Claim]) -> bool:
        """What the cache knows is settled at once, the rest goes to compute. True when the phase ended."""
        prefix = cache.key_prefix(phase)
        keyed = [(claim, cache.key(prefix, phase, claim.order.file)) for claim in claims]
        known = await self._known([key for _, key in keyed if key is not None])
        fresh, hits = [], []
        for claim, key in keyed:
            if key is not None and key in known:
                hits.append(_hit(claim, known[key], now=self._clock.now()))
            elif self._out.add(claim, key):
                fresh.append(claim.order)
        # Results from the cache need no worker: while there is nothing else, take them by the hundred.
        self._free = 0 if fresh else min(ROWS_AT_ONCE, 2 * len(hits))
        if fresh:
            await self._compute.hand(phase.call(), fresh)
        if not hits:
            return False
        return (await self._ledger.settle(batch.no, hits, now=self._clock.now())).phase_ended

    async def _known(self, keys: list[str]) -> dict[str, StepResult]:
        """Cached results whose blobs are still there; the others are forgotten."""
        if not keys:
            return {}
        known = await self._ledger.cached(keys)
        broken = [key for key, result in known.items() if not await self._whole(result)]
        if broken:
            await self._ledger.evict(broken)
        return {key: result for key, result in known.items() if key not in broken}

    async def _whole(self, result: StepResult) -> bool:
        try:
            return all([(await self._blobs.head(made.key)).size == made.size for made in result.products])
        except Reject:
            return False

    async def _settle(self, batch: Batch, phase: Phase, reports: list[Report]) -> bool:
        """Fold reports; True when the phase ended with them."""
        now = self._clock.now()
        policy = _policy_of(phase, self._policy)
        settlements: list[Settlement] = []
        again: list[Claim] = []
        for report in reports:
            claim, key, behind = self._out.back(report)
            settlements.append(self._judge(report, claim, key, policy, now))
            if report.outcome is Outcome.DONE:
                settlements += (_hit(equal, report.result or StepResult(), now=now) for equal in behind)
            else:
                again += behind
        ended = (await self._ledger.settle(batch.no, settlements, now=now)).phase_ended
        return await self._dispatch(batch, phase, again) if again else ended

    def _judge(
        self, report: Report, claim: Claim | None, key: str | None, policy: RetryPolicy, now: float
    ) -> Settlement:
        if report.outcome is Outcome.DONE:
            return Settlement(report=report, state=TaskState.DONE, cache_key=key)
        failures, interruptions = (claim.failures, claim.interruptions) if claim else (0, 0)
        ruling = rule(
            report.outcome,
            failures,
            interruptions,
            policy,
            now=now,
            fraction=self._ids.fraction(),
            delay_seconds=report.delay_seconds,
        )
        return Settlement(report=report, state=ruling.state, due_at=ruling.due_at, blame=ruling.blame)

    async def _pick_up(self, batch: Batch, pipeline: Pipeline) -> None:
        """Attempts that went down with an earlier conductor end here, as interrupted."""
        if batch.position.stage is not Stage.WORKING:
            return
        lost = await self._ledger.running(batch.no)
        now = self._clock.now()
        for claim in lost:
            self._out.add(claim, None)
        phase = moves.current_phase(batch, pipeline)
        await self._settle(batch, phase, [_interrupted(claim, now) for claim in lost])

    def _pipeline(self, batch: Batch) -> Pipeline:
        pipeline = self._pipelines.get(batch.pipeline)
        if pipeline is None or pipeline.version != batch.pipeline_version:
            raise Misconfigured(
                f"batch {batch.id} was submitted to pipeline {batch.pipeline} version "
                f"{batch.pipeline_version}, which this quire does not have; "
                "use the version that submitted it, or submit it anew"
            )
        return pipeline


@contextmanager
def _rules_of(phase: Phase) -> Iterator[None]:
    """A pipeline's own functions may fail; then its batch ends with that reason and the others go on."""
    try:
        yield
    except Exception as error:
        raise Reject(
            f"the rules of phase {phase.name} failed: {type(error).__name__}: {error}", code="phase_error"
        ) from error


def _policy_of(phase: Phase, policy: RetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        max_failures=phase.max_attempts,
        max_interruptions=policy.max_interruptions,
        first_delay_seconds=policy.first_delay_seconds,
        longest_delay_seconds=policy.longest_delay_seconds,
    )


def _hit(claim: Claim, result: StepResult, *, now: float) -> Settlement:
    report = Report(
        claim.order.batch_no,
        claim.order.task_no,
        claim.order.attempt,
        Outcome.DONE,
        now,
        0.0,
        "cache",
        result,
    )
    return Settlement(report=report, state=TaskState.DONE, cached=True)


def _interrupted(claim: Claim, now: float) -> Report:
    order = claim.order
    return Report(
        *(order.batch_no, order.task_no, order.attempt, Outcome.INTERRUPTED),
        *(claim.started_at, max(0.0, now - claim.started_at), "unknown", None),
        error_class="interrupted",
        error="quire stopped while this attempt was running",
    )
