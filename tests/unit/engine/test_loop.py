"""The loop of an engine with scheduler, dispatcher and members: in one process and without waiting."""

import asyncio
import itertools
import json
import sqlite3

import pytest
from msgspec import structs
from tests.situations.plans import phase, plan, product, step

from quire.engine.flow_settler import FlowSettler
from quire.ledger.port import Settlement, TaskSelection
from quire.model.batch import Budget, FileOutcome, Hold, Stage, TaskState
from quire.model.errors import Misconfigured, Retry, Unavailable
from quire.model.files import Change
from quire.model.plan import Pace
from quire.model.work import Outcome, StepResult

NAMES = [f"d{number % 2}/f{number}" for number in range(5)]
ID = "0" * 26


async def ignore(_batch):
    return None


TWO = plan(phase(step("one", "!*.jpg", cached=False)), phase(step("two", "*.jpg", cached=False)))


def making(*bad, outcome=Outcome.REJECTED):
    def judge(order):
        if order.file.path in bad:
            return outcome, None
        return Outcome.DONE, StepResult(products=(product("jpg", Change.JOIN),))

    return judge


async def ends(small, batch):
    return {one.path: one.outcome for one in await small.ledger.list_inputs(batch.no, limit=99)}


async def test_a_batch_walks_from_its_message_to_its_end(small):
    await small.submit(TWO, NAMES)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.status == "DONE"
    counts = [(one.name, one.total, one.done) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [("ONE", 5, 5), ("TWO", 5, 5)]
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    message = json.loads(await small.ledger.get_start_message(batch.no))
    assert message["batch_id"] == ID


async def test_what_was_settled_elsewhere_is_not_settled_again(small):
    batch = await small.submit(TWO, NAMES[:1])
    loop = small.loop(TWO, making())
    take_reports, submit = small.compute.take_reports, small.compute.submit
    elsewhere = []

    def take():
        """Of the first phase: somebody else has told the ledger, and here it is only known."""
        known = [structs.replace(one, known=True, outcome=Outcome.ERRED) for one in elsewhere]
        elsewhere.clear()
        return known or take_reports()

    async def settle_elsewhere(call, orders):
        await submit(call, orders)
        if call.step != "plan.one":
            return
        elsewhere.extend(take_reports())
        decided = [(Settlement(report=one, state=TaskState.DONE), None) for one in elsewhere]
        await FlowSettler(small.ledger).settle(batch.no, decided, now=small.clock.now())

    small.compute.take_reports, small.compute.submit = take, settle_elsewhere
    assert (await loop.run_batch(ID, ignore)).status == "DONE"
    assert [order.file.path for order in small.compute.seen] == [NAMES[0], f"{NAMES[0]}.jpg"]
    assert await small.ledger.list_stray_reports(batch.no, limit=9) == []
    attempts = (await small.ledger.get_file_history(batch.no, NAMES[0]))[1]
    assert [(one.attempt, one.outcome) for one in attempts] == [(1, "done"), (1, "done")]


async def test_only_what_failed_runs_again_and_only_its_own_followers(small):
    await small.submit(TWO, NAMES)
    batch = await small.loop(TWO, making(NAMES[1], NAMES[2])).run_batch(ID, ignore)
    assert (await ends(small, batch))[NAMES[1]] is FileOutcome.FAILED
    batch = await small.ledger.retry_flow(
        batch, TaskSelection(path=NAMES[1]), small.act(), waiting=[], names=["ONE", "TWO"]
    )
    assert batch.position.round == 2
    batch = await small.loop(TWO, making(), name="second").run_batch(ID, ignore)
    assert [order.file.path for order in small.compute.seen] == [NAMES[1], f"{NAMES[1]}.jpg"]
    found = await ends(small, batch)
    assert (found[NAMES[1]], found[NAMES[2]]) == (FileOutcome.DONE, FileOutcome.FAILED)
    counts = [(one.total, one.done, one.failed) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(5, 4, 1), (4, 4, 0)]
    _, attempts = await small.ledger.get_file_history(batch.no, NAMES[1])
    assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
        ("ONE", 1, "rejected"),
        ("ONE", 2, "done"),
        ("TWO", 1, "done"),
    ]


