"""The promises of every compute, as tests. Subclass the suite with a fixture `opened`:

    class TestMyCompute(ComputeSuite):
        @pytest.fixture
        def opened(self): ...   # opened(workers) is an async context manager that gives a `ComputeBench`

Its workers have the steps of `quire.testing.steps` and see this machine's files. A compute for other steps
names them in `misbehave`, `copy` and `noop`. Runs under pytest with pytest-asyncio in auto mode. Must not
know: any compute.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from quire.blobs import content
from quire.blobs.port import Blobs
from quire.model.cost import Cost
from quire.model.signal import Signal
from quire.model.work import Compute, Order, Outcome, Report, StepCall
from quire.testing.factories import file

PATIENCE_SECONDS = 60.0
MISBEHAVE = StepCall(step="misbehave", version=1)
Name = tuple[int, int, int]


class ComputeBench:
    """A compute with what a test needs around it. The compute sets the signal when something has changed."""

    def __init__(self, compute: Compute, signal: Signal, blobs: Blobs) -> None:
        self.compute = compute
        self.blobs = blobs
        self._signal = signal
        self._kept: list[Report] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert await self._signal.wait(PATIENCE_SECONDS), f"nothing happens any more; {self._kept}"

    async def take_reports(self, count: int) -> list[Report]:
        """The next reports, as they arrive."""

        def enough() -> bool:
            self._kept += self.compute.take_reports()
            return len(self._kept) >= count

        await self.until(enough)
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken

    async def run(self, call: StepCall, orders: Sequence[Order]) -> dict[int, Report]:
        """The reports by number of task."""
        await self.compute.submit(call, list(orders))
        return {one.task_no: one for one in await self.take_reports(len(orders))}

    async def ended(self, grace_seconds: float = PATIENCE_SECONDS) -> tuple[list[Report], list[Order]]:
        """Stop the compute: all other reports, and the orders that were never started."""
        unstarted = await self.compute.stop(grace_seconds)
        return self._kept + self.compute.take_reports(), unstarted


Opened = Callable[[int], AbstractAsyncContextManager[ComputeBench]]


def order(name: str, task_no: int, *, batch_no: int = 1, attempt: int = 1) -> Order:
    return Order(batch_no, task_no, attempt, file(name))


def names(some: Sequence[Report | Order]) -> list[Name]:
    return sorted((one.batch_no, one.task_no, one.attempt) for one in some)


class StepGate:
    """Holds the orders called `gate`, one at a time, from the moment they have started."""

    def __init__(self, folder: Path, misbehave: StepCall = MISBEHAVE) -> None:
        self._path = folder / "gate"
        os.mkfifo(self._path)
        self.call = replace(misbehave, options={"gate": str(self._path)})

    async def reached(self) -> int:
        """Wait until an order has reached the gate; closing the returned file lets the order pass."""
        return await asyncio.to_thread(os.open, self._path, os.O_WRONLY)


class ComputeSuite:
    misbehave = MISBEHAVE  # orders of this call must run one after the other on one worker
    copy = StepCall(step="copy", version=1)
    noop = StepCall(step="noop", version=1)

    @pytest.fixture
    def gate(self, tmp_path: Path) -> StepGate:
        return StepGate(tmp_path, self.misbehave)

    async def test_every_order_gives_exactly_one_report(self, opened: Opened) -> None:
        given = [order("good", number, batch_no=1 + number % 2) for number in range(60)]
        async with opened(2) as bench:
            await bench.until(lambda: bench.compute.capacity(call=self.misbehave) > 0)
            for at in range(0, len(given), 20):
                await bench.compute.submit(self.misbehave, given[at : at + 20])
            reports = await bench.take_reports(len(given))
            assert names(reports) == names(given)
            assert {one.outcome for one in reports} == {Outcome.DONE}
            assert all(one.worker and one.started_at > 0 and one.seconds >= 0 for one in reports)
            assert await bench.ended() == ([], [])

    async def test_a_bad_step_costs_its_own_attempt_and_nothing_else(self, opened: Opened) -> None:
        bad = {
            "crash": (Outcome.CRASHED, "crash", "SIGSEGV"),
            "exit": (Outcome.CRASHED, "crash", "exit code 7"),
            "hang": (Outcome.TIMED_OUT, "timeout", "1 s"),
            "memory": (Outcome.OUT_OF_MEMORY, "out_of_memory", "400 MB"),
            "reject": (Outcome.REJECTED, "never", "never works"),
            "transient": (Outcome.ERRED, "busy", "the line is busy"),
            "bug": (Outcome.ERRED, "step_error", "KeyError"),
            "nonsense": (Outcome.REJECTED, "bad_result", "returned a str"),
            "noise": (Outcome.DONE, "", ""),
        }
        short = replace(self.misbehave, timeout_seconds=1.0)
        call = replace(self.misbehave, memory_mb=400)
        given = [order("good", number) for number in range(10)]
        given += [order(name, 100 + at) for at, name in enumerate(bad) if name != "hang"]
        given += [order("good", 200 + number) for number in range(10)]
        async with opened(2) as bench:
            await bench.compute.submit(short, [order("hang", 102)])
            await bench.compute.submit(call, given)
            reports = {one.task_no: one for one in await bench.take_reports(len(given) + 1)}
            for at, (name, (outcome, error_class, words)) in enumerate(bad.items()):
                report = reports.pop(100 + at)
                assert (report.outcome, report.error_class) == (outcome, error_class), (name, report)
                assert words in report.error
            assert {one.outcome for one in reports.values()} == {Outcome.DONE}, reports
            assert await bench.ended() == ([], [])

    async def test_what_a_stalled_step_spent_is_known(self, opened: Opened) -> None:
        call = replace(self.misbehave, stall_seconds=0.5)
        async with opened(1) as bench:
            reports = await bench.run(call, [order("spend-stall", 1), order("good", 2)])
            assert (reports[1].outcome, reports[1].error_class) == (Outcome.TIMED_OUT, "stalled")
            assert reports[1].cost == Cost(tokens_in=1005, tokens_out=20, money_micros=1501)
            assert reports[2].outcome is Outcome.DONE

    async def test_a_bad_order_becomes_a_report(self, opened: Opened) -> None:
        async with opened(1) as bench:
            for call in (replace(self.noop, step="nowhere"), replace(self.noop, version=9)):
                (report,) = (await bench.run(call, [order("good", 1)])).values()
                assert (report.outcome, report.error_class) == (Outcome.ERRED, "unknown_step")
            (report,) = (await bench.run(self.copy, [order("good", 2)])).values()
            assert (report.outcome, report.error_class) == (Outcome.REJECTED, "missing")

    async def test_a_result_is_stored_before_it_is_reported(self, opened: Opened) -> None:
        async with opened(1) as bench:
            kept = await content.put_bytes(bench.blobs, b"the bytes")
            given = [
                Order(1, number, 1, file("a.tif", key=kept.key, digest=kept.digest)) for number in range(5)
            ]
            await bench.compute.submit(self.copy, given)
            for _ in given:
                (report,) = await bench.take_reports(1)
                assert report.result is not None, report
                (product,) = report.result.products
                assert await bench.blobs.get(product.key) == b"the bytes"
                assert report.cost == Cost(bytes_in=9, bytes_out=9)

    async def test_room_is_bounded_and_grows_again(self, opened: Opened) -> None:
        async with opened(1) as bench:
            await bench.until(lambda: bench.compute.capacity(call=self.misbehave) > 0)
            first = bench.compute.capacity(call=self.misbehave)
            assert first < 100_000
            await bench.compute.submit(self.misbehave, [order("hang", number) for number in range(first)])
            assert bench.compute.capacity(call=self.misbehave) == 0
            bench.compute.revoke(1)
            await bench.until(lambda: bench.compute.capacity(call=self.misbehave) > 0)
            (report,) = (await bench.run(self.misbehave, [order("good", 1, attempt=2)])).values()
            assert report.outcome is Outcome.DONE

    async def test_there_are_no_reports_of_nothing(self, opened: Opened) -> None:
        async with opened(1) as bench:
            assert bench.compute.take_reports() == []
            assert await bench.ended() == ([], [])

    async def test_revoking_kills_what_runs_and_others_lose_nothing(
        self, opened: Opened, gate: StepGate
    ) -> None:
        given = [
            order("gate", 1),
            order("good", 1, batch_no=2),
            order("hang", 2),
            order("good", 2, batch_no=2),
            order("good", 3),
            order("good", 3, batch_no=2),
        ]
        async with opened(1) as bench:
            await bench.compute.submit(gate.call, given)
            door = await gate.reached()
            bench.compute.revoke(1)
            bench.compute.revoke(1)
            others = await bench.take_reports(3)
            os.close(door)
            assert names(others) == [(2, 1, 1), (2, 2, 1), (2, 3, 1)]
            assert {one.outcome for one in others} == {Outcome.DONE}
            (resumed,) = (await bench.run(self.misbehave, [order("good", 1, attempt=2)])).values()
            assert (resumed.outcome, resumed.attempt) == (Outcome.DONE, 2)
            assert await bench.ended() == ([], [])

    async def test_a_report_that_nobody_took_is_revoked_too(self, opened: Opened, gate: StepGate) -> None:
        async with opened(1) as bench:
            await bench.compute.submit(gate.call, [order("good", 1), order("gate", 1, batch_no=2)])
            door = await gate.reached()  # the first one has been done by then
            bench.compute.revoke(1)
            os.close(door)
            (other,) = await bench.take_reports(1)
            assert (other.batch_no, other.outcome) == (2, Outcome.DONE)
            assert await bench.ended() == ([], [])

    async def test_stopping_finishes_what_runs_and_gives_back_the_rest(
        self, opened: Opened, gate: StepGate
    ) -> None:
        given = [order("gate", 1), *(order("slow", number) for number in range(2, 50))]
        async with opened(1) as bench:
            await bench.compute.submit(gate.call, given)
            door = await gate.reached()
            stopping = asyncio.create_task(bench.ended())
            await asyncio.sleep(0)  # so that it has begun
            os.close(door)
            reports, unstarted = await stopping
            assert (1, 1, 1) in names(reports)
            assert {one.outcome for one in reports} == {Outcome.DONE}
            assert unstarted
            assert sorted(names(reports) + names(unstarted)) == names(given)
            assert await bench.ended() == ([], [])

    async def test_what_outlasts_the_grace_is_interrupted(self, opened: Opened, gate: StepGate) -> None:
        async with opened(1) as bench:
            await bench.compute.submit(gate.call, [order("gate", 1), order("good", 2)])
            door = await gate.reached()
            reports, unstarted = await bench.ended(0.1)
            os.close(door)
            assert [one.outcome for one in reports] == [Outcome.INTERRUPTED]
            assert (names(reports), names(unstarted)) == ([(1, 1, 1)], [(1, 2, 1)])

    async def test_stopping_before_anything_was_started(self, opened: Opened) -> None:
        given = [order("hang", number) for number in range(3)]
        async with opened(1) as bench:
            await bench.compute.submit(self.misbehave, given)
            reports, unstarted = await bench.ended(0)
            assert {one.outcome for one in reports} <= {Outcome.INTERRUPTED}
            assert sorted(names(reports) + names(unstarted)) == names(given)
            assert await bench.ended(0) == ([], [])
