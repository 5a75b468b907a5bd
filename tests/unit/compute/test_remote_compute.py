"""Push compute with a launcher and a house that do as they are told: every order comes back once."""

import asyncio

import pytest
from msgspec import structs

from quire.compute.remote.compute import RemoteCompute, RemoteComputeOptions
from quire.model.errors import Misconfigured, Reject, Retry
from quire.model.work import Order, Outcome, StepCall
from quire.system import LoopSignal
from quire.testing.factories import file
from quire.testing.time import FakeClock

CALL = StepCall(step="tiff_to_jpeg", version=1, timeout_seconds=60.0, compute="far")


class Machines:
    """A launcher whose machines start and end by word of the test."""

    def __init__(self):
        self.launched = []
        self.gone = {}
        self.ends = []
        self.left = {}
        self.stubborn = ()
        self.away = None
        self.trouble = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def launch(self, order, call, environment):
        await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        handle = f"m{order.task_no}.{order.attempt}"
        self.launched.append((handle, call.step, environment["BATCH_ID"]))
        return handle

    async def find_ended(self, handles):
        if self.away is not None:
            raise self.away
        return {handle: words for handle, words in self.gone.items() if handle in handles}

    async def end(self, handle):
        if handle in self.stubborn:
            raise Misconfigured("it may not be ended")
        self.ends.append(handle)

    async def list_machines(self):
        if self.away is not None:
            raise self.away
        return self.left

    async def close(self):
        pass


class Tasks:
    def __init__(self):
        self.settled = set()
        self.results = set()
        self.trouble = None
        self.pages = 1

    async def find_limit_seconds(self, call, _order):
        return call.limit_seconds(self.pages)

    async def build_environment(self, _call, order, _limit_seconds):
        if self.trouble is not None:
            raise self.trouble
        return {"BATCH_ID": f"b{order.batch_no}"}

    async def find_finished(self, names):
        return self.settled & set(names)

    async def settle_stored_result(self, order):
        return order.attempt_key in self.results


def order(task_no=1, attempt=1, batch_no=1):
    return Order(batch_no, task_no, attempt, file())


