"""What the pool knows of a worker from its frames: when its order has had its time, what was revoked."""

import asyncio

import pytest

from quire.compute.pool import frames
from quire.compute.pool.meter import PROGRESS_INTERVAL_SECONDS
from quire.compute.pool.worker_handle import WorkerHandle
from quire.model.cost import NO_COST, Cost
from quire.model.work import Order, Outcome, StepCall
from quire.testing.factories import file, report
from quire.testing.time import FakeClock

CALL = StepCall(step="s", version=1, timeout_seconds=60.0, stall_seconds=10.0)
STARTED, COMPUTED, SKIPPED = frames.STARTED_FRAME, frames.COMPUTED_FRAME, frames.SKIPPED_FRAME
PROGRESS = frames.encode_frame(frames.PROGRESS, frames.ProgressFrame(3, 7))


class GoneProcess:
    """Has ended; what it had said is still to be read."""

    name = "gone"

    def __init__(self):
        self.written = b""
        self.stdout = asyncio.StreamReader()

    def write(self, data):
        self.written += data

    async def read(self):
        return await self.stdout.read(1 << 18)

    def kill(self):
        pass


class Told:
    def __init__(self):
        self.clock = FakeClock()
        self.process = GoneProcess()
        self.hand = WorkerHandle(self.process, self.clock)

    async def hears(self, *said):
        self.process.stdout.feed_data(b"".join(said))
        return await self.hand.receive()

    def kinds_given(self):
        return [kind for kind, _ in frames.FrameDecoder().feed(self.process.written)]

    def judged(self):
        self.hand.check_limits(self.clock.monotonic())
        verdict = self.hand.kill_reason
        return verdict and (verdict[1].outcome, verdict[1].error_class)


@pytest.fixture
async def told():
    return Told()


def order(task_no=1, batch_no=1, attempt=1):
    return Order(batch_no, task_no, attempt, file())


def ended(given, **changes):
    changes = {"batch_no": given.batch_no, **changes}
    return frames.encode_frame(frames.REPORT, report(given.task_no, given.attempt, **changes))


async def test_a_step_without_progress_is_stopped_and_the_text_names_the_limit(told):
    told.hand.give(CALL, [order()])
    await told.hears(STARTED)
    told.clock.advance(10 + PROGRESS_INTERVAL_SECONDS / 2)
    assert told.judged() is None, "a younger sign may have been held back"
    told.clock.advance(PROGRESS_INTERVAL_SECONDS)
    assert told.judged() == (Outcome.TIMED_OUT, "stalled")
    assert told.hand.is_killed
    assert "no progress for 10 s" in told.hand.kill_reason[1].error


async def test_a_sign_of_progress_gives_it_the_whole_time_again(told):
    told.hand.give(CALL, [order()])
    await told.hears(STARTED)
    told.clock.advance(9)
    await told.hears(PROGRESS)
    told.clock.advance(9)
    assert told.judged() is None
    told.clock.advance(2)
    assert told.judged() == (Outcome.TIMED_OUT, "stalled")
    assert "after 3 of 7" in told.hand.kill_reason[1].error


async def test_progress_does_not_help_beyond_the_whole_limit(told):
    told.hand.give(CALL, [order()])
    await told.hears(STARTED)
    for _ in range(61):
        told.clock.advance(1)
        await told.hears(PROGRESS)
    assert told.judged() == (Outcome.TIMED_OUT, "timeout")


async def test_spending_is_no_progress(told):
    told.hand.give(CALL, [order()])
    await told.hears(STARTED)
    told.clock.advance(9)
    await told.hears(frames.encode_frame(frames.SPENT, Cost(tokens_in=1)))
    told.clock.advance(2)
    assert told.judged() == (Outcome.TIMED_OUT, "stalled")


