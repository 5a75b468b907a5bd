"""Coroutines in hosts, with hosts that a test plays and a clock that it sets: limits, blame and recovery."""

import asyncio
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from quire.compute.hosts import hosts as hosts_module
from quire.compute.hosts.handle import HostHandle
from quire.compute.hosts.hosts import AsyncHosts
from quire.compute.hosts.limits import RunLimits
from quire.compute.pool import frames
from quire.model.cost import Cost
from quire.model.errors import Misconfigured
from quire.model.work import Order, Outcome, Report, StepCall, StepResult
from quire.system import LoopSignal
from quire.testing.factories import file
from quire.testing.time import FakeClock

PATIENCE_SECONDS = 30.0
CALL = StepCall(step="think", version=1, asynchronous=True, timeout_seconds=60.0)
DECODERS = {frames.CHUNK: frames.chunk_decoder, frames.CANCEL: frames.attempt_decoder}


def orders(count, *, batch_no=1, first=1):
    return [Order(batch_no, first + number, 1, file(f"{number}.txt")) for number in range(count)]


class PlayedHost:
    """A host process whose part a test plays. It starts what it is given unless `starts` is false, and its
    loop answers pings unless `turns` is false.
    """

    def __init__(self, number, is_alone):
        self.name = f"host-{number}"
        self.is_alone = is_alone
        self.starts = self.turns = True
        self.heard = []
        self.is_killed = False
        self._said = asyncio.Queue()
        self._decoder = frames.FrameDecoder()
        self.say(frames.READY, frames.Ready(number))

    def say(self, kind, content=None):
        self._said.put_nowait(frames.encode_frame(kind, content))

    def report(self, order, outcome=Outcome.DONE, **parts):
        result = StepResult() if outcome is Outcome.DONE else None
        self.say(
            frames.REPORT, Report(*order.attempt_key, outcome, 1.0, 2.0, self.name, result=result, **parts)
        )

    def confirm_cancellation(self, order):
        self.report(order, Outcome.INTERRUPTED, error_class="interrupted")

    def crash(self):
        self._said.put_nowait(b"")

    def given(self):
        return [order for kind, chunk in self.heard if kind == frames.CHUNK for order in chunk.orders]

    def cancelled(self):
        return [key for kind, key in self.heard if kind == frames.CANCEL]

    def write(self, data):
        for kind, payload in self._decoder.feed(data):
            content = DECODERS[kind].decode(payload) if kind in DECODERS else None
            self.heard.append((kind, content))
            if kind == frames.CHUNK and self.starts:
                for order in content.orders:
                    self.say(frames.STARTED, order.attempt_key)
            elif kind == frames.PING and self.turns:
                self.say(frames.PONG)
            elif kind == frames.STOP:
                self.crash()

    async def read(self):
        return await self._said.get()

    def kill(self):
        self.is_killed = True
        self.crash()

    async def wait(self):
        return "killed by SIGKILL" if self.is_killed else "exit code 7"

    def read_stderr(self):
        return "last words"

    is_lost = False


class Theatre:
    def __init__(self, **terms):
        self.clock = FakeClock()
        self.signal = LoopSignal()
        self.limits = RunLimits(terms.pop("resources", {}))
        self.played = []
        self.reports = {}
        self.cannot_start = 0
        self.hosts = AsyncHosts(
            start_host=self._start, clock=self.clock, signal=self.signal, limits=self.limits, **terms
        )

    async def _start(self, is_alone):
        if self.cannot_start:
            self.cannot_start -= 1
            raise Misconfigured("no process")
        one = PlayedHost(len(self.played) + 1, is_alone)
        self.played.append(one)
        return await HostHandle.start(one, b"", self.clock, is_alone=is_alone)

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self.reports |= {one.attempt_key: one for one in self.hosts.take_reports()}
                await asyncio.sleep(0)

    async def host(self, number):
        """The host of this number, once it has started."""
        await self.until(lambda: len(self.played) >= number)
        return self.played[number - 1]

    async def given(self, number, count):
        """The host of this number, once it has so many orders, and the pool knows that they have started."""
        host = await self.host(number)
        await self.until(lambda: len(host.given()) >= count)
        await self.settle()
        return host

    async def settle(self):
        """Until all that was said has been heard."""
        await self.until(lambda: all(host._said.empty() for host in self.played))
        for _ in range(5):
            await asyncio.sleep(0)

    async def pass_time(self, seconds):
        """Let time pass in steps that no watch takes for a standstill of its own."""
        for _ in range(round(seconds * 2)):
            self.clock.advance(0.5)
            await asyncio.sleep(0.002)
        await self.settle()

    async def report_of(self, order):
        await self.until(lambda: order.attempt_key in self.reports)
        return self.reports[order.attempt_key]


