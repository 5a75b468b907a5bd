"""Coroutines in real host processes: what blocks, crashes, freezes or eats memory, and what is killed."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from quire.model.cost import Cost
from quire.model.work import Order, Outcome, StepCall
from quire.testing.factories import file

pytestmark = pytest.mark.slow

MODULES = ("quire.testing.steps", "quire.testing.async_steps")
CALL = StepCall(step="misbehave_async", version=1, asynchronous=True)


def order(name, task_no, *, batch_no=1):
    return Order(batch_no, task_no, 1, file(name))


async def run(opened, call, *orders):
    await opened.compute.submit(call, list(orders))
    return {one.task_no: one for one in await opened.take_reports(len(orders))}


async def test_two_hundred_run_at_the_same_time_in_one_process(pool):
    """Each waits for all: with one fewer at a time none would end."""
    call = replace(CALL, at_once=200, options={"guests": 200})
    async with pool(step_modules=MODULES) as opened:
        first = await run(opened, call, order("good", 500))
        pid = int(first[500].worker.rpartition("-")[2])
        memory = peak_memory(pid)
        reports = await run(opened, call, *(order("meet", number) for number in range(200)))
        assert {one.outcome for one in reports.values()} == {Outcome.DONE}
        assert {one.worker for one in reports.values()} == {first[500].worker}
        assert peak_memory(pid) < 1.5 * memory


def peak_memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def test_one_that_blocks_the_loop_is_named_with_its_line_and_the_others_end_well(pool, caplog):
    call = replace(CALL, options={"seconds": 1.6})
    async with pool(step_modules=MODULES) as opened:
        reports = await run(opened, call, order("block", 1), order("slow", 2))
        assert {one.outcome for one in reports.values()} == {Outcome.DONE}
        assert "the step misbehave_async" in reports[1].warning
        assert "async_steps.py:" in reports[1].warning
        assert "in _block_a_while" in reports[1].warning
        assert "asyncio.to_thread" in reports[1].warning
        assert reports[2].warning == ""
        assert reports[1].warning in caplog.text


async def test_what_a_task_of_a_step_does_is_the_step_s_fault(pool, monkeypatch):
    monkeypatch.setattr("quire.compute.hosts.hosts.CANCEL_SECONDS", 1.6)
    async with pool(step_modules=MODULES) as opened:
        call = replace(CALL, timeout_seconds=1.5)
        reports = await run(opened, call, order("nested", 1))
        assert reports[1].outcome is Outcome.TIMED_OUT
        assert "in _sleep_long" in reports[1].error


async def test_after_a_crash_only_the_one_that_crashes_alone_is_blamed(pool):
    call = replace(CALL, options={"seconds": 0.05})
    async with pool(workers=2, step_modules=MODULES) as opened:
        crashing = [order("crash", 1), order("exit", 2), order("leave", 3)]
        reports = await run(opened, call, *crashing, *(order("doze", number) for number in range(4, 10)))
        assert {no: one.outcome for no, one in reports.items() if no < 4} == dict.fromkeys(
            (1, 2, 3), Outcome.CRASHED
        )
        assert "SIGSEGV" in reports[1].error
        assert "exit code 7" in reports[2].error
        assert "exit code 5" in reports[3].error
        assert {reports[no].outcome for no in range(4, 10)} == {Outcome.DONE}


async def test_a_host_that_is_killed_from_outside_loses_nothing(pool, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    call = replace(CALL, options={"gate": str(gate), "pids": str(tmp_path)})
    async with pool(step_modules=MODULES) as opened:
        await opened.compute.submit(call, [order("gate-tell", 1), order("slow", 2)])
        # A pipe can be opened for writing once somebody reads it: then its step runs.
        writing = await _opened_for_writing(gate)
        (pid,) = [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0)
        os.close(writing)
        os.close(await _opened_for_writing(gate))  # it runs again, alone
        reports = await opened.take_reports(2)
        assert {one.outcome for one in reports} == {Outcome.DONE}
        assert str(pid) not in {one.worker.rpartition("-")[2] for one in reports if one.task_no == 1}


async def _opened_for_writing(pipe: Path) -> int:
    return await asyncio.to_thread(os.open, pipe, os.O_WRONLY)


async def test_one_that_holds_the_interpreter_costs_its_own_attempt(pool, monkeypatch):
    # Longer than it takes to notice that the loop does not turn.
    monkeypatch.setattr("quire.compute.hosts.hosts.CANCEL_SECONDS", 1.6)
    call = replace(CALL, timeout_seconds=0.5)
    async with pool(workers=2, step_modules=MODULES) as opened:
        reports = await run(opened, call, order("freeze", 1), order("slow", 2))
        assert {no: one.outcome for no, one in reports.items()} == {1: Outcome.TIMED_OUT, 2: Outcome.DONE}


async def test_one_that_ignores_its_cancellation_is_left_behind(pool, monkeypatch):
    monkeypatch.setattr("quire.compute.hosts.hosts.CANCEL_SECONDS", 0.5)
    call = replace(CALL, timeout_seconds=0.5)
    async with pool(step_modules=MODULES) as opened:
        reports = await run(opened, call, order("stubborn", 1))
        assert reports[1].outcome is Outcome.TIMED_OUT
        after = await run(opened, call, order("good", 2))
        assert after[2].outcome is Outcome.DONE
        assert after[2].worker != reports[1].worker


@pytest.mark.parametrize("name", ["wait", "half", "wrong"])
async def test_whatever_a_step_makes_of_its_cancellation_it_is_a_timeout(pool, name):
    async with pool(step_modules=MODULES) as opened:
        reports = await run(opened, replace(CALL, timeout_seconds=0.3), order(name, 1))
        assert (reports[1].outcome, reports[1].error_class) == (Outcome.TIMED_OUT, "timeout")
        assert reports[1].result is None


async def test_what_was_spent_is_known_though_the_step_is_cancelled(pool):
    async with pool(step_modules=MODULES) as opened:
        reports = await run(opened, replace(CALL, timeout_seconds=0.3), order("spend-wait", 1))
        assert reports[1].outcome is Outcome.TIMED_OUT
        assert reports[1].cost == Cost(tokens_in=1005, tokens_out=20, money_micros=1501)


async def test_progress_is_shown_with_the_order_that_it_is_of(pool):
    shown = []
    async with pool(step_modules=MODULES, on_progress=lambda *one: shown.append(one)) as opened:
        stalling = order("stall", 7)
        reports = await run(opened, replace(CALL, stall_seconds=0.5), stalling)
        assert reports[7].error_class == "stalled"
        assert shown == [(stalling, 1, 3)]


async def test_one_that_eats_memory_fails_alone(pool):
    call = replace(CALL, memory_mb=300)
    async with pool(workers=2, step_modules=MODULES) as opened:
        reports = await run(opened, call, order("memory", 1), *(order("slow", no) for no in range(2, 6)))
        assert reports[1].outcome is Outcome.OUT_OF_MEMORY
        assert {reports[no].outcome for no in range(2, 6)} == {Outcome.DONE}
        assert (await run(opened, call, order("good", 9)))[9].outcome is Outcome.DONE


async def test_a_plain_function_and_a_coroutine_share_the_limit_of_their_resource(pool, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shared = {"resource": "server", "options": {"gate": str(gate)}}
    plain, coroutine = replace(CALL, step="misbehave", asynchronous=False, **shared), replace(CALL, **shared)
    async with pool(workers=2, step_modules=MODULES, resources={"server": 2}) as opened:
        compute = opened.compute
        await compute.submit(coroutine, [order("gate", 1)])
        assert (compute.capacity(call=coroutine), compute.capacity(call=plain)) == (1, 1)
        await compute.submit(plain, [order("good", 2), order("good", 3), order("good", 4)])
        assert (compute.capacity(call=coroutine), compute.capacity(call=plain)) == (0, 0)
        assert {one.task_no for one in await opened.take_reports(3)} == {2, 3, 4}  # one after the other
        assert compute.capacity(call=plain) == 1
        os.close(await _opened_for_writing(gate))
        await opened.take_reports(1)
        assert (compute.capacity(call=coroutine), compute.capacity(call=plain)) == (2, 2)


async def test_a_plain_function_that_is_to_be_tried_later_pauses_its_resource_for_coroutines_too(pool):
    later = replace(CALL, step="misbehave", asynchronous=False, resource="server", options={"seconds": 0.5})
    async with pool(step_modules=MODULES) as opened:
        reports = await run(opened, later, order("later", 1))
        assert (reports[1].outcome, reports[1].delay_seconds) == (Outcome.ERRED, 0.5)
        paused = replace(CALL, resource="server")
        assert opened.compute.capacity(call=paused) == 0
        assert opened.compute.capacity(call=later) == 0
        assert opened.compute.capacity(call=CALL) == 100
        reports = await run(opened, paused, order("good", 2))  # once the pause is over
        assert reports[2].outcome is Outcome.DONE
        assert opened.compute.capacity(call=paused) == 100