async def test_the_time_grows_with_the_pages_that_the_step_says_it_has(told):
    call = StepCall(step="s", version=1, timeout_seconds=60.0, page_seconds=10.0)
    told.hand.give(call, [order(), order(2)])
    await told.hears(STARTED, frames.encode_frame(frames.PROGRESS, frames.ProgressFrame(0, 3)))
    told.clock.advance(80)
    assert told.judged() is None
    await told.hears(COMPUTED, ended(order()), STARTED)
    told.clock.advance(61)
    assert told.judged() == (Outcome.TIMED_OUT, "timeout"), "the pages of an earlier file counted"


async def test_without_such_a_limit_silence_is_no_fault(told):
    told.hand.give(StepCall(step="s", version=1, timeout_seconds=60.0), [order()])
    await told.hears(STARTED)
    told.clock.advance(59)
    assert told.judged() is None


@pytest.mark.parametrize("after", [COMPUTED, ended(order())])
async def test_a_step_that_has_ended_is_not_judged(told, after):
    told.hand.give(CALL, [order()])
    await told.hears(STARTED, after)
    told.clock.advance(1000)
    assert told.judged() is None


async def test_the_next_order_begins_with_its_whole_time(told):
    told.hand.give(CALL, [order(1), order(2)])
    await told.hears(STARTED)
    told.clock.advance(9)
    await told.hears(ended(order(1)), STARTED)
    told.clock.advance(9)
    assert told.judged() is None


WEIGHED = frames.encode_frame(frames.NEEDS_MEMORY, frames.MemoryRequest(500))


async def test_one_that_asks_and_may_begin_holds_its_memory_until_its_step_ends(told):
    told.hand.give(CALL, [order(1), order(2)])
    await told.hears(STARTED, WEIGHED)
    assert told.hand.requested_mb == 500
    told.hand.grant_memory(300)
    assert (told.hand.requested_mb, list(told.hand.held.values())) == (0, [300])
    await told.hears(COMPUTED)
    assert told.hand.held == {}
    assert told.kinds_given() == [frames.CHUNK, frames.GO]


async def test_a_worker_that_only_stores_is_idle(told):
    assert told.hand.is_idle
    told.hand.give(CALL, [order(1)])
    assert not told.hand.is_idle
    await told.hears(STARTED)
    assert (told.hand.is_idle, told.hand.orders_to_compute) == (False, 1)
    await told.hears(COMPUTED)
    assert (told.hand.is_idle, told.hand.orders_to_compute, told.hand.orders_out) == (True, 0, 1)


async def test_a_failed_step_gives_its_memory_back_too(told):
    told.hand.give(CALL, [order(1)], granted_mb=500, held_mb=300)
    assert list(told.hand.held.values()) == [300]
    await told.hears(STARTED, ended(order(1), outcome=Outcome.ERRED))
    assert told.hand.held == {}


async def test_one_that_must_wait_was_never_begun(told):
    told.hand.give(CALL, [order(1), order(2)])
    await told.hears(STARTED, WEIGHED)
    assert told.hand.defer() == (CALL, order(1))
    assert (told.hand.current, told.hand.started, told.hand.orders_out) == (None, {}, 1)
    await told.hears(STARTED)
    assert told.hand.current[1] == order(2)
    assert told.kinds_given() == [frames.CHUNK, frames.WAIT]


async def test_one_that_must_wait_and_was_revoked_is_nobodys(told):
    told.hand.give(CALL, [order(1)])
    await told.hears(STARTED, WEIGHED)
    told.hand.revoke(1)
    assert told.hand.defer() is None
    assert not told.hand.is_revoked(order(1))


async def test_what_is_given_back_is_nobodys_any_more_and_what_runs_stays(told):
    told.hand.give(CALL, [order(1), order(2)])
    told.hand.give(CALL, [order(3)], granted_mb=500, held_mb=300)
    await told.hears(STARTED)
    told.hand.recall()
    assert told.hand.is_recalling
    await told.hears(frames.RECALLED_FRAME)
    assert told.hand.take_returned() == [(CALL, order(2)), (CALL, order(3))]
    assert told.hand.take_returned() == []
    assert (told.hand.orders_out, told.hand.chunks_waiting, told.hand.held) == (1, 0, {})
    assert not told.hand.is_recalling
    told.hand.give(CALL, [order(4)])
    await told.hears(ended(order(1)), STARTED)
    assert told.hand.current[1] == order(4)
    assert told.kinds_given() == [frames.CHUNK, frames.CHUNK, frames.RECALL, frames.CHUNK]


