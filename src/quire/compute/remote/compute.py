"""Push compute: each order is started somewhere else, and its worker calls back when it is done.

Promises: no more than so many are out; an attempt that has had its time is ended; a machine that died without
a word is noticed, and what it had stored by then is not lost. A callback settles its attempt in the ledger by
itself, whoever received it: here it is only learnt that the order is back. Must not know: what a machine is
(that is a `Launcher`), nor the ledger and the store (that are `RemoteTasks`).
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol

from msgspec import Struct

from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool.worker import report_of
from quire.compute.pool.worker_handle import Name, name_of
from quire.model.clock import Clock
from quire.model.cost import Cost, micros
from quire.model.errors import Misconfigured, QuireError, Retry
from quire.model.signal import Signal
from quire.model.work import Order, Outcome, Report, StepCall

_log = logging.getLogger("quire.compute")
STARTING_AT_ONCE = 50
AGAIN_SECONDS = 5.0  # before what could not be launched is launched again


class Launcher(Protocol):
    """Starts a machine for an order: a process, a container, a computer. Handles are opaque."""

    async def launch(self, order: Order, call: StepCall, environment: Mapping[str, str]) -> str:
        """Start one; its handle. May be repeated: an attempt has one machine at most. Raises Retry when it
        may work later, Misconfigured when a person must do something first.
        """
        ...

    async def ended(self, handles: Collection[str]) -> dict[str, str]:
        """Those that do not run any more, each with how it ended, in words. Raises Retry."""
        ...

    async def end(self, handle: str) -> None:
        """Stop it now; one that is gone is no error. Raises Retry."""
        ...

    async def listed(self) -> dict[str, Name]:
        """All machines that stand for attempts of this house, also those that an earlier process of it
        started. Raises Retry.
        """
        ...

    async def close(self) -> None:
        """Release what is held; machines are not touched. May be repeated."""
        ...


class RemoteTasks(Protocol):
    """What push compute needs to know of the house."""

    async def pack(self, call: StepCall, order: Order) -> dict[str, str]:
        """The environment of the worker, as the contract has it. Raises a QuireError."""
        ...

    async def over(self, names: Collection[Name]) -> set[Name]:
        """Those attempts that are not running any more: settled, overtaken, or of a batch that has ended."""
        ...

    async def found(self, order: Order) -> bool:
        """Is the result in the store, though nobody called back? Then it is settled now. Raises Retry."""
        ...


class Terms(Struct, frozen=True, kw_only=True):
    at_once: int
    start_seconds: float = 30.0  # that a machine may take until its work begins
    grace_seconds: float = 2.0  # between the end of a machine and the last moment for its callback
    look_seconds: float = 1.0
    reap_seconds: float = 60.0
    price_per_second: float = 0.0  # of a machine, in the operator's currency


class Sent:
    """An order that is out."""

    def __init__(self, call: StepCall, order: Order, clock: Clock) -> None:
        self.call = call
        self.order = order
        self.started_at = clock.now()
        self.began = clock.monotonic()
        self.batch_id = ""
        self.launching = False
        self.handle: str | None = None
        self.launch: asyncio.Task[None] | None = None
        self.gone_since: float | None = None


class RemoteCompute:
    def __init__(
        self,
        name: str,
        launcher: Launcher,
        errands: RemoteTasks,
        *,
        clock: Clock,
        signal: Signal,
        terms: Terms,
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._errands = errands
        self._clock = clock
        self._signal = signal
        self._terms = terms
        self._sent: dict[Name, Sent] = {}
        self._reports: list[Report] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to look after what is out, and after what an earlier process left."""
        self._watching = asyncio.create_task(self._watch())

    def room(self, compute: str = "") -> int:  # noqa: ARG002 the only one of its name
        if self._stopping:
            return 0
        # What waits for its start grows old: its URLs run out, and others could do it meanwhile.
        waiting = sum(sent.handle is None for sent in self._sent.values())
        return max(0, min(self._terms.at_once - len(self._sent), STARTING_AT_ONCE - waiting))

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        for order in orders:
            sent = self._sent[name_of(order)] = Sent(call, order, self._clock)
            sent.launch = self._background(self._launch(sent))

    def reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def deliver(self, batch_id: str, task_no: int, attempt: int) -> None:
        """A callback has settled this attempt; others than ours are not looked at."""
        for sent in list(self._sent.values()):
            order = sent.order
            if (sent.batch_id, order.task_no, order.attempt) == (batch_id, task_no, attempt):
                self._back(sent)

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        for name in [name for name in self._sent if name[0] == batch_no]:
            self._end(self._sent.pop(name))
        self._signal.set()  # there is room for others now

    async def stop(self, grace_seconds: float) -> list[Order]:
        """What runs is ended: nobody would be here to be called back. It is the house's fault, not theirs."""
        self._stopping = True
        if self._watching is not None:
            self._watching.cancel()
        unstarted = [sent.order for sent in self._sent.values() if not sent.launching]
        for order in unstarted:
            del self._sent[name_of(order)]
        if self._tasks:  # whoever is being started has a handle then
            await asyncio.wait(self._tasks, timeout=max(1.0, grace_seconds))
        with suppress(QuireError):
            await self.look()
        for sent in list(self._sent.values()):
            self._fail(sent, failures.of_interruption())
            self._end(sent)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(1.0, grace_seconds))
        for task in self._tasks:  # what they began is found by the reaper of the next process
            task.cancel()
        await self._launcher.close()
        return unstarted

    async def look(self) -> None:
        """Who is back, who is gone, who has had its time. Raises, after that, what the launcher raised: while
        it is away nobody is found gone, but no batch waits for it longer than its tasks may take.
        """
        out = [sent for sent in self._sent.values() if sent.launching]
        handles = [sent.handle for sent in out if sent.handle is not None]
        ended: dict[str, str] = {}
        away: QuireError | None = None
        try:
            ended = await self._launcher.ended(handles) if handles else {}
        except QuireError as error:
            away = error
        # Asked after that: whoever was answered before its end is known to the ledger by now.
        over = await self._errands.over([name_of(sent.order) for sent in out]) if out else set()
        now = self._clock.monotonic()
        for sent in out:
            if name_of(sent.order) in over:
                self._back(sent)
                self._end(sent)
            elif sent.handle is None:
                continue
            elif sent.handle in ended:
                await self._bury(sent, ended[sent.handle], now)
            elif now - sent.began > sent.call.timeout_seconds + self._terms.start_seconds:
                await self._give_up(sent)
        if away is not None:
            raise away

    async def reap(self) -> None:
        """End machines that stand for nothing: those whose process died, or whose end could not be told. One
        that cannot be ended keeps no other from its end. Raises a QuireError.
        """
        listed = await self._launcher.listed()
        over = await self._errands.over(set(listed.values()))
        for handle, name in listed.items():
            if name in over:
                try:
                    await self._launcher.end(handle)
                except Misconfigured as error:
                    _log.warning("machine_not_ended handle=%s: %s", handle, error)

    async def _launch(self, sent: Sent) -> None:
        call, order = sent.call, sent.order
        try:
            environment = await self._errands.pack(call, order)
            if not self._out(sent):
                return
            sent.batch_id, sent.launching = environment["BATCH_ID"], True
            sent.handle = await self._launcher.launch(order, call, environment)
            sent.began = self._clock.monotonic()  # it may have waited for its turn
        except (Retry, Misconfigured) as error:
            self._fail(sent, failures.of_launch(error, AGAIN_SECONDS))
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the report
            self._fail(sent, failures.of_error(error, call))
        else:
            if not self._out(sent):  # revoked while it was being started, or back already
                self._end(sent)
            self._signal.set()  # there may be room for the next

    async def _bury(self, sent: Sent, ending: str, now: float) -> None:
        if sent.gone_since is None:
            sent.gone_since = now
        if now - sent.gone_since < self._terms.grace_seconds:
            return
        if await self._errands.found(sent.order):
            self._back(sent)
            return
        self._fail(sent, failures.of_silence(sent.call, ending))

    async def _give_up(self, sent: Sent) -> None:
        if await self._errands.found(sent.order):
            self._back(sent)
        else:
            self._fail(sent, failures.of_timeout(sent.call))
        self._end(sent)

    def _back(self, sent: Sent) -> None:
        """Its end is in the ledger."""
        if self._sent.pop(name_of(sent.order), None) is not None:
            if sent.handle is None and sent.launch is not None:
                sent.launch.cancel()  # whose answer was lost: asked again, it would begin anew
            names = name_of(sent.order)
            self._reports.append(Report(*names, Outcome.DONE, sent.started_at, 0.0, self._name, known=True))
            self._signal.set()

    def _fail(self, sent: Sent, failure: Failure) -> None:
        if self._sent.pop(name_of(sent.order), None) is None:
            return
        seconds = self._clock.monotonic() - sent.began
        spent = Decimal(str(self._terms.price_per_second)) * Decimal(seconds if sent.handle else 0)
        cost = Cost(money_micros=micros(spent))
        self._reports.append(report_of(sent.order, sent.started_at, seconds, self._name, failure, cost))
        self._signal.set()

    def _out(self, sent: Sent) -> bool:
        return self._sent.get(name_of(sent.order)) is sent

    def _end(self, sent: Sent) -> None:
        if sent.handle is not None:
            self._background(self._ended(sent.handle))

    async def _ended(self, handle: str) -> None:
        with suppress(QuireError):  # the reaper comes again
            await self._launcher.end(handle)

    def _background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self) -> None:
        reaped_at: float | None = None
        while True:
            now = self._clock.monotonic()
            if reaped_at is None or now - reaped_at >= self._terms.reap_seconds:
                reaped_at = now
                await self._carefully(self.reap())
            await self._carefully(self.look())
            await asyncio.sleep(self._terms.look_seconds)

    async def _carefully(self, work: Coroutine[Any, Any, None]) -> None:
        """Each by itself: machines that cannot be listed must not keep us from looking after the others."""
        try:
            await work
        except Retry:  # the ledger, the store or the provider is away: the next time
            pass
        except Exception:  # noqa: BLE001 - nobody else looks: whatever it is, it is told and tried again
            _log.exception("machines_not_looked_at")