@pytest.fixture
def theatre(monkeypatch):
    monkeypatch.setattr(hosts_module, "WATCH_SECONDS", 0.001)

    @asynccontextmanager
    async def opened(**terms):
        one = Theatre(**terms)
        try:
            yield one
        finally:
            await one.hosts.stop(0)

    return opened


async def test_a_host_starts_with_the_first_order_and_runs_all_of_them_at_once(theatre):
    async with theatre() as stage:
        assert not stage.played
        some = orders(100)
        stage.hosts.submit(CALL, some)
        host = await stage.given(1, 100)
        assert host.given() == some
        assert stage.hosts.capacity(CALL) == 0
        host.report(some[7])
        assert (await stage.report_of(some[7])).outcome is Outcome.DONE
        assert stage.hosts.capacity(CALL) == 1
        assert len(stage.played) == 1


async def test_what_a_host_says_is_about_the_attempt_that_it_names(theatre):
    shown = []
    async with theatre(on_progress=lambda order, done, total: shown.append((order, done, total))) as stage:
        first, second = orders(2)
        stage.hosts.submit(CALL, [first, second])
        host = await stage.given(1, 2)
        host.say(frames.PROGRESS, frames.AttemptProgress(second.attempt_key, 3, 9))
        host.say(frames.SPENT, frames.AttemptSpending(second.attempt_key, Cost(tokens_in=5)))
        host.say(frames.SPENT, frames.AttemptSpending(first.attempt_key, Cost(tokens_in=70)))
        await stage.settle()
        await stage.pass_time(61)
        host.confirm_cancellation(second)
        assert shown == [(second, 3, 9)]
        assert (await stage.report_of(second)).outcome is Outcome.TIMED_OUT
        await stage.pass_time(6)  # the first ignores its cancellation
        assert (await stage.report_of(first)).cost == Cost(tokens_in=70)


async def test_an_order_of_another_attempt_is_not_touched_by_a_report_of_an_old_one(theatre):
    async with theatre() as stage:
        (order,) = orders(1)
        again = Order(order.batch_no, order.task_no, 2, order.file)
        stage.hosts.submit(CALL, [again])
        host = await stage.given(1, 1)
        host.report(order)
        await stage.settle()
        assert not stage.reports
        host.report(again)
        assert (await stage.report_of(again)).attempt == 2


async def test_at_the_time_limit_it_is_cancelled_and_the_others_go_on(theatre):
    slow = StepCall(step="think", version=1, asynchronous=True, timeout_seconds=600.0)
    async with theatre() as stage:
        (order,), (other,) = orders(1), orders(1, first=50)
        stage.hosts.submit(CALL, [order])
        host = await stage.given(1, 1)
        stage.hosts.submit(slow, [other])
        await stage.given(1, 2)
        await stage.pass_time(59)
        assert host.cancelled() == []
        await stage.pass_time(2)
        assert host.cancelled() == [order.attempt_key]
        host.confirm_cancellation(order)
        report = await stage.report_of(order)
        assert (report.outcome, report.error_class) == (Outcome.TIMED_OUT, "timeout")
        assert "60 s" in report.error
        await stage.pass_time(20)
        assert not host.is_killed
        assert len(stage.played) == 1


async def test_a_success_that_was_under_way_when_the_cancellation_was_sent_counts(theatre):
    async with theatre() as stage:
        (order,) = orders(1)
        stage.hosts.submit(CALL, [order])
        host = await stage.given(1, 1)
        await stage.pass_time(61)
        host.report(order)
        assert (await stage.report_of(order)).outcome is Outcome.DONE


async def test_five_seconds_after_its_cancellation_it_is_given_up_and_its_host_drained_then_killed(theatre):
    long = StepCall(step="other", version=1, asynchronous=True, timeout_seconds=600.0)
    async with theatre() as stage:
        (stubborn,), (other,), (next_one,) = orders(1), orders(1, first=50), orders(1, first=90)
        stage.hosts.submit(CALL, [stubborn])
        host = await stage.given(1, 1)
        stage.hosts.submit(long, [other])
        await stage.given(1, 2)
        await stage.pass_time(64)
        assert stubborn.attempt_key not in stage.reports
        await stage.pass_time(3)
        assert (await stage.report_of(stubborn)).error_class == "timeout"
        assert not host.is_killed  # the other one is running
        stage.hosts.submit(long, [next_one])
        assert (await stage.given(2, 1)).given() == [next_one]
        host.report(stubborn)  # too late
        host.report(other)
        assert (await stage.report_of(other)).outcome is Outcome.DONE
        await stage.until(lambda: host.is_killed)
        assert stage.reports[stubborn.attempt_key].outcome is Outcome.TIMED_OUT