async def test_what_was_revoked_and_is_given_back_is_not_wanted(told):
    told.hand.give(CALL, [order(1, batch_no=2), order(2), order(3, batch_no=2)])
    await told.hears(STARTED)
    told.hand.revoke(1)
    told.hand.recall()
    await told.hears(frames.RECALLED_FRAME)
    assert told.hand.take_returned() == [(CALL, order(3, batch_no=2))]
    assert not told.hand.is_revoked(order(2))


async def test_what_orders_took_is_known_by_step(told):
    told.hand.give(CALL, [order(1)])
    await told.hears(STARTED, ended(order(1)))
    assert told.hand.durations == [(CALL, 0.1)]


async def test_tasks_of_two_batches_with_one_number_are_two(told):
    told.hand.give(CALL, [order(7, batch_no=1), order(7, batch_no=2)])
    await told.hears(STARTED, COMPUTED, STARTED, ended(order(7, batch_no=1)))
    assert [one.batch_no for _, one in told.hand.started.values()] == [2]
    assert told.hand.current[1].batch_no == 2


async def test_what_was_spent_is_known_until_the_report(told):
    first = order(1)
    told.hand.give(CALL, [first])
    await told.hears(STARTED, frames.encode_frame(frames.SPENT, Cost(tokens_in=5)), COMPUTED)
    assert told.hand.spent_on(first) == Cost(tokens_in=5)
    await told.hears(ended(first))
    assert told.hand.spent_on(first) == NO_COST


async def test_a_worker_on_a_revoked_order_is_killed_and_no_report_passes(told):
    told.hand.give(CALL, [order(1), order(2, batch_no=2)])
    await told.hears(STARTED)
    told.hand.revoke(1)
    assert told.hand.was_revoked
    assert await told.hears(ended(order(1))) == []


async def test_a_worker_on_another_batch_is_told_and_keeps_its_order(told):
    mine, other = order(1), order(1, batch_no=2)
    told.hand.give(CALL, [other, mine])
    await told.hears(STARTED)
    told.hand.revoke(1)
    assert not told.hand.is_killed
    assert told.kinds_given() == [frames.CHUNK, frames.REVOKE]
    (passed,) = await told.hears(ended(other), SKIPPED)
    assert passed.batch_no == 2
    assert told.hand.orders_out == told.hand.chunks_waiting == 0


async def test_one_that_started_before_it_heard_of_the_revoking_is_killed_then(told):
    told.hand.give(CALL, [order(1, batch_no=2), order(1)])
    await told.hears(STARTED)
    told.hand.revoke(1)
    await told.hears(ended(order(1, batch_no=2)), STARTED)
    assert told.hand.was_revoked


async def test_a_result_that_was_being_stored_is_swallowed_without_a_kill(told):
    told.hand.give(CALL, [order(1), order(1, batch_no=2)])
    await told.hears(STARTED, COMPUTED, STARTED)
    told.hand.revoke(1)
    assert not told.hand.is_killed
    assert await told.hears(ended(order(1))) == []


async def test_another_attempt_of_a_revoked_task_passes_while_the_old_one_is_still_out(told):
    again = order(1, attempt=2)
    told.hand.give(CALL, [order(1)])
    await told.hears(STARTED, COMPUTED)
    told.hand.revoke(1)
    told.hand.give(CALL, [again])
    heard = await told.hears(STARTED, ended(order(1)), ended(again))
    assert [one.attempt for one in heard] == [2]
    assert not told.hand.is_killed
    assert told.hand.orders_out == 0


async def test_revoking_a_batch_that_is_not_here_says_nothing(told):
    told.hand.give(CALL, [order(1)])
    told.hand.revoke(9)
    assert told.kinds_given() == [frames.CHUNK]