async def test_a_cancelled_batch_stops_and_goes_on_where_it_stood(small):
    await small.submit(TWO, NAMES)
    cancelled = []

    def judge(order):
        cancelled.append(order)
        return Outcome.DONE, StepResult(products=(product("jpg", Change.JOIN),))

    loop = small.loop(TWO, judge, room=2)

    async def observe(batch):
        if cancelled and (await small.ledger.get_batch(ID)).status != "CANCELLED":
            await small.ledger.cancel(batch.no, small.act("changed my mind"))

    batch = await loop.run_batch(ID, observe)
    assert (batch.status, batch.error) == ("CANCELLED", "changed my mind")
    assert set((await ends(small, batch)).values()) == {FileOutcome.CANCELLED}
    assert len(cancelled) < 5
    await small.ledger.reopen(batch.no, small.act(), status="ONE")
    batch = await small.loop(TWO, making(), name="second").run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    again = {order.file.path for order in small.compute.seen if not order.file.path.endswith(".jpg")}
    settled_before = {order.file.path for order in cancelled} - again
    assert again | settled_before == set(NAMES)


async def test_a_paused_batch_waits_and_resumes(small):
    batch = await small.submit(TWO, NAMES)
    await small.ledger.pause(batch.no, small.act())
    loop = small.loop(TWO, making())
    looks = 0

    async def observe(now_at):
        nonlocal looks
        if now_at.position.stage is Stage.FLOWING:
            looks += 1
            assert small.compute.seen == [] or now_at.hold is None
            if looks == 3:
                await small.ledger.resume(batch.no, small.act())

    assert (await loop.run_batch(ID, observe)).status == "DONE"


async def test_a_spent_budget_holds_the_batch_until_it_gets_more(small):
    await small.submit(TWO, NAMES, budget=Budget(seconds=0.15))

    def judge(order):
        return Outcome.DONE, StepResult(products=(product("jpg", Change.JOIN),))

    loop = small.loop(TWO, judge, room=1)
    reports = small.compute.take_reports
    small.compute.take_reports = lambda: [structs.replace(one, seconds=0.1) for one in reports()]
    batch = await loop.run_batch(ID, ignore)
    assert batch.hold is Hold.BUDGET
    assert len(small.compute.seen) == 2
    await small.ledger.resume(batch.no, small.act(), budget=Budget())
    batch = await small.loop(TWO, judge, name="second").run_batch(ID, ignore)
    assert batch.status == "DONE"
    kinds = [kind for _, _, kind, _ in await small.ledger.list_events(batch.no, limit=99)]
    assert kinds.count("batch_held") == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("a fault"), Retry("the store is away")])
async def test_a_move_that_fails_is_put_off_and_in_the_end_names_the_cause(small, monkeypatch, error):
    async def broken(*_, **__):
        raise error

    await small.submit(TWO, NAMES)
    monkeypatch.setattr(small.ledger, "admit_files", broken)
    began = small.clock.now()
    batch = await small.loop(TWO).run_batch(ID, ignore)
    assert batch.status == "ERROR"
    told = "ZeroDivisionError: a fault" if isinstance(error, ZeroDivisionError) else "the store is away"
    assert batch.error == f"given up after 5 retries of ONE: {told}"
    assert 60.0 <= small.clock.now() - began < 70.0  # 2 + 4 + 8 + 16 + 30
    events = [
        (data["retry"], data["reason"])
        for _, _, kind, data in await small.ledger.list_events(batch.no, limit=99)
        if kind == "phase_retry"
    ]
    assert events == [(number, told) for number in range(1, 6)]


