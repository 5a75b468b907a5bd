"""The conductor moves batches: it starts them, fills them from their manifests, finds each phase's tasks, and
folds results into the file list.

It brings rows to the pure rules in `moves` and has the ledger apply what they decide. It holds nothing that
matters: killed at any moment, its successor reads the ledger and goes on. Several may run at once: each takes
the batches it moves for itself, and if two should meet on one, the compare-and-swap lets one of them through.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from quire.blobs.port import Blobs
from quire.engine import handover, manifest, moves, units
from quire.engine.outbox import Outbox
from quire.engine.retry import PhasePolicy, phase_delay
from quire.ledger.port import BatchStore, FileStore, Known, Move, Only, OutboxMessage
from quire.model.batch import Batch, Stage
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject, Retry, Stale, Unavailable
from quire.model.files import File
from quire.model.pipeline import Phase, Pipeline, Unit

ROWS_AT_ONCE = 2000
PRODUCTS_AT_ONCE = 4000
BATCHES_AT_ONCE = 16
TAKE_SECONDS = 1.0
SWEEP_SECONDS = 600.0
MOVABLE = frozenset({Stage.FILLING, Stage.GATHERING, Stage.DISCOVERING, Stage.TRANSFORMING})


class Scheduler:
    def __init__(
        self,
        *,
        batches: BatchStore,
        files: FileStore,
        blobs: Blobs,
        outbox: Outbox,
        pipelines: Mapping[str, Pipeline],
        clock: Clock,
        policy: PhasePolicy,
    ) -> None:
        self._batches = batches
        self._files = files
        self._blobs = blobs
        self._outbox = outbox
        self._pipelines = pipelines
        self._clock = clock
        self._policy = policy
        self._mine: dict[int, Batch] = {}
        self._take_at = 0.0
        self._sweep_at = clock.monotonic() + SWEEP_SECONDS
        self._alive: handover.Alive = _as_ever
        self._fills: dict[int, tuple[int, Iterator[File]]] = {}  # how far a manifest was read, and the rest

    @property
    def busy(self) -> bool:
        """In the middle of moving a batch."""
        return bool(self._mine)

    async def turn(self, member: int, only: Only, alive: handover.Alive | None = None) -> bool:
        """Make the next move of each batch that has one; True when something moved. `alive` is called now and
        then in a move that takes long, and may raise Stale to end it.
        """
        self._alive = alive or _as_ever
        moment = self._clock.monotonic()
        if not self._mine or moment >= self._take_at:
            # Now and then also in the midst of a large batch: a more urgent one must not wait for its end.
            self._take_at = moment + TAKE_SECONDS
            for batch in await self._batches.take_batches(
                member,
                limit=BATCHES_AT_ONCE,
                now=self._clock.now(),
                only=only,
                known=known_pipelines(self._pipelines, only),
            ):
                self._mine.setdefault(batch.no, batch)
        moved = False
        for batch in list(self._mine.values()):
            moved = await self._advance(batch, member) or moved
        return moved

    async def receive(self) -> int:
        """Start the batches whose messages have come in; how many were started."""
        moment = self._clock.monotonic()
        if moment >= self._sweep_at:
            self._sweep_at = moment + SWEEP_SECONDS
            await self._outbox.sweep()
        started = 0
        for queue in sorted({pipeline.queue for pipeline in self._pipelines.values()}):
            started += await self._outbox.deliver(queue)
        return started

    def look_again(self) -> None:
        """There may be batches to move that were not there before."""
        self._take_at = 0.0

    def forget(self) -> None:
        """Everything that was taken: somebody else may have it by now."""
        self._mine.clear()
        self._fills.clear()

    async def _advance(self, batch: Batch, member: int) -> bool:
        del self._mine[batch.no]
        try:
            batch = await self._move(batch)
        except (Unavailable, Misconfigured):
            # The ledger is away, or the pipeline is not known here: others may be better placed.
            self._fills.pop(batch.no, None)
            await self._batches.release_batch(batch.no, member)
            raise
        except Stale:
            self._fills.pop(batch.no, None)
            await self._batches.release_batch(batch.no, member)
            return False
        except Reject as error:
            await self._give_up(batch, str(error))
            return True
        except Exception as error:  # noqa: BLE001 - a batch's trouble must not become that of the others
            await self._put_off(batch, member, error)
            return False
        if batch.position.stage in MOVABLE:
            self._mine[batch.no] = batch
        else:
            self._fills.pop(batch.no, None)
        return True

    async def _give_up(self, batch: Batch, reason: str) -> None:
        self._fills.pop(batch.no, None)
        with suppress(Stale):
            await self._batches.apply_move(moves.fail(batch, reason, now=self._clock.now()))

    async def _put_off(self, batch: Batch, member: int, error: Exception) -> None:
        """The phase is tried again, later each time; after the last time the batch ends with the cause."""
        self._fills.pop(batch.no, None)
        words = str(error) if isinstance(error, Retry) else f"{type(error).__name__}: {error}"
        delay = phase_delay(batch.phase_retries, self._policy)
        if delay is None:
            reason = f"given up after {batch.phase_retries} retries of {batch.status}: {words}"
            await self._give_up(batch, reason)
            return
        now = self._clock.now()
        retries = batch.phase_retries + 1
        with suppress(Stale):
            await self._batches.postpone_move(
                batch.no, batch.position, retries=retries, until=now + delay, reason=words, now=now
            )
        await self._batches.release_batch(batch.no, member)

    async def _move(self, batch: Batch) -> Batch:
        pipeline = pipeline_of(batch, self._pipelines)
        match batch.position.stage:
            case Stage.FILLING:
                move = await self._filling(batch, pipeline)
            case Stage.GATHERING:
                move = await self._gathering(batch, pipeline)
            case Stage.DISCOVERING:
                move = await self._discovery(batch, pipeline)
            case Stage.TRANSFORMING:
                move = await self._transformation(batch, pipeline)
            case _:
                raise Stale(f"batch {batch.id} is {batch.position.stage}: nothing to move")
        return await self._batches.apply_move(move)

    async def _filling(self, batch: Batch, pipeline: Pipeline) -> Move:
        """A chunk per move; the manifest is decoded once and its iterator kept for the next chunk."""
        cursor = batch.position.cursor
        at, entries = self._fills.pop(batch.no, (-1, iter(())))
        if at != cursor:
            entries = await manifest.entries(self._blobs, batch)
            for _ in islice(entries, cursor):
                pass  # written before a restart
        chunk = list(islice(entries, ROWS_AT_ONCE))
        complete, message = await self._end(batch, pipeline, chunk, complete=len(chunk) < ROWS_AT_ONCE)
        if not complete:
            self._fills[batch.no] = (cursor + len(chunk), entries)
        return moves.fill(batch, pipeline, chunk, complete=complete, now=self._clock.now(), message=message)

    async def _gathering(self, batch: Batch, pipeline: Pipeline) -> Move:
        phase = moves.current_phase(batch, pipeline)
        files = await self._files.list_unit_candidates(
            batch, whole=phase.unit is Unit.BATCH, after=batch.position.cursor, limit=ROWS_AT_ONCE
        )
        paths = {moves.unit_path(phase, listed.file) for listed in files}
        known = await self._files.find_units(batch, paths)
        complete = len(files) < ROWS_AT_ONCE
        with _rules_of(phase):
            return moves.gather(batch, pipeline, files, known, complete=complete, now=self._clock.now())

    async def _discovery(self, batch: Batch, pipeline: Pipeline) -> Move:
        phase = moves.current_phase(batch, pipeline)
        if phase.unit is not Unit.FILE:
            found, contents = await units.filled(self._files, self._blobs, batch)
            complete = len(found) < units.UNITS_AT_ONCE
        else:
            found = await self._files.list_files(batch, after=batch.position.cursor, limit=ROWS_AT_ONCE)
            contents, complete = [], len(found) < ROWS_AT_ONCE
        with _rules_of(phase):
            return moves.discover(
                batch, pipeline, found, complete=complete, now=self._clock.now(), contents=contents
            )

    async def _transformation(self, batch: Batch, pipeline: Pipeline) -> Move:
        tasks = await self._files.list_settled_tasks(batch, after=batch.position.cursor, limit=ROWS_AT_ONCE)
        phase = moves.current_phase(batch, pipeline)
        chunk = moves.within(tasks, PRODUCTS_AT_ONCE)
        complete = len(tasks) < ROWS_AT_ONCE and len(chunk) == len(tasks)
        complete, message = await self._end(batch, pipeline, chunk, complete=complete)
        with _rules_of(phase):
            rivals = moves.rivals(phase, chunk)
        taken = await self._files.count_paths(batch.no, rivals)
        now = self._clock.now()
        with _rules_of(phase):
            return moves.transform(batch, pipeline, chunk, taken, complete=complete, now=now, message=message)

    async def _end(
        self, batch: Batch, pipeline: Pipeline, rows: Sequence[object], *, complete: bool
    ) -> tuple[bool, OutboxMessage | None]:
        """Whether these rows complete their stage after all, and what goes out with the batch's end. One that
        is handed over has its last rows written in a move of their own: the list that is told to others must
        stand in the ledger before.
        """
        if not (complete and batch.hands_over_to and moves.is_last(batch, pipeline)):
            return complete, None
        if rows:
            return False, None
        return True, await handover.hand_over(
            self._batches, self._files, self._blobs, batch, pipeline, self._alive
        )


async def _as_ever() -> None:
    """Nobody asks."""


def known_pipelines(pipelines: Mapping[str, Pipeline], only: Only) -> Known:
    """Batches of other pipelines, or of other versions, are for somebody who knows them. Who was asked for
    certain batches is told when they cannot be done here.
    """
    if only is not None:
        return None
    return [(pipeline.name, pipeline.version) for pipeline in pipelines.values()]


def pipeline_of(batch: Batch, pipelines: Mapping[str, Pipeline]) -> Pipeline:
    pipeline = pipelines.get(batch.pipeline)
    if pipeline is None or pipeline.version != batch.pipeline_version:
        raise Misconfigured(
            f"batch {batch.id} was submitted to pipeline {batch.pipeline} version "
            f"{batch.pipeline_version}, which this quire does not have; "
            "use the version that submitted it, or submit it anew"
        )
    return pipeline


@contextmanager
def _rules_of(phase: Phase) -> Iterator[None]:
    """A pipeline's own functions may fail; then its batch waits and, in the end, says so."""
    try:
        yield
    except Exception as error:
        raise Retry(
            f"the rules of phase {phase.name} failed: {type(error).__name__}: {error}", code="phase_error"
        ) from error
