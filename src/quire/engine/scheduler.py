"""The scheduler moves batches: it starts them, has their files listed and given their first tasks, applies
joins and makes units (`flow_moves`), adopts batches that an earlier version began, and ends batches.

It holds no state that matters: killed at any moment, the next scheduler reads the ledger and continues.
Several may run at once: each takes batches for itself, and if two meet on one, the compare-and-swap lets one
of them through.
"""

from collections.abc import Mapping
from contextlib import suppress

from quire.blobs.port import Blobs
from quire.engine import handover, moves
from quire.engine.adoption import Adoption
from quire.engine.flow_moves import FlowMoves
from quire.engine.outbox import Outbox
from quire.engine.retry import PhasePolicy, phase_delay_seconds
from quire.ledger.port import BatchStore, FlowStore, Known, Only, OutboxMessage
from quire.model.batch import Batch, Stage
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject, Retry, Stale, Unavailable
from quire.model.former import is_former
from quire.model.pipelines import Pipelines, to_pipelines
from quire.model.plan import Plan, digest_of

BATCHES_AT_ONCE = 16
TAKE_SECONDS = 1.0
SWEEP_SECONDS = 600.0
MOVABLE = frozenset({Stage.FILLING, Stage.FLOWING, Stage.ENDING})


class Scheduler:
    def __init__(
        self,
        *,
        batches: BatchStore,
        flow: FlowStore,
        blobs: Blobs,
        outbox: Outbox,
        pipelines: Mapping[str, Plan],
        clock: Clock,
        policy: PhasePolicy,
    ) -> None:
        self._batches = batches
        self._blobs = blobs
        self._outbox = outbox
        self._pipelines = to_pipelines(pipelines)
        self._flow = flow
        self._flow_moves = FlowMoves(flow, blobs, clock)
        self._adoption = Adoption(flow, clock)
        self._clock = clock
        self._policy = policy
        self._taken: dict[int, Batch] = {}
        self._take_again_at = 0.0
        self._sweep_at = clock.monotonic() + SWEEP_SECONDS
        self._alive: handover.Alive = _no_check

    @property
    def is_busy(self) -> bool:
        """Whether it is moving a batch."""
        return bool(self._taken)

    async def turn(self, member: int, only: Only, alive: handover.Alive | None = None) -> bool:
        """Make the next move of each batch that has one; True when something moved. `alive` is called now and
        then in a move that takes long, and may raise Stale to end it.
        """
        self._alive = alive or _no_check
        moment = self._clock.monotonic()
        if not self._taken or moment >= self._take_again_at:
            # Now and then also in the midst of a large batch: a more urgent one must not wait for its end.
            self._take_again_at = moment + TAKE_SECONDS
            for batch in await self._batches.take_batches(
                member,
                limit=BATCHES_AT_ONCE,
                now=self._clock.now(),
                only=only,
                known=known_pipelines(self._pipelines, only),
            ):
                self._taken.setdefault(batch.no, batch)
            await self._take_former(member, only)
        moved = False
        for batch in list(self._taken.values()):
            moved = await self._advance(batch, member) or moved
        return moved

    async def _take_former(self, member: int, only: Only) -> None:
        """Take batches that an earlier version has begun."""
        names = {one.name for one in self._pipelines.every()}
        for batch in await self._flow.take_former(
            member, pipelines=names, limit=BATCHES_AT_ONCE, now=self._clock.now(), only=only
        ):
            self._taken.setdefault(batch.no, batch)

    async def receive(self) -> int:
        """Start the batches whose messages have arrived; how many were started."""
        moment = self._clock.monotonic()
        if moment >= self._sweep_at:
            self._sweep_at = moment + SWEEP_SECONDS
            await self._outbox.clean_queues()
        started = 0
        for queue in sorted({pipeline.queue for pipeline in self._pipelines.every()}):
            started += await self._outbox.start_batches(queue)
        return started

    def notify(self) -> None:
        """There may be batches to move that were not there before."""
        self._take_again_at = 0.0

    def forget(self) -> None:
        """Forget the batches that were taken: another scheduler may hold them by now."""
        self._taken.clear()
        self._flow_moves.forget()

    async def _advance(self, batch: Batch, member: int) -> bool:
        del self._taken[batch.no]
        try:
            batch, moved = await self._move(batch)
        except (Unavailable, Misconfigured):
            # The ledger is away, or the pipeline is not known here: another process may know it.
            self._flow_moves.forget(batch.no)
            await self._batches.release_batch(batch.no, member)
            raise
        except Stale:
            self._flow_moves.forget(batch.no)
            await self._batches.release_batch(batch.no, member)
            return False
        except Reject as error:
            await self._fail(batch, str(error))
            return True
        except Exception as error:  # noqa: BLE001 - a batch's trouble must not become that of the others
            await self._postpone(batch, member, error)
            return False
        if not moved:
            self._flow_moves.forget(batch.no)
            await self._flow.rest_batch(batch.no, member, now=self._clock.now())
        elif batch.position.stage in MOVABLE:
            self._taken[batch.no] = batch
        else:
            self._flow_moves.forget(batch.no)
        return moved

    async def _fail(self, batch: Batch, reason: str) -> None:
        self._flow_moves.forget(batch.no)
        with suppress(Stale):
            await self._batches.apply_move(moves.fail(batch, reason, now=self._clock.now()))

    async def _postpone(self, batch: Batch, member: int, error: Exception) -> None:
        """The phase is tried again, later each time; after the last time the batch ends with the cause."""
        self._flow_moves.forget(batch.no)
        words = str(error) if isinstance(error, Retry) else f"{type(error).__name__}: {error}"
        delay = phase_delay_seconds(batch.phase_retries, self._policy)
        if delay is None:
            reason = f"given up after {batch.phase_retries} retries of {batch.status}: {words}"
            await self._fail(batch, reason)
            return
        now = self._clock.now()
        retries = batch.phase_retries + 1
        with suppress(Stale):
            await self._batches.postpone_move(
                batch.no, batch.position, retries=retries, until=now + delay, reason=words, now=now
            )
        await self._batches.release_batch(batch.no, member)

    async def _move(self, batch: Batch) -> tuple[Batch, bool]:
        """The batch after its next move; False: there is none at present."""
        plan = self._pipelines.of(batch)
        if is_former(batch):
            adopted = await self._adoption.begin(batch, plan)
            return adopted or batch, adopted is not None
        match batch.position.stage:
            case Stage.FILLING:
                return await self._flow_moves.begin(batch, plan), True
            case Stage.FLOWING:
                # As it is now: tasks were settled since it was taken.
                batch = await self._batches.get_batch(batch.id)
                if batch.flow is not None and batch.flow.adopts_to is not None:
                    return await self._adoption.move(batch, plan), True
                return await self._flow_moves.move(batch, plan)
            case Stage.ENDING:
                message = await self._hand_over(batch, len(plan.phases))
                move = moves.end(batch, plan, now=self._clock.now(), message=message)
                return await self._batches.apply_move(move), True
            case _:
                raise Stale(f"batch {batch.id} is {batch.position.stage}: nothing to move")

    async def _hand_over(self, batch: Batch, phases: int) -> OutboxMessage | None:
        if not batch.hands_over_to:
            return None
        return await handover.hand_over(self._batches, self._flow, self._blobs, batch, phases, self._alive)


async def _no_check() -> None:
    """No check between the parts of a move."""


def known_pipelines(pipelines: Pipelines, only: Only) -> Known:
    """The pipelines whose batches this process may take. None (all) when certain batches were asked for: then
    an unknown pipeline is reported instead of passed over.
    """
    if only is not None:
        return None
    return [(one.name, one.version, digest_of(one)) for one in pipelines.every()]