class Scene:
    def __init__(self, **options):
        self.machines, self.tasks, self.clock = Machines(), Tasks(), FakeClock()
        chosen = RemoteComputeOptions(
            **({"at_once": 2, "start_seconds": 10.0, "grace_seconds": 2.0} | options)
        )
        signal = LoopSignal()
        self.compute = RemoteCompute(
            "far", self.machines, self.tasks, clock=self.clock, signal=signal, options=chosen
        )

    async def submit(self, *orders):
        await self.compute.submit(CALL, list(orders))
        await self.quiet()

    async def quiet(self):
        """Whatever can go on without time has gone on."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def look(self, after=0.0):
        self.clock.advance(after)
        await self.compute.check_orders()
        await self.quiet()
        return self.compute.take_reports()


@pytest.fixture
async def scene():
    return Scene()


def told(reports):
    return [(one.task_no, one.outcome, one.known) for one in reports]


async def test_no_more_are_out_than_there_is_room_for(scene):
    assert scene.compute.capacity() == 2
    await scene.submit(order(1), order(2))
    assert scene.compute.capacity("far") == 0
    assert scene.machines.launched == [("m1.1", "tiff_to_jpeg", "b1"), ("m2.1", "tiff_to_jpeg", "b1")]
    scene.compute.note_callback("b1", 2, 1)
    assert scene.compute.capacity() == 1


async def test_an_order_is_back_when_its_callback_was_received_here(scene):
    await scene.submit(order(1))
    scene.compute.note_callback("b1", 1, 2)  # of another attempt
    scene.compute.note_callback("b2", 1, 1)  # of another batch
    assert scene.compute.take_reports() == []
    scene.compute.note_callback("b1", 1, 1)
    scene.compute.note_callback("b1", 1, 1)
    assert told(scene.compute.take_reports()) == [(1, Outcome.DONE, True)]
    assert scene.machines.ends == []  # it ends by itself


async def test_an_order_is_back_when_somebody_else_received_its_callback(scene):
    await scene.submit(order(1))
    assert await scene.look() == []
    scene.tasks.settled = {(1, 1, 1)}
    assert told(await scene.look()) == [(1, Outcome.DONE, True)]
    assert scene.machines.ends == ["m1.1"]
    assert await scene.look() == []


async def test_a_machine_that_is_gone_has_crashed_after_the_grace(scene):
    await scene.submit(order(1))
    scene.machines.gone = {"m1.1": "signal SIGKILL"}
    assert await scene.look() == []
    (report,) = await scene.look(after=3.0)
    assert (report.outcome, report.error_class, report.known) == (Outcome.CRASHED, "crash", False)
    assert "SIGKILL" in report.error


async def test_a_result_that_lies_in_the_store_is_taken_though_nobody_called(scene):
    await scene.submit(order(1))
    scene.machines.gone = {"m1.1": "destroyed"}
    scene.tasks.results = {(1, 1, 1)}
    await scene.look()
    assert told(await scene.look(after=3.0)) == [(1, Outcome.DONE, True)]


async def test_a_callback_within_the_grace_counts(scene):
    await scene.submit(order(1))
    scene.machines.gone = {"m1.1": "destroyed"}
    await scene.look()
    scene.compute.note_callback("b1", 1, 1)
    assert told(await scene.look(after=3.0)) == [(1, Outcome.DONE, True)]


@pytest.mark.parametrize(
    ("results", "expected"), [(set(), (Outcome.TIMED_OUT, False)), ({(1, 1, 1)}, (Outcome.DONE, True))]
)
async def test_a_machine_that_had_its_time_is_ended(scene, results, expected):
    await scene.submit(order(1))
    scene.tasks.results = results
    assert await scene.look(after=69.0) == []
    (report,) = await scene.look(after=2.0)
    assert (report.outcome, report.known) == expected
    assert scene.machines.ends == ["m1.1"]


@pytest.mark.parametrize(
    ("trouble", "outcome", "code", "delay"),
    [
        (Retry("busy"), Outcome.INTERRUPTED, "not_launched", 5.0),
        (Retry("busy", delay_seconds=60.0), Outcome.INTERRUPTED, "not_launched", 60.0),
        (Misconfigured("bad token"), Outcome.ERRED, "not_launched", 0.0),
        (Reject("no", code="not_elsewhere"), Outcome.REJECTED, "not_elsewhere", 0.0),
        (RuntimeError("what"), Outcome.ERRED, "step_error", 0.0),
    ],
)
@pytest.mark.parametrize("where", ["machines", "tasks"])
async def test_what_cannot_be_launched_is_reported(scene, where, trouble, outcome, code, delay):
    getattr(scene, where).trouble = trouble
    await scene.submit(order(1))
    (report,) = scene.compute.take_reports()
    assert (report.outcome, report.error_class, report.delay_seconds) == (outcome, code, delay)
    assert scene.compute.capacity() == 2


async def test_what_a_machine_cost_is_in_the_report_of_its_end():
    scene = Scene(price_per_second=0.5)
    await scene.submit(order(1))
    scene.machines.gone = {"m1.1": "destroyed"}
    await scene.look(after=4.0)
    (report,) = await scene.look(after=6.0)
    assert report.cost.money_micros == 5_000_000


async def test_a_revoked_batch_takes_its_machines_with_it_and_reports_nothing(scene):
    await scene.submit(order(1), order(2, batch_no=7))
    scene.compute.note_callback("b7", 2, 1)
    scene.compute.revoke(7)
    assert scene.compute.take_reports() == []
    scene.compute.revoke(1)
    await scene.quiet()
    assert scene.machines.ends == ["m1.1"]
    assert scene.compute.capacity() == 2
    scene.compute.note_callback("b1", 1, 1)
    assert await scene.look(after=100.0) == []


async def test_an_order_that_is_revoked_while_it_is_launched_is_ended_then(scene):
    scene.machines.gate.clear()
    await scene.submit(order(1))
    scene.compute.revoke(1)
    scene.machines.gate.set()
    await scene.quiet()
    assert scene.machines.ends == ["m1.1"]
    assert scene.compute.take_reports() == []


async def test_a_launch_whose_answer_is_lost_is_not_repeated_when_the_work_is_done(scene):
    scene.machines.gate.clear()
    await scene.submit(order(1))
    scene.compute.note_callback("b1", 1, 1)
    await scene.quiet()
    scene.machines.gate.set()
    await scene.quiet()
    assert scene.machines.launched == []
    assert told(scene.compute.take_reports()) == [(1, Outcome.DONE, True)]


async def test_stopping_ends_what_runs_and_gives_back_what_was_not_started(scene):
    await scene.submit(order(1))
    await scene.compute.submit(CALL, [order(2)])
    assert [one.task_no for one in await scene.compute.stop(0)] == [2]
    (report,) = scene.compute.take_reports()
    assert (report.task_no, report.outcome) == (1, Outcome.INTERRUPTED)
    assert scene.machines.ends == ["m1.1"]
    assert scene.compute.capacity() == 0
    assert await scene.compute.stop(0) == []


async def test_stopping_still_sees_who_is_back(scene):
    await scene.submit(order(1))
    scene.tasks.settled = {(1, 1, 1)}
    await scene.compute.stop(0)
    assert told(scene.compute.take_reports()) == [(1, Outcome.DONE, True)]


async def test_the_reaper_ends_machines_that_stand_for_nothing(scene):
    scene.machines.left = {"old": (1, 1, 1), "running": (1, 2, 3)}
    scene.tasks.settled = {(1, 1, 1)}
    await scene.compute.end_orphans()
    assert scene.machines.ends == ["old"]


async def test_one_that_cannot_be_ended_keeps_no_other_from_its_end(scene):
    scene.machines.left = {"locked": (1, 1, 1), "old": (1, 2, 1)}
    scene.machines.stubborn = ("locked",)
    scene.tasks.settled = {(1, 1, 1), (1, 2, 1)}
    await scene.compute.end_orphans()
    assert scene.machines.ends == ["old"]


@pytest.mark.parametrize("away", [Retry("no answer"), Misconfigured("refused")])
async def test_while_the_provider_is_away_who_is_back_or_had_its_time_is_still_told(scene, away):
    await scene.submit(order(1), order(2))
    scene.machines.away = away
    scene.tasks.settled = {(1, 1, 1)}
    with pytest.raises(type(away)):
        await scene.look()
    assert told(scene.compute.take_reports()) == [(1, Outcome.DONE, True)]
    with pytest.raises(type(away)):
        await scene.look(after=71.0)
    assert told(scene.compute.take_reports()) == [(2, Outcome.TIMED_OUT, False)]


@pytest.mark.parametrize("away", [Retry("no answer"), Misconfigured("refused")])
async def test_machines_that_cannot_be_listed_do_not_keep_us_from_looking_after_the_others(away):
    scene = Scene(look_seconds=0.001)
    await scene.submit(order(1))
    scene.machines.away = away
    scene.tasks.settled = {(1, 1, 1)}
    scene.compute.start()
    async with asyncio.timeout(10):
        while not (reports := scene.compute.take_reports()):
            await asyncio.sleep(0)
    await scene.compute.stop(0.0)
    assert told(reports) == [(1, Outcome.DONE, True)]


async def test_no_more_wait_for_their_start_than_can_be_started_in_time():
    scene = Scene(at_once=1000)
    scene.machines.gate.clear()
    await scene.submit(*[order(number) for number in range(1, 31)])
    assert scene.compute.capacity() == 20
    scene.machines.gate.set()
    await scene.quiet()
    assert scene.compute.capacity() == 50


async def test_waiting_for_its_start_does_not_count_as_its_time(scene):
    scene.machines.gate.clear()
    await scene.submit(order(1))
    assert await scene.look(after=1000.0) == []
    scene.machines.gate.set()
    await scene.quiet()
    assert await scene.look(after=69.0) == []
    assert told(await scene.look(after=2.0)) == [(1, Outcome.TIMED_OUT, False)]


async def test_a_step_and_a_resource_have_limits_of_their_own():
    scene = Scene(at_once=10, resources={"ocr": 3})
    alone = structs.replace(CALL, at_once=2)
    shared = structs.replace(CALL, step="s", resource="ocr")
    assert [scene.compute.capacity("far", one) for one in (CALL, alone, shared)] == [10, 2, 3]
    await scene.compute.submit(alone, [order(1)])
    await scene.compute.submit(shared, [order(2), order(3)])
    assert [scene.compute.capacity("far", one) for one in (CALL, alone, shared)] == [7, 1, 1]
    await scene.compute.stop(0)


async def test_a_file_of_many_pages_has_the_time_of_all_of_them(scene):
    scene.tasks.pages = 100
    await scene.compute.submit(structs.replace(CALL, page_seconds=10.0), [order()])
    await scene.quiet()
    assert await scene.look(after=60 + 99 * 10 + 9) == []
    (late,) = await scene.look(after=2)
    assert late.error_class == "timeout"
