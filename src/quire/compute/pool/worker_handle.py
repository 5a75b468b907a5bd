"""One worker process as the pool sees it: what it was given, what it is on, and how it ended."""

import asyncio
from collections import deque
from collections.abc import Sequence

from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool import frames
from quire.compute.pool.child import Process
from quire.compute.pool.memory_budget import UNLIMITED_MB
from quire.compute.pool.meter import TELL_SECONDS
from quire.model.clock import Clock
from quire.model.cost import NO_COST, Cost
from quire.model.errors import Misconfigured
from quire.model.work import Order, Report, StepCall

START_SECONDS = 60.0
NO_PROGRESS = frames.Progress(0, 0)
Given = tuple[StepCall, Order]
Name = tuple[int, int, int]  # of an attempt: batch, task, number


def name_of(order: Order) -> Name:
    return order.batch_no, order.task_no, order.attempt


class WorkerHandle:
    """Orders start in the order they were given, so a STARTED needs no name."""

    def __init__(self, process: Process, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        self._unframer = frames.Unframer()
        self.unstarted: deque[Given] = deque()
        self.started: dict[Name, Given] = {}  # until reported
        self.current: Given | None = None  # the one whose step is running
        self.current_since = 0.0
        self.chunks_waiting = 0
        self.doomed = False  # it was sent a signal that it will not survive
        self.dismissed = False  # killed for what was revoked: whoever else is in it did nothing wrong
        self.verdict: tuple[Order, Failure] | None = None  # killed for this one, and why
        self.asks_mb = 0  # what the current order needs, until it is answered
        self.held: dict[Name, int] = {}  # megabytes above its share, by order
        self.recalling = False  # it was asked for what it has not started
        self.timed: list[tuple[StepCall, float]] = []  # what took how long, for whoever takes it
        self._left_in_chunk: deque[int] = deque()
        self._alive_at = 0.0
        self._progress = NO_PROGRESS
        self._spent: dict[Name, Cost] = {}  # of what is started, as far as it was told
        self._revoked: set[Name] = set()
        self._given_back: list[Given] = []

    @classmethod
    async def hire(cls, process: Process, greeting: bytes, clock: Clock) -> "WorkerHandle":
        """Greet a process and wait until it is ready for work. Raises Misconfigured when it is not."""
        hand = cls(process, clock)
        process.write(_greeting_frame(greeting))
        try:
            heard = await asyncio.wait_for(hand.hear(), START_SECONDS)
        except TimeoutError:
            heard = None
        if heard is None:
            hand.kill()
            await hand.ending()
            raise Misconfigured(f"a worker process did not start: {hand.last_words() or 'it said nothing'}")
        return hand

    @property
    def name(self) -> str:
        return self._process.name

    @property
    def orders_out(self) -> int:
        return len(self.unstarted) + len(self.started)

    def give(
        self, call: StepCall, orders: Sequence[Order], *, granted_mb: int = UNLIMITED_MB, held_mb: int = 0
    ) -> None:
        """`held_mb` is for the only order of a chunk that is large."""
        if held_mb:
            self.held[name_of(orders[0])] = held_mb
        self.unstarted.extend((call, order) for order in orders)
        self._left_in_chunk.append(len(orders))
        self.chunks_waiting += 1
        self._process.write(frames.frame(frames.CHUNK, frames.Chunk(call, list(orders), granted_mb)))

    def recall(self) -> None:
        """Give back what you have not started."""
        self.recalling = True
        self._process.write(frames.RECALL_FRAME)

    def taken_back(self) -> list[Given]:
        """What it has given back, of what is still wanted."""
        taken, self._given_back = self._given_back, []
        wanted = [given for given in taken if not self.is_revoked(given[1])]
        self._revoked.difference_update(name_of(order) for _, order in taken)
        return wanted

    def go(self, held_mb: int) -> None:
        """The answer to one that asks: it holds so much from now on."""
        if self.current is not None:
            self.held[name_of(self.current[1])] = held_mb
        self.asks_mb = 0
        self._process.write(frames.frame(frames.GO))

    def later(self) -> Given | None:
        """The answer to one that asks: it has not begun, and somebody else has it. None: nobody wants it."""
        self.asks_mb = 0
        self._process.write(frames.frame(frames.LATER))
        if self.current is None:
            return None
        given, self.current = self.current, None
        name = name_of(given[1])
        self.started.pop(name, None)
        self.held.pop(name, None)
        revoked = name in self._revoked
        self._revoked.discard(name)
        return None if revoked else given

    async def hear(self) -> list[Report] | None:
        """What it said next: reports, perhaps none; None when it is gone."""
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
                if self._note_report(report):
                    reports.append(report)
            else:
                self._note_word(kind, payload)
        return reports

    def judge(self, now: float) -> None:
        """Kill it when the order it is on has had its time."""
        if self.current is None or self.verdict is not None:
            return
        call, order = self.current
        if now - self.current_since > call.timeout_seconds:
            self.verdict = (order, failures.of_timeout(call))
        # The last sign of life may be younger than the last one that was sent.
        elif 0 < call.stall_seconds < now - self._alive_at - TELL_SECONDS:
            told = self._progress
            self.verdict = (order, failures.of_stall(call, told.done, told.total))
        if self.verdict is not None:
            self.kill()

    def revoke(self, batch_no: int) -> None:
        """Nothing of this batch is to run here or be reported, of what was given so far."""
        waiting = {name_of(order) for _, order in self.unstarted if order.batch_no == batch_no}
        self._revoked |= waiting
        self._revoked.update(name for name in self.started if name[0] == batch_no)
        if self.current is not None and self.current[1].batch_no == batch_no:
            self._dismiss()
        elif waiting:
            self._process.write(frames.frame(frames.REVOKE, frames.Revoke(batch_no)))

    def is_revoked(self, order: Order) -> bool:
        return name_of(order) in self._revoked

    def spent_on(self, order: Order) -> Cost:
        return self._spent.get(name_of(order), NO_COST)

    def stop(self) -> None:
        """Finish the order you are on, then end."""
        self._process.write(frames.frame(frames.STOP))

    def kill(self) -> None:
        self.doomed = True
        self._process.kill()

    async def ending(self) -> str:
        """How the process ended, in words; waits for it."""
        return await self._process.ending()

    def last_words(self) -> str:
        return self._process.last_words()

    def _next(self) -> Given:
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
        name = name_of(self.current[1])
        self.started[name] = self.current
        if name in self._revoked:
            self._dismiss()  # it was faster than our word

    def _note_word(self, kind: bytes, payload: memoryview) -> None:
        if kind == frames.PROGRESS:
            self._alive_at = self._clock.monotonic()
            self._progress = frames.progress_decoder.decode(payload)
        elif kind == frames.SPENT and self.current is not None:
            self._spent[name_of(self.current[1])] = frames.cost_decoder.decode(payload)
        elif kind == frames.WEIGHED:
            self.asks_mb = frames.weighed_decoder.decode(payload).megabytes
        elif kind == frames.RECALLED:
            self._note_recall()
        elif kind == frames.SKIPPED:
            self._revoked.discard(name_of(self._next()[1]))

    def _note_recall(self) -> None:
        self.recalling = False
        self._given_back += self.unstarted
        for _, order in self.unstarted:
            self.held.pop(name_of(order), None)
        self.unstarted.clear()
        self._left_in_chunk.clear()
        self.chunks_waiting = 0

    def _release(self) -> None:
        """Its step has ended, and its memory is free."""
        if self.current is not None:
            self.held.pop(name_of(self.current[1]), None)

    def _note_report(self, report: Report) -> bool:
        """Is it still wanted?"""
        name = (report.batch_no, report.task_no, report.attempt)
        given = self.started.pop(name, None)
        self._spent.pop(name, None)
        self.held.pop(name, None)
        if given is not None:
            self.timed.append((given[0], report.seconds))
        if given is self.current:
            self.current = None
        if name not in self._revoked:
            return True
        self._revoked.discard(name)
        return False

    def _dismiss(self) -> None:
        self.dismissed = True
        self.kill()


def _greeting_frame(greeting: bytes) -> bytes:
    return len(greeting).to_bytes(4, "little") + frames.HELLO + greeting
