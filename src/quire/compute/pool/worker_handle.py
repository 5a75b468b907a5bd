"""One worker process as the pool sees it: the orders it was given, the one it runs, and how it ended."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames
from quire.compute.pool.child import WorkerProcess
from quire.compute.pool.chunks import STORING_AT_ONCE
from quire.compute.pool.memory_budget import UNLIMITED_MB
from quire.compute.pool.meter import PROGRESS_INTERVAL_SECONDS
from quire.model.clock import Clock
from quire.model.cost import NO_COST, Cost
from quire.model.errors import Misconfigured
from quire.model.work import AttemptKey, Order, Report, StepCall

START_SECONDS = 60.0
NO_PROGRESS = frames.ProgressFrame(0, 0)
Assignment = tuple[StepCall, Order]
OnProgress = Callable[[Order, int, int], None]  # how many parts are done, and how many there are


class WorkerHandle:
    """Orders start in the sequence in which they were given, so a STARTED frame needs no name."""

    def __init__(self, process: WorkerProcess, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        self._unframer = frames.FrameDecoder()
        self.unstarted: deque[Assignment] = deque()
        self.started: dict[AttemptKey, Assignment] = {}  # until reported
        self.current: Assignment | None = None  # the one whose step is running
        self.current_since = 0.0
        self.chunks_waiting = 0
        self.is_killed = False  # SIGKILL was sent
        self.was_revoked = False  # killed for a revoked order: its other orders did nothing wrong
        self.kill_reason: tuple[Order, AttemptFailure] | None = None  # the order it was killed for, and why
        self.requested_mb = 0  # what the current order needs, until the pool answers
        self.held: dict[AttemptKey, int] = {}  # megabytes above the share of a worker, by order
        self.is_recalling = False  # it was asked to give back what it has not started
        self.durations: list[tuple[StepCall, float]] = []  # until the pool takes them
        self._ended: list[tuple[StepCall, Report]] = []  # of calls that use a resource
        self.on_progress: OnProgress | None = None
        self._left_in_chunk: deque[int] = deque()
        self._alive_at = 0.0
        self._progress = NO_PROGRESS
        self._spent: dict[AttemptKey, Cost] = {}  # by started orders, as far as the worker has said
        self._revoked: set[AttemptKey] = set()
        self._returned: list[Assignment] = []

    @classmethod
    async def start(cls, process: WorkerProcess, configuration: bytes, clock: Clock) -> "WorkerHandle":
        """Configure a process and wait until it is ready. Raises Misconfigured when it is not."""
        handle = cls(process, clock)
        process.write(frames.encode_hello(frames.HELLO, configuration))
        try:
            received = await asyncio.wait_for(handle.receive(), START_SECONDS)
        except TimeoutError:
            received = None
        if received is None:
            handle.kill()
            await handle.wait()
            raise Misconfigured(
                f"a worker process did not start: {handle.read_stderr() or 'it wrote nothing'}"
            )
        return handle

    @property
    def name(self) -> str:
        return self._process.name

    @property
    def orders_out(self) -> int:
        return len(self.unstarted) + len(self.started)

    @property
    def orders_to_compute(self) -> int:
        """Without those whose results are being stored."""
        return len(self.unstarted) + (self.current is not None)

    @property
    def is_idle(self) -> bool:
        """Whether it computes nothing and could: what it stores does not keep it from that."""
        return not self.orders_to_compute and len(self.started) < STORING_AT_ONCE

    def give(
        self, call: StepCall, orders: Sequence[Order], *, granted_mb: int = UNLIMITED_MB, held_mb: int = 0
    ) -> None:
        """Send a chunk of orders. `held_mb` is for the single order of a chunk that needs much memory."""
        if held_mb:
            self.held[orders[0].attempt_key] = held_mb
        self.unstarted.extend((call, order) for order in orders)
        self._left_in_chunk.append(len(orders))
        self.chunks_waiting += 1
        self._process.write(frames.encode_frame(frames.CHUNK, frames.Chunk(call, list(orders), granted_mb)))

    def recall(self) -> None:
        """Ask the worker to give back what it has not started."""
        self.is_recalling = True
        self._process.write(frames.RECALL_FRAME)

    def take_returned(self) -> list[Assignment]:
        """Remove and return what the worker has given back, without what was revoked."""
        taken, self._returned = self._returned, []
        wanted = [given for given in taken if not self.is_revoked(given[1])]
        self._revoked.difference_update(order.attempt_key for _, order in taken)
        return wanted

    def take_ended(self) -> list[tuple[StepCall, Report]]:
        """Remove and return the reports of calls that use a resource."""
        taken, self._ended = self._ended, []
        return taken

    def grant_memory(self, held_mb: int) -> None:
        """Let the current order begin; it holds this much above the share from now on."""
        if self.current is not None:
            self.held[self.current[1].attempt_key] = held_mb
        self.requested_mb = 0
        self._process.write(frames.encode_frame(frames.GO))

    def defer(self) -> Assignment | None:
        """Take the current order back before it begins. None when it was revoked."""
        self.requested_mb = 0
        self._process.write(frames.encode_frame(frames.WAIT))
        if self.current is None:
            return None
        given, self.current = self.current, None
        key = given[1].attempt_key
        self.started.pop(key, None)
        self.held.pop(key, None)
        revoked = key in self._revoked
        self._revoked.discard(key)
        return None if revoked else given

    async def receive(self) -> list[Report] | None:
        """The next reports of the worker, perhaps none; None when the process is gone."""
        data = await self._process.read()
        if not data:
            return None
        reports = []
        for kind, payload in self._unframer.feed(data):
            if kind == frames.STARTED:
                self._note_start()
            elif kind == frames.COMPUTED:
                self._release()
                self.current = None
            elif kind == frames.REPORT:
                report = frames.report_decoder.decode(payload)
                if self._accept_report(report):
                    reports.append(report)
            else:
                self._note_other(kind, payload)
        return reports

    def check_limits(self, now: float) -> None:
        """Kill the worker when its current order has exceeded a time limit."""
        if self.current is None or self.kill_reason is not None:
            return
        call, order = self.current
        limit = call.limit_seconds(self._progress.total)
        if now - self.current_since > limit:
            self.kill_reason = (order, failures.of_timeout(call, limit))
        # The last progress may be younger than the last one that was sent.
        elif 0 < call.stall_seconds < now - self._alive_at - PROGRESS_INTERVAL_SECONDS:
            shown = self._progress
            self.kill_reason = (order, failures.of_stall(call, shown.done, shown.total))
        if self.kill_reason is not None:
            self.kill()

    def revoke(self, batch_no: int) -> None:
        """Neither run nor report anything of this batch that was given so far."""
        waiting = {order.attempt_key for _, order in self.unstarted if order.batch_no == batch_no}
        self._revoked |= waiting
        self._revoked.update(key for key in self.started if key[0] == batch_no)
        if self.current is not None and self.current[1].batch_no == batch_no:
            self._kill_revoked()
        elif waiting:
            self._process.write(frames.encode_frame(frames.REVOKE, frames.Revoke(batch_no)))

    def is_revoked(self, order: Order) -> bool:
        return order.attempt_key in self._revoked

    def spent_on(self, order: Order) -> Cost:
        return self._spent.get(order.attempt_key, NO_COST)

    def stop(self) -> None:
        """Ask the worker to finish its current order, then end."""
        self._process.write(frames.encode_frame(frames.STOP))

    def kill(self) -> None:
        self.is_killed = True
        self._process.kill()

    async def wait(self) -> str:
        """Wait for the end of the process; how it ended, in words."""
        return await self._process.wait()

    def read_stderr(self) -> str:
        return self._process.read_stderr()

    @property
    def is_lost(self) -> bool:
        """Has it gone with its machine? Known after `wait`."""
        return self._process.is_lost

    def _next(self) -> Assignment:
        given = self.unstarted.popleft()
        self._left_in_chunk[0] -= 1
        if self._left_in_chunk[0] == 0:
            self._left_in_chunk.popleft()
            self.chunks_waiting -= 1
        return given

    def _note_start(self) -> None:
        self.current = self._next()
        self.current_since = self._alive_at = self._clock.monotonic()
        self._progress = NO_PROGRESS
        key = self.current[1].attempt_key
        self.started[key] = self.current
        if key in self._revoked:
            self._kill_revoked()  # it started before it saw the REVOKE

    def _note_other(self, kind: bytes, payload: memoryview) -> None:
        if kind == frames.PROGRESS:
            self._alive_at = self._clock.monotonic()
            self._progress = frames.progress_decoder.decode(payload)
            if self.on_progress is not None and self.current is not None:
                self.on_progress(self.current[1], self._progress.done, self._progress.total)
        elif kind == frames.SPENT and self.current is not None:
            self._spent[self.current[1].attempt_key] = frames.cost_decoder.decode(payload)
        elif kind == frames.NEEDS_MEMORY:
            self.requested_mb = frames.memory_request_decoder.decode(payload).megabytes
        elif kind == frames.RECALLED:
            self._note_recall()
        elif kind == frames.SKIPPED:
            self._revoked.discard(self._next()[1].attempt_key)

    def _note_recall(self) -> None:
        self.is_recalling = False
        self._returned += self.unstarted
        for _, order in self.unstarted:
            self.held.pop(order.attempt_key, None)
        self.unstarted.clear()
        self._left_in_chunk.clear()
        self.chunks_waiting = 0

    def _release(self) -> None:
        """Free the memory that the current order held: its step has ended."""
        if self.current is not None:
            self.held.pop(self.current[1].attempt_key, None)

    def _accept_report(self, report: Report) -> bool:
        """Forget the order; False when it was revoked."""
        key = report.attempt_key
        given = self.started.pop(key, None)
        self._spent.pop(key, None)
        self.held.pop(key, None)
        if given is not None:
            self.durations.append((given[0], report.seconds))
            if given[0].resource:
                self._ended.append((given[0], report))
        if given is self.current:
            self.current = None
        if key not in self._revoked:
            return True
        self._revoked.discard(key)
        return False

    def _kill_revoked(self) -> None:
        self.was_revoked = True
        self.kill()
