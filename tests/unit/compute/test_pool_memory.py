"""The pool with real worker processes: memory, what is taken back, and what it costs."""

import asyncio
import errno
import os

import pytest

from quire.compute.pool.chunks import StepDurations
from quire.compute.pool.memory import IDLE_MB
from quire.model.work import Order, Outcome, StepCall
from quire.testing.factories import file

pytestmark = pytest.mark.slow

MB = 1 << 20
MEMORY_MB = 1000  # for two workers: a share of 250 each, 500 above them


@pytest.fixture
def gates(tmp_path):
    """A function that makes a gate of this name, and the options that lead to it."""

    def make(name):
        path = tmp_path / name
        os.mkfifo(path)
        return path, StepCall(step="weighty", version=1, options={"gate": str(path)})

    return make


def order(name, task_no, megabytes=1, batch_no=1):
    return Order(batch_no, task_no, 1, file(name, size=(megabytes - IDLE_MB) * MB if megabytes > 1 else 0))


async def reached(path):
    """Somebody stands before the gate. Never blocks: a thread that waits here could not be cancelled."""
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody is there yet
                raise
        await asyncio.sleep(0)


async def test_two_large_ones_run_after_each_other_while_small_ones_go_on(pool, gates):
    path, call = gates("first")
    other_path, other_call = gates("second")
    async with pool(2, memory_mb=MEMORY_MB) as opened:
        compute = opened.compute
        compute._durations = StepDurations()
        await compute.submit(call, [order("gate", 1, 600)])
        door = await reached(path)
        await compute.submit(other_call, [order("gate", 2, 600)])
        small = [order("good", 10 + number) for number in range(20)]
        await compute.submit(call, small)
        reports = await opened.take_reports(len(small))
        assert sorted(one.task_no for one in reports) == [one.task_no for one in small]
        assert [one.order.task_no for one in compute._large] == [2], "it waits, in nobody's hands"
        os.close(door)
        (first,) = await opened.take_reports(1)
        door = await reached(other_path)
        assert first.task_no == 1
        os.close(door)
        (second,) = await opened.take_reports(1)
        assert (second.task_no, second.outcome) == (2, Outcome.DONE)
        assert compute._held_mb() == 0
        assert await opened.left_over() == ([], [])


async def test_a_lighter_one_does_not_pass_a_heavier_one_that_asked_before(pool, gates):
    path, call = gates("first")
    async with pool(2, memory_mb=MEMORY_MB) as opened:
        compute = opened.compute
        compute._durations = StepDurations()
        await compute.submit(call, [order("gate", 1, 500)])
        door = await reached(path)
        await compute.submit(call, [order("good", 2, 750), order("good", 3, 300), order("good", 4)])
        (small,) = await opened.take_reports(1)
        assert small.task_no == 4
        assert [one.order.task_no for one in compute._large] == [2, 3]
        os.close(door)
        assert {one.task_no for one in await opened.take_reports(3)} == {1, 2, 3}


async def test_what_waits_for_memory_can_be_revoked_and_is_given_back_at_the_end(pool, gates):
    path, call = gates("first")
    async with pool(2, memory_mb=MEMORY_MB) as opened:
        compute = opened.compute
        compute._durations = StepDurations()
        await compute.submit(call, [order("gate", 1, 600, batch_no=2)])
        door = await reached(path)
        waiting = [order("good", 1, 600), order("good", 2, 600, batch_no=2)]
        await compute.submit(call, [*waiting, order("good", 3)])
        await opened.take_reports(1)
        assert len(compute._large) == 2
        compute.revoke(1)
        stopping = asyncio.create_task(opened.left_over())
        await asyncio.sleep(0)
        os.close(door)
        reports, unstarted = await stopping
        assert [one.task_no for one in reports] == [1]
        assert unstarted == [waiting[1]]


async def test_the_limit_of_an_order_is_never_more_than_the_pool_has_for_one(pool):
    call = StepCall(step="weighty", version=1, memory_mb=2048)
    async with pool(2, memory_mb=MEMORY_MB) as opened:
        await opened.compute.submit(call, [order("certain", 1, 800), order("good", 2, 2000)])
        reports = {one.task_no: one for one in await opened.take_reports(2)}
        assert (reports[1].outcome, reports[1].error_class) == (Outcome.REJECTED, "too_much_memory")
        assert "750 MB" in reports[1].error
        assert reports[2].outcome is Outcome.DONE


async def test_without_a_budget_nobody_asks(pool):
    call = StepCall(step="weighty", version=1, memory_mb=2048)
    async with pool(2) as opened:
        await opened.compute.submit(call, [order("good", number, 1900) for number in range(4)])
        assert {one.outcome for one in await opened.take_reports(4)} == {Outcome.DONE}


async def test_what_waits_behind_a_slow_one_is_taken_back_by_who_has_nothing_to_do(pool, gates):
    path, call = gates("first")
    async with pool(1) as opened:
        compute = opened.compute
        given = [order("gate", 1), *(order("good", number) for number in range(2, 8))]
        await compute.submit(call, given)
        door = await reached(path)
        (hand,) = compute._handles
        compute._workers = 2
        await compute._start_one()
        reports = await opened.take_reports(6)
        assert hand.name not in {one.worker for one in reports}
        os.close(door)
        (slow,) = await opened.take_reports(1)
        assert (slow.task_no, slow.worker) == (1, hand.name)
        await compute.submit(call, [order("good", 9), order("good", 10)])
        assert {one.task_no for one in await opened.take_reports(2)} == {9, 10}
        assert await opened.left_over() == ([], [])


async def test_an_attempt_costs_what_its_seconds_cost_however_it_ended(pool):
    call = StepCall(step="misbehave", version=1, options={"seconds": 0.1})
    async with pool(1, price_per_second=2.5) as opened:
        await opened.compute.submit(
            call, [order("doze", 1), order("doze-transient", 2), order("doze-crash", 3)]
        )
        reports = await opened.take_reports(3)
        assert [one.task_no for one in reports] == [1, 2, 3]
        for one in reports:
            assert one.cost.money_micros == round(one.seconds * 2_500_000)
            assert one.seconds > 0


async def test_at_no_price_there_is_no_money(pool):
    async with pool(1) as opened:
        await opened.compute.submit(StepCall(step="misbehave", version=1), [order("slow", 1)])
        (report,) = await opened.take_reports(1)
        assert report.seconds >= 0.2
        assert report.cost.money_micros == 0