async def test_one_that_shows_no_progress_is_cancelled_as_stalled(theatre):
    call = StepCall(step="think", version=1, asynchronous=True, stall_seconds=10.0)
    async with theatre() as stage:
        first, second = orders(2)
        stage.hosts.submit(call, [first, second])
        host = await stage.given(1, 2)
        await stage.pass_time(8)
        host.say(frames.PROGRESS, frames.AttemptProgress(first.attempt_key, 1, 3))
        await stage.settle()
        await stage.pass_time(4)
        assert host.cancelled() == [second.attempt_key]
        host.confirm_cancellation(second)
        assert (await stage.report_of(second)).error_class == "stalled"
        await stage.pass_time(8)
        host.confirm_cancellation(first)
        assert "after 1 of 3" in (await stage.report_of(first)).error


async def test_after_a_crash_each_runs_alone_once_and_only_the_one_that_crashes_alone_is_blamed(theatre):
    async with theatre(alone_at_once=1) as stage:
        first, second, third = orders(3)
        stage.hosts.submit(CALL, [first, second, third])
        host = await stage.given(1, 3)
        host.say(frames.SPENT, frames.AttemptSpending(first.attempt_key, Cost(tokens_in=3)))
        host.say(frames.COMPUTED, third.attempt_key)
        host.crash()
        assert (
            await stage.report_of(third)
        ).outcome is Outcome.INTERRUPTED  # it was storing, and is innocent
        alone = await stage.given(2, 1)
        assert alone.is_alone
        tried = alone.given()[0]
        assert tried in (first, second)
        assert len(alone.given()) == 1
        other = second if tried is first else first
        alone.crash()
        blamed = await stage.report_of(tried)
        assert (blamed.outcome, blamed.error_class) == (Outcome.CRASHED, "crash")
        assert "exit code 7" in blamed.error
        assert "last words" in blamed.error
        again = await stage.given(3, 1)
        assert again.given() == [other]
        again.report(other, cost=Cost(tokens_in=4))
        assert (await stage.report_of(other)).outcome is Outcome.DONE
        assert {stage.reports[first.attempt_key].cost.tokens_in} <= {3, 7}
        await stage.settle()
        assert stage.hosts.capacity(CALL) == 100


async def test_what_runs_alone_costs_what_its_runs_cost_together(theatre):
    async with theatre() as stage:
        (order,) = orders(1)
        stage.hosts.submit(CALL, [order])
        host = await stage.given(1, 1)
        host.say(frames.SPENT, frames.AttemptSpending(order.attempt_key, Cost(tokens_in=3)))
        host.crash()
        alone = await stage.given(2, 1)
        alone.report(order, cost=Cost(tokens_in=4))
        assert (await stage.report_of(order)).cost == Cost(tokens_in=7)


async def test_orders_that_had_not_started_when_their_host_died_are_given_to_the_next_one(theatre):
    async with theatre() as stage:
        first, second = orders(2)
        stage.hosts.submit(CALL, [first])
        host = await stage.given(1, 1)
        host.starts = False
        stage.hosts.submit(CALL, [second])
        await stage.given(1, 2)
        host.crash()
        await stage.until(lambda: len(stage.played) == 3)
        await stage.settle()
        alone, common = sorted(stage.played[1:], key=lambda one: not one.is_alone)
        await stage.until(lambda: alone.given() == [first] and common.given() == [second])
        common.report(second)
        assert (await stage.report_of(second)).outcome is Outcome.DONE


async def test_a_host_that_dies_before_it_has_started_anything_does_not_do_so_for_ever(theatre):
    async with theatre() as stage:
        (order,) = orders(1)
        stage.hosts.submit(CALL, [order])
        for number in (1, 2):
            host = await stage.host(number)
            host.starts = False
            await stage.until(lambda host=host: host.given())
            host.crash()
        assert (await stage.report_of(order)).outcome is Outcome.CRASHED
        assert [host.is_alone for host in stage.played] == [False, True]