async def test_a_passing_fault_of_the_store_only_delays(small):
    await small.submit(TWO, NAMES)
    loop = small.loop(TWO, making())
    get, faults = small.blobs.get, iter(range(3))

    async def away(key):
        if next(faults, None) is not None:
            raise Retry("the store is away")
        return await get(key)

    small.blobs.get = away
    batch = await loop.run_batch(ID, ignore)
    assert (batch.status, batch.phase_retries) == ("DONE", 0)


async def test_a_manifest_that_is_none_ends_the_batch_at_once(small):
    batch = await small.submit(TWO, NAMES)
    await small.blobs.put(batch.manifest_key, b'{"half')
    batch = await small.loop(TWO).run_batch(ID, ignore)
    assert batch.status == "ERROR"
    assert "manifest" in batch.error
    files = await small.database.read(lambda one: one.execute("SELECT count(*) FROM files").fetchone())
    assert files == (0,)
    assert await ends(small, batch) == dict.fromkeys(NAMES, FileOutcome.FAILED)


class Away:
    """A ledger whose answers are lost now and then: before the write, or after it."""

    def __init__(self, inner, every):
        self._inner = inner
        self._every = every
        self._count = 0

    def __getattr__(self, name):
        found = getattr(self._inner, name)

        async def call(*arguments, **named):
            self._count += 1
            lost = self._count % self._every
            if lost == 0:
                raise Unavailable("the database restarts")
            answer = await found(*arguments, **named)
            if lost == self._every // 2:
                raise Unavailable("the answer was lost")
            return answer

        return call


@pytest.mark.parametrize("every", [13, 17, 23, 31])
async def test_a_ledger_that_comes_and_goes_only_delays(small, every):
    await small.submit(TWO, NAMES)
    loop = small.loop(TWO, making(NAMES[1]), room=2, ledger=Away(small.ledger, every))
    batch = await loop.run_batch(ID, ignore)
    assert batch.status == "DONE"
    found = await ends(small, batch)
    assert found.pop(NAMES[1]) is FileOutcome.FAILED
    assert set(found.values()) == {FileOutcome.DONE}
    counts = [(one.total, one.done, one.failed) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(5, 4, 1), (4, 4, 0)]
    assert None in small.troubles


class AwayAfterContinuing:
    """A ledger that does not answer, for once, when tasks were claimed with a settlement."""

    def __init__(self, inner):
        self._inner = inner
        self._is_away = False
        self.lost = 0  # tasks that were claimed just before
        self.asked = ""  # what was not answered

    def __getattr__(self, name):
        found = getattr(self._inner, name)

        async def call(*arguments, **named):
            if self._is_away:
                self._is_away, self.asked = False, name
                raise Unavailable("the database restarts")
            answer = await found(*arguments, **named)
            if name == "settle_flow" and answer.claims and not self.lost:
                self.lost, self._is_away = len(answer.claims), True
            return answer

        return call


async def test_tasks_claimed_with_a_settlement_are_not_lost_when_the_ledger_is_away(small):
    """It is away when the results that are known are looked up."""
    cached = plan(phase(step("one", cached=True, cache_by=("name",))))
    await small.submit(cached, NAMES, digest="ab" * 32)
    ledger = AwayAfterContinuing(small.ledger)
    batch = await small.loop(cached, making(), room=2, ledger=ledger).run_batch(ID, ignore)
    assert ledger.lost
    assert ledger.asked == "load_cached"
    assert batch.status == "DONE"
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}


def relieved(small, loop, after, relief):
    """Somebody sees the trouble and, the third time, does something about it."""
    told = []

    def trouble(words):
        told.append(words)
        if len(told) == after:
            told.append(asyncio.ensure_future(relief()))

    loop._trouble = trouble
    return told


async def test_a_full_disk_only_delays(small):
    """SQLite itself says that it is full: it may not have another page until somebody makes room."""
    await small.submit(TWO, [f"d/{number:04}" for number in range(1500)])

    def allow(connection, pages):
        return connection.execute(f"PRAGMA max_page_count={pages}").fetchone()

    await small.database.write(lambda connection: allow(connection, 1))  # which means: as many as there are
    loop = small.loop(TWO, making(), room=500)
    told = relieved(small, loop, 3, lambda: small.database.write(lambda one: allow(one, 10**6)))
    batch = await loop.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert "no space" in told[0]
    assert told[-1] is None
    counts = [(one.total, one.done) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(1500, 1500), (1500, 1500)]


