"""The pool with real worker processes: stalled steps, nonsense, and batches that are revoked."""

import asyncio
import os

import pytest

from quire.compute.pool import pool as pool_module
from quire.compute.pool.local import LocalCompute
from quire.model.cost import Cost
from quire.model.work import Order, Outcome, StepCall
from quire.testing.factories import file

pytestmark = pytest.mark.slow

MISBEHAVE = StepCall(step="misbehave", version=1)


def order(name, task_no, *, batch_no=1, attempt=1):
    return Order(batch_no, task_no, attempt, file(name))


def names(reports):
    return sorted((one.batch_no, one.task_no, one.attempt) for one in reports)


async def test_a_step_that_stalls_costs_its_own_attempt_and_what_it_spent_is_known(pool):
    call = StepCall(step="misbehave", version=1, stall_seconds=0.5)
    async with pool() as open_pool:
        await open_pool.compute.submit(call, [order("spend-stall", 1), order("good", 2)])
        reports = {one.task_no: one for one in await open_pool.take_reports(2)}
        assert (reports[1].outcome, reports[1].error_class) == (Outcome.TIMED_OUT, "stalled")
        assert "0.5 s" in reports[1].error
        assert reports[1].cost == Cost(tokens_in=1005, tokens_out=20, money_micros=1501)
        assert reports[2].outcome is Outcome.DONE
        assert reports[1].worker != reports[2].worker
        assert await open_pool.left_over() == ([], [])


async def test_nonsense_leaves_the_worker_alive(pool):
    async with pool() as open_pool:
        await open_pool.compute.submit(MISBEHAVE, [order("nonsense", 1), order("good", 2)])
        bad, good = await open_pool.take_reports(2)
        assert (bad.outcome, bad.error_class) == (Outcome.REJECTED, "bad_result")
        assert (good.outcome, good.worker) == (Outcome.DONE, bad.worker)


async def test_revoking_kills_what_runs_and_loses_nothing_of_other_batches(pool):
    given = [
        order("good", 1, batch_no=2),
        order("hang", 1),
        order("good", 2),
        order("good", 2, batch_no=2),
        order("good", 3),
        order("good", 3, batch_no=2),
    ]
    async with pool() as open_pool:
        await open_pool.compute.submit(MISBEHAVE, given)
        # The first report travels with the word that the next order has started.
        (first,) = await open_pool.take_reports(1)
        open_pool.compute.revoke(1)
        others = await open_pool.take_reports(2)
        assert names(others) == [(2, 2, 1), (2, 3, 1)]
        assert {one.outcome for one in others} == {Outcome.DONE}
        assert first.worker not in {one.worker for one in others}
        await open_pool.compute.submit(MISBEHAVE, [order("good", 1, attempt=2)])
        (resumed,) = await open_pool.take_reports(1)
        assert (resumed.outcome, resumed.attempt) == (Outcome.DONE, 2)
        assert await open_pool.left_over() == ([], [])


async def test_a_revoked_order_gives_no_report_whatever_it_has_spent(pool):
    revoked = order("hang", 1)
    async with pool() as open_pool:
        await open_pool.compute.submit(MISBEHAVE, [order("good", 1, batch_no=2), revoked])
        await open_pool.take_reports(1)
        (hand,) = open_pool.compute._handles
        hand._spent[revoked.attempt_key] = Cost(tokens_in=1)
        open_pool.compute.revoke(1)
        assert await open_pool.left_over() == ([], [])


async def test_what_waits_behind_another_batch_is_dropped_and_the_other_goes_on(pool, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    call = StepCall(step="misbehave", version=1, options={"gate": str(gate)})
    given = [
        order("good", 1, batch_no=2),
        order("gate", 2, batch_no=2),
        order("hang", 1),
        order("good", 3, batch_no=2),
    ]
    async with pool() as open_pool:
        await open_pool.compute.submit(call, given)
        (first,) = await open_pool.take_reports(1)
        open_pool.compute.revoke(1)
        gate.write_bytes(b"go")
        others = await open_pool.take_reports(2)
        assert names(others) == [(2, 2, 1), (2, 3, 1)]
        assert {one.outcome for one in others} == {Outcome.DONE}
        assert others[0].worker == first.worker
        assert await open_pool.left_over() == ([], [])


async def test_revoking_drops_what_no_worker_has_seen_and_reports_not_yet_taken(pool):
    async with pool() as open_pool:
        compute = open_pool.compute
        await compute.submit(MISBEHAVE, [order("good", 1)])
        (first,) = await open_pool.take_reports(1)
        compute._reports = [first]
        compute._backlog.append((MISBEHAVE, [order("hang", 2), order("good", 3, batch_no=2)]))
        compute.revoke(1)
        (other,) = await open_pool.take_reports(1)
        assert names([other]) == [(2, 3, 1)]
        assert await open_pool.left_over() == ([], [])


async def test_an_order_that_the_worker_had_just_turned_to_runs_again_elsewhere(pool):
    """The pool still thinks that the worker is on the revoked one when it kills."""
    innocent = order("hang", 1, batch_no=2)
    async with pool() as open_pool:
        compute = open_pool.compute
        await compute.submit(MISBEHAVE, [order("good", 2, batch_no=2), innocent])
        await open_pool.take_reports(1)
        (hand,) = compute._handles
        assert hand.current[1] is innocent
        hand._kill_revoked()
        while hand in compute._handles or not compute._handles:
            await open_pool._signal.wait()
        (other,) = compute._handles
        assert [one.attempt_key for _, one in (*other.unstarted, *other.started.values())] == [
            innocent.attempt_key
        ]
        compute.revoke(2)
        assert await open_pool.left_over() == ([], [])


class ScriptedClock:
    """Says these moments one after the other, then the last one for ever."""

    def __init__(self, *moments):
        self._moments = list(moments)

    def monotonic(self):
        return self._moments.pop(0) if len(self._moments) > 1 else self._moments[0]


class Judged:
    def __init__(self):
        self.first = asyncio.get_running_loop().create_future()

    def check_limits(self, now):
        if not self.first.done():
            self.first.set_result(now)


async def test_a_pool_that_was_held_up_hears_its_workers_before_it_judges(monkeypatch):
    monkeypatch.setattr(pool_module, "WATCH_SECONDS", 0)
    compute = LocalCompute(
        command=(),
        environment={},
        configuration=b"",
        workers=0,
        clock=ScriptedClock(0, 100, 100.2),
        signal=None,
    )
    hand = Judged()
    compute._handles = [hand]
    watching = asyncio.create_task(compute._watch())
    assert await hand.first == 100.2
    watching.cancel()