async def test_hosts_that_cannot_be_started_are_an_error_after_some_tries(theatre):
    async with theatre() as stage:
        stage.cannot_start = 3
        stage.hosts.submit(CALL, orders(1))
        await stage.given(1, 1)
    async with theatre() as stage:
        stage.cannot_start = 1000
        stage.hosts.submit(CALL, orders(1))
        with pytest.raises(Misconfigured, match="no process"):
            await stage.until(lambda: False)
        assert stage.cannot_start == 1000 - hosts_module.MAX_FAILED_STARTS


async def test_while_one_holds_up_the_loop_the_time_of_the_others_does_not_count(theatre, caplog):
    async with theatre() as stage:
        blocking, other = orders(2)
        stage.hosts.submit(CALL, [blocking, other])
        host = await stage.given(1, 2)
        host.turns = False
        host.say(frames.BLOCKED, frames.BlockedLoop(blocking.attempt_key, "own.py:8 in think", 1.0))
        await stage.settle()
        await stage.pass_time(50)
        host.turns = True
        host.say(frames.RESUMED, frames.ResumedLoop(50.0))
        await stage.pass_time(15)
        assert host.cancelled() == [blocking.attempt_key]  # after 60 s of its own, the other after 15
        host.confirm_cancellation(blocking)
        failed = await stage.report_of(blocking)
        assert failed.outcome is Outcome.TIMED_OUT
        for said in (failed.error, failed.warning, caplog.text):
            assert "think" in said
            assert "own.py:8 in think" in said
        host.report(other)
        assert (await stage.report_of(other)).warning == ""


async def test_one_that_never_lets_the_loop_turn_costs_its_own_attempt_alone(theatre):
    async with theatre() as stage:
        blocking, other = orders(2)
        stage.hosts.submit(CALL, [blocking, other])
        host = await stage.given(1, 2)
        host.turns = False
        host.say(frames.BLOCKED, frames.BlockedLoop(blocking.attempt_key, "own.py:8 in think", 1.0))
        await stage.settle()
        await stage.pass_time(67)
        assert host.is_killed
        assert (await stage.report_of(blocking)).outcome is Outcome.TIMED_OUT
        assert other.attempt_key not in stage.reports
        again = await stage.given(2, 1)
        assert (again.given(), again.is_alone) == ([other], False)  # not even under suspicion
        again.report(other)
        assert (await stage.report_of(other)).outcome is Outcome.DONE


async def test_when_nobody_knows_who_holds_up_the_loop_each_shows_it_alone(theatre):
    async with theatre(alone_at_once=2) as stage:
        first, second = orders(2)
        stage.hosts.submit(CALL, [first, second])
        host = await stage.given(1, 2)
        host.turns = False
        await stage.pass_time(67)
        assert host.is_killed
        assert not stage.reports
        await stage.until(lambda: len(stage.played) == 3)
        await stage.settle()
        frozen, good = stage.played[1:]
        assert frozen.is_alone
        assert good.is_alone
        frozen.turns = False
        (blamed,), (innocent,) = frozen.given(), good.given()
        good.report(innocent)
        assert (await stage.report_of(innocent)).outcome is Outcome.DONE
        await stage.pass_time(67)
        assert (await stage.report_of(blamed)).outcome is Outcome.TIMED_OUT
        assert frozen.is_killed


async def test_memory_belongs_to_all_in_a_host_so_the_one_that_got_none_runs_again_alone(theatre):
    async with theatre() as stage:
        hungry, other = orders(2)
        stage.hosts.submit(CALL, [hungry, other])
        host = await stage.given(1, 2)
        host.report(hungry, Outcome.OUT_OF_MEMORY, error_class="out_of_memory")
        alone = await stage.given(2, 1)
        assert (alone.given(), alone.is_alone) == ([hungry], True)
        host.report(other)
        assert (await stage.report_of(other)).outcome is Outcome.DONE
        await stage.until(lambda: host.is_killed)
        alone.report(hungry, Outcome.OUT_OF_MEMORY, error_class="out_of_memory")
        assert (await stage.report_of(hungry)).outcome is Outcome.OUT_OF_MEMORY
        await stage.until(lambda: alone.is_killed)


async def test_a_step_has_no_more_than_its_limit_at_once(theatre):
    call = StepCall(step="think", version=1, asynchronous=True, at_once=2)
    async with theatre() as stage:
        some = orders(5)
        stage.hosts.submit(call, some)
        host = await stage.given(1, 2)
        assert host.given() == some[:2]
        assert stage.hosts.capacity(call) == 0
        host.report(some[1])
        await stage.given(1, 3)
        assert host.given() == some[:3]