async def test_a_locked_database_only_delays(small, tmp_path):
    await small.submit(TWO, NAMES)
    await small.database.write(lambda connection: connection.execute("PRAGMA busy_timeout=1"))
    other = sqlite3.connect(tmp_path / "quire.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def let_go():
        other.execute("ROLLBACK")

    loop = small.loop(TWO, making())
    told = relieved(small, loop, 3, let_go)
    batch = await loop.run_batch(ID, ignore)
    other.close()
    assert batch.status == "DONE"
    assert "held by another process" in told[0]
    assert told[-1] is None


async def test_another_takes_over_from_a_member_that_died(small):
    await small.submit(TWO, NAMES)
    first = small.loop(TWO, making(), room=2)
    small.compute.take_reports = list  # its workers are never heard of again
    for _ in range(12):
        await first._until_answered(
            lambda: first._turn_or_rest(None)
        ) if first._membership.number else await first._begin()
    assert len(small.compute.seen) == 2
    second = small.loop(TWO, making(), name="second")
    batch = await second.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert [member.name for member in await small.ledger.list_members()] == ["second"]
    _, attempts = await small.ledger.get_file_history(batch.no, NAMES[0])
    assert [one.outcome for one in attempts][:2] == ["interrupted", "done"]


async def test_dispatches_are_spaced_as_the_phase_says(small):
    paced = plan(phase(step(), pace=Pace(first_seconds=3.0, between_seconds=10.0, at_once=2)))
    await small.submit(paced, NAMES)
    times = []

    def judge(order):
        times.append(small.clock.now())
        return Outcome.DONE, StepResult()

    batch = await small.loop(paced, judge).run_batch(ID, ignore)
    waits = [round(later - earlier) for earlier, later in itertools.pairwise(times)]
    assert batch.status == "DONE"
    assert waits == [0, 10, 0, 10]
    assert times[0] - batch.started_at >= 3.0


async def test_a_pipeline_that_is_not_known_here_is_left_to_others(small):
    await small.submit(TWO, NAMES)
    loop = small.loop(plan(phase(step("other")), name="elsewhere"))
    with pytest.raises(Misconfigured):
        await loop.run_batch(ID, ignore)


async def test_batches_of_other_pipelines_are_not_in_the_way(small):
    """More of them than are looked at in one go, and older: ours is done nevertheless."""
    other = plan(*TWO.phases, name="elsewhere")
    for number in range(20):
        await small.submit(other, ["f"], batch_id=f"{number:026}")
    await small.submit(TWO, NAMES, batch_id="7" + "0" * 25)
    loop = small.loop(TWO, making())
    await loop._begin()
    for _ in range(60):
        await loop._turn_or_rest(None)
    assert (await small.ledger.get_batch("7" + "0" * 25)).status == "DONE"
    assert (await small.ledger.get_batch("0" * 26)).position.stage is Stage.FILLING


async def test_a_scheduler_alone_frees_what_dead_members_had(small):
    """Batches that a dead member moved, and attempts that it ran, are for others again."""
    await small.submit(TWO, NAMES)
    first = small.loop(TWO, making(), room=2, name="first")
    small.compute.take_reports = list
    await first._begin()
    for _ in range(12):
        await first._turn_or_rest(None)
    assert len(await small.ledger.list_running(first._membership.number)) == 2
    alone = small.loop(TWO, name="alone", dispatches=False)
    alone._membership._is_gone = lambda member: member.name == "first"
    await alone._begin()
    assert await small.ledger.list_running(first._membership.number) == []
    assert [member.name for member in await small.ledger.list_members()] == ["alone"]


async def test_a_loop_that_was_abandoned_gives_everything_up_and_may_begin_again(small):
    await small.submit(TWO, NAMES)
    loop = small.loop(TWO, making(), room=2)
    told, small.compute.take_reports = small.compute.take_reports, list
    await loop._begin()
    for _ in range(12):
        await loop._turn_or_rest(None)
    first = loop._membership.number
    assert len(await small.ledger.list_running(first)) == 2
    await loop.abandon()
    assert await small.ledger.list_running(first) == []
    assert await small.ledger.list_members() == []
    small.compute._reports.clear()
    small.compute.take_reports = told
    batch = await loop.run_batch(ID, ignore)
    assert loop._membership.number != first
    assert batch.status == "DONE"
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    assert await small.ledger.list_stray_reports(batch.no, limit=9) == []


async def test_a_loop_abandoned_while_the_ledger_is_away_gives_up_before_it_begins_again(small, monkeypatch):
    await small.submit(TWO, NAMES)
    loop = small.loop(TWO, making(), room=2)
    told, small.compute.take_reports = small.compute.take_reports, list
    await loop._begin()
    for _ in range(12):
        await loop._turn_or_rest(None)
    first, running = loop._membership.number, small.ledger.list_running
    with monkeypatch.context() as away:

        async def gone(member):
            raise Unavailable("the ledger is away")

        away.setattr(small.ledger, "list_running", gone)
        with pytest.raises(Unavailable):
            await loop.abandon()
    assert len(await running(first)) == 2
    small.compute._reports.clear()
    small.compute.take_reports = told
    batch = await loop.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert [member.no for member in await small.ledger.list_members()] == [loop._membership.number] != [first]


async def test_an_urgent_batch_does_not_wait_for_the_end_of_a_large_one(small, monkeypatch):
    monkeypatch.setattr("quire.engine.flow_moves.ROWS_AT_ONCE", 2)
    await small.submit(TWO, [f"f{number:03}" for number in range(60)])
    loop = small.loop(TWO, making())
    await loop._begin()
    for _ in range(3):
        await loop._turn_or_rest(None)
    await small.submit(TWO, ["urgent"], batch_id="1" * 26, tier=1)
    small.clock.advance(1.0)
    for _ in range(24):
        await loop._turn_or_rest(None)
    assert (await small.ledger.get_batch("1" * 26)).status == "DONE"
    # Thirty moves of filling and as many of discovering: the large one is not through its first phase.
    assert (await small.ledger.get_batch(ID)).position.phase <= 1


async def served_in_turn(small, turns):
    """Which batch each order was of, in the order they were handed out, one at a time."""
    loop = small.loop(TWO, making(), room=1)
    await loop._begin()
    for _ in range(turns):
        await loop._turn_or_rest(None)
    return [order.batch_no for order in small.compute.seen]


async def test_urgent_batches_are_served_before_others(small):
    for number, tier in enumerate((5, 3, 1)):
        await small.submit(TWO, NAMES, batch_id=f"{number:026}", tier=tier, now=small.clock.now())
    served = await served_in_turn(small, 60)
    assert served[:5] == [3] * 5
    assert served.index(2) < served.index(1)


async def test_a_tenant_with_many_batches_does_not_crowd_out_one_with_a_single_one(small):
    now = small.clock.now()
    for number in range(12):
        await small.submit(TWO, NAMES, batch_id=f"{number:026}", tenant="many", now=now)
    lone = await small.submit(TWO, NAMES, batch_id="1" * 26, tenant="lone", now=now)
    served = await served_in_turn(small, 90)
    # Turn and turn about: its five tasks are out while the other tenant's sixty have hardly begun.
    fifth = [place for place, number in enumerate(served) if number == lone.no][4]
    assert fifth <= 10


async def test_a_low_batch_that_has_waited_long_is_served_before_urgent_ones(small):
    low = await small.submit(TWO, NAMES, batch_id="1" * 26, tier=5, now=small.clock.now() - 4 * 300.0)
    await small.submit(TWO, NAMES, tier=2, now=small.clock.now())
    assert (await served_in_turn(small, 20))[0] == low.no