async def test_steps_with_one_resource_share_its_limit_in_turn_and_follow_its_changes(theatre):
    resources = {"openai": 4}
    first = StepCall(step="first", version=1, asynchronous=True, resource="openai")
    second = StepCall(step="second", version=1, asynchronous=True, resource="openai")
    free = StepCall(step="free", version=1, asynchronous=True)
    async with theatre(resources=resources) as stage:
        of_first, of_second = orders(9), orders(9, first=100)
        stage.hosts.submit(free, orders(1, first=500))
        host = await stage.given(1, 1)
        stage.hosts.submit(first, of_first[:3])
        await stage.given(1, 4)
        stage.hosts.submit(second, of_second)
        stage.hosts.submit(first, of_first[3:])
        await stage.given(1, 5)
        assert host.given()[1:] == [*of_first[:3], of_second[0]]
        assert stage.hosts.capacity(free) == 99
        resources["openai"] = 2  # another member has joined
        for one in of_first[:2]:
            host.report(one)
        await stage.settle()
        assert len(host.given()) == 5
        host.report(of_first[2])
        await stage.given(1, 6)
        resources["openai"] = 6
        stage.hosts.feed()
        await stage.settle()
        assert len(host.given()) == 10
        assert {order.task_no >= 100 for order in host.given()[-4:]} == {True, False}


async def test_one_that_is_to_be_tried_later_pauses_all_that_use_its_resource(theatre):
    call = StepCall(step="think", version=1, asynchronous=True, resource="openai", at_once=1)
    async with theatre() as stage:
        some = orders(2)
        stage.hosts.submit(call, some)
        host = await stage.given(1, 1)
        host.report(some[0], Outcome.ERRED, delay_seconds=30.0)
        await stage.report_of(some[0])
        assert stage.hosts.capacity(call) == 0
        await stage.pass_time(29)
        assert host.given() == some[:1]
        await stage.pass_time(2)
        assert stage.limits.end_pauses(stage.clock.monotonic())
        stage.hosts.feed()
        await stage.given(1, 2)


async def test_a_revoked_batch_gives_no_reports_and_others_lose_nothing(theatre):
    call = StepCall(step="think", version=1, asynchronous=True, at_once=3)
    async with theatre() as stage:
        gone, kept = orders(3), orders(2, batch_no=2)
        stage.hosts.submit(call, [gone[0], kept[0], gone[1], gone[2], kept[1]])
        host = await stage.given(1, 3)
        host.report(gone[1])
        await stage.settle()
        await stage.given(1, 4)
        stage.hosts.revoke(1)
        assert set(host.cancelled()) == {gone[0].attempt_key, gone[2].attempt_key}
        host.confirm_cancellation(gone[0])
        host.report(gone[2])  # it had ended meanwhile
        host.report(kept[0])
        await stage.given(1, 5)
        host.report(kept[1])
        await stage.report_of(kept[1])
        assert set(stage.reports) <= {one.attempt_key for one in (*kept, gone[1])}
        assert stage.hosts.capacity(call) == 3


async def test_a_revoked_order_that_ignores_its_cancellation_costs_nobody_anything(theatre):
    async with theatre() as stage:
        gone, kept = orders(1), orders(1, batch_no=2)
        stage.hosts.submit(CALL, [*gone, *kept])
        host = await stage.given(1, 2)
        stage.hosts.revoke(1)
        await stage.pass_time(7)
        assert stage.hosts.capacity(CALL) == 99
        host.report(kept[0])
        assert (await stage.report_of(kept[0])).outcome is Outcome.DONE
        await stage.until(lambda: host.is_killed)


async def test_stopping_gives_back_what_never_started_and_interrupts_what_has(theatre):
    call = StepCall(step="think", version=1, asynchronous=True, at_once=1)
    async with theatre() as stage:
        started, waiting = orders(2)
        stage.hosts.submit(call, [started, waiting])
        await stage.given(1, 1)
        assert await stage.hosts.stop(0) == [waiting]
        assert (await stage.report_of(started)).outcome is Outcome.INTERRUPTED
        assert stage.hosts.capacity(call) == 0


async def test_orders_that_run_together_share_the_price_of_their_host(theatre):
    async with theatre(price_per_second=Decimal(1)) as stage:
        first, second = orders(2)
        stage.hosts.submit(CALL, [first, second])
        host = await stage.given(1, 2)
        await stage.pass_time(10)
        host.report(first)
        paid = (await stage.report_of(first)).cost.money_micros
        await stage.pass_time(4)
        host.report(second)
        assert (paid, (await stage.report_of(second)).cost.money_micros) == (5_000_000, 9_000_000)
