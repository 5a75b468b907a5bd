"""Conductor, foreman and roster on one wheel, in one process and without waiting."""

import asyncio
import itertools
import json
import sqlite3

import pytest
from msgspec import structs

from quire.engine import moves
from quire.ledger.port import Settlement, TaskSelection
from quire.model.batch import Budget, FileOutcome, Hold, Stage, TaskState
from quire.model.errors import Misconfigured, Retry, Unavailable
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pace, Pipeline, Unit, from_product
from quire.model.work import Outcome, StepResult
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from quire.testing.factories import product

NAMES = [f"d{number % 2}/f{number}" for number in range(5)]
ID = "0" * 26


async def ignore(_batch):
    return None


def one_jpeg(file, result, _taken):
    added = (
        AddedFile(from_product(one, path=f"{file.path}.jpg", source=file, tags=("made",)), one.role)
        for one in result.products
    )
    return ListChange(KeptFile(file.tags), tuple(added))


TWO = pipeline(
    phase("ONE", becomes=one_jpeg, cached=False, finds=lambda file: "made" not in file.tags),
    phase("TWO", finds=lambda file: "made" in file.tags, cached=False),
)


def making(*bad, outcome=Outcome.REJECTED):
    def judge(order):
        if order.file.path in bad:
            return outcome, None
        return Outcome.DONE, StepResult(products=(product("jpeg"),))

    return judge


async def ends(small, batch):
    return {one.path: one.outcome for one in await small.ledger.list_inputs(batch.no, limit=99)}


async def test_a_batch_walks_from_its_message_to_its_end(small):
    await small.submitted(TWO, NAMES)
    batch = await small.wheel(TWO, making()).run_batch(ID, ignore)
    assert batch.status == "DONE"
    counts = [(one.name, one.total, one.done) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [("ONE", 5, 5), ("TWO", 5, 5)]
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    message = json.loads(await small.ledger.get_start_message(batch.no))
    assert message["batch_id"] == ID


async def test_what_was_settled_elsewhere_is_back_without_a_second_word(small):
    batch = await small.submitted(TWO, NAMES[:1])
    wheel = small.wheel(TWO)
    told = small.compute.take_reports

    def take_reports():
        """Of the first phase: somebody else has told the ledger, and here it is only known."""
        return [
            structs.replace(report, known=True, outcome=Outcome.ERRED) if small.elsewhere else report
            for report in told()
        ]

    async def submit(call, orders):
        await handed(call, orders)
        small.elsewhere = not small.elsewhere
        if small.elsewhere:
            settlements = [
                Settlement(report=report, state=TaskState.DONE) for report in small.compute._reports
            ]
            await small.ledger.settle_reports(batch.no, settlements, now=small.clock.now())

    small.elsewhere, handed = False, small.compute.submit
    small.compute.take_reports, small.compute.submit = take_reports, submit
    assert (await wheel.run_batch(ID, ignore)).status == "DONE"
    assert await small.ledger.list_stray_reports(batch.no, limit=9) == []
    assert [one.attempt for one in (await small.ledger.get_file_history(batch.no, NAMES[0]))[1]] == [1]


async def test_only_what_failed_runs_again_and_only_its_own_followers(small):
    await small.submitted(TWO, NAMES)
    batch = await small.wheel(TWO, making(NAMES[1], NAMES[2])).run_batch(ID, ignore)
    assert (await ends(small, batch))[NAMES[1]] is FileOutcome.FAILED
    small_move = _again(batch, 1, small)
    batch = await small.ledger.retry_tasks(small_move, TaskSelection(path=NAMES[1]), small.act())
    assert batch.position.round == 2
    batch = await small.wheel(TWO, making(), name="second").run_batch(ID, ignore)
    assert [order.file.path for order in small.compute.seen] == [NAMES[1], f"{NAMES[1]}.jpg"]
    found = await ends(small, batch)
    assert (found[NAMES[1]], found[NAMES[2]]) == (FileOutcome.DONE, FileOutcome.FAILED)
    counts = [(one.total, one.done, one.failed) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(5, 4, 1), (4, 4, 0)]
    _, attempts = await small.ledger.get_file_history(batch.no, NAMES[1])
    assert [(one.round, one.state, one.outcome) for one in attempts] == [
        (1, TaskState.SUPERSEDED, "rejected"),
        (2, TaskState.DONE, "done"),
        (2, TaskState.DONE, "done"),
    ]


def _again(batch, number, small):
    return moves.retry_round(batch, TWO, number, now=small.clock.now())


async def test_a_cancelled_batch_stops_and_goes_on_where_it_stood(small):
    await small.submitted(TWO, NAMES)
    cancelled = []

    def judge(order):
        cancelled.append(order)
        return Outcome.DONE, StepResult(products=(product("jpeg"),))

    wheel = small.wheel(TWO, judge, room=2)

    async def observe(batch):
        if cancelled and (await small.ledger.get_batch(ID)).status != "CANCELLED":
            await small.ledger.cancel(batch.no, small.act("changed my mind"))

    batch = await wheel.run_batch(ID, observe)
    assert (batch.status, batch.error) == ("CANCELLED", "changed my mind")
    assert set((await ends(small, batch)).values()) == {FileOutcome.CANCELLED}
    assert len(cancelled) < 5
    await small.ledger.reopen(batch.no, small.act(), status="ONE")
    batch = await small.wheel(TWO, making(), name="second").run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    again = {order.file.path for order in small.compute.seen if not order.file.path.endswith(".jpg")}
    settled_before = {order.file.path for order in cancelled} - again
    assert again | settled_before == set(NAMES)


async def test_a_paused_batch_waits_and_resumes(small):
    batch = await small.submitted(TWO, NAMES)
    await small.ledger.pause(batch.no, small.act())
    wheel = small.wheel(TWO, making())
    looks = 0

    async def observe(now_at):
        nonlocal looks
        if now_at.position.stage is Stage.WORKING:
            looks += 1
            assert small.compute.seen == [] or now_at.hold is None
            if looks == 3:
                await small.ledger.resume(batch.no, small.act())

    assert (await wheel.run_batch(ID, observe)).status == "DONE"


async def test_a_spent_budget_holds_the_batch_until_it_gets_more(small):
    await small.submitted(TWO, NAMES, budget=Budget(seconds=0.15))

    def judge(order):
        return Outcome.DONE, StepResult(products=(product("jpeg"),))

    wheel = small.wheel(TWO, judge, room=1)
    reports = small.compute.take_reports
    small.compute.take_reports = lambda: [structs.replace(one, seconds=0.1) for one in reports()]
    batch = await wheel.run_batch(ID, ignore)
    assert batch.hold is Hold.BUDGET
    assert len(small.compute.seen) == 2
    await small.ledger.resume(batch.no, small.act(), budget=Budget())
    batch = await small.wheel(TWO, judge, name="second").run_batch(ID, ignore)
    assert batch.status == "DONE"
    kinds = [kind for _, _, kind, _ in await small.ledger.list_events(batch.no, limit=99)]
    assert kinds.count("batch_held") == 1


@pytest.mark.parametrize("rule", ["finds", "becomes", "rivals"])
async def test_rules_that_throw_are_retried_and_then_name_the_cause(small, rule):
    def broken(*_):
        raise ZeroDivisionError("rules")

    bad = pipeline(phase("ONE", cached=False, **{rule: broken}))
    await small.submitted(bad, NAMES)
    began = small.clock.now()
    batch = await small.wheel(bad).run_batch(ID, ignore)
    assert batch.status == "ERROR"
    assert "ONE" in batch.error
    assert "ZeroDivisionError" in batch.error
    assert 60.0 <= small.clock.now() - began < 70.0  # 2 + 4 + 8 + 16 + 30
    events = [
        data["retry"]
        for _, _, kind, data in await small.ledger.list_events(batch.no, limit=99)
        if kind == "phase_retry"
    ]
    assert events == [1, 2, 3, 4, 5]


async def test_a_passing_fault_of_the_store_only_delays(small):
    await small.submitted(TWO, NAMES)
    wheel = small.wheel(TWO, making())
    get, faults = small.blobs.get, iter(range(3))

    async def away(key):
        if next(faults, None) is not None:
            raise Retry("the store is away")
        return await get(key)

    small.blobs.get = away
    batch = await wheel.run_batch(ID, ignore)
    assert (batch.status, batch.phase_retries) == ("DONE", 0)


async def test_a_manifest_that_is_none_ends_the_batch_at_once(small):
    batch = await small.submitted(TWO, NAMES)
    await small.blobs.put(batch.manifest_key, b'{"half')
    batch = await small.wheel(TWO).run_batch(ID, ignore)
    assert batch.status == "ERROR"
    assert "manifest" in batch.error
    assert await small.ledger.list_files(batch, after=0, limit=9) == []


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
    await small.submitted(TWO, NAMES)
    wheel = small.wheel(TWO, making(NAMES[1]), room=2, ledger=Away(small.ledger, every))
    batch = await wheel.run_batch(ID, ignore)
    assert batch.status == "DONE"
    found = await ends(small, batch)
    assert found.pop(NAMES[1]) is FileOutcome.FAILED
    assert set(found.values()) == {FileOutcome.DONE}
    counts = [(one.total, one.done, one.failed) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(5, 4, 1), (4, 4, 0)]
    assert None in small.troubles


def relieved(small, wheel, after, relief):
    """Somebody sees the trouble and, the third time, does something about it."""
    told = []

    def trouble(words):
        told.append(words)
        if len(told) == after:
            told.append(asyncio.ensure_future(relief()))

    wheel._trouble = trouble
    return told


async def test_a_full_disk_only_delays(small):
    """SQLite itself says that it is full: it may not have another page until somebody makes room."""
    await small.submitted(TWO, [f"d/{number:04}" for number in range(1500)])

    def allow(connection, pages):
        return connection.execute(f"PRAGMA max_page_count={pages}").fetchone()

    await small.database.write(lambda connection: allow(connection, 1))  # which means: as many as there are
    wheel = small.wheel(TWO, making(), room=500)
    told = relieved(small, wheel, 3, lambda: small.database.write(lambda one: allow(one, 10**6)))
    batch = await wheel.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert "no space" in told[0]
    assert told[-1] is None
    counts = [(one.total, one.done) for one in await small.ledger.count_tasks(batch.no)]
    assert counts == [(1500, 1500), (1500, 1500)]


async def test_a_locked_database_only_delays(small, tmp_path):
    await small.submitted(TWO, NAMES)
    await small.database.write(lambda connection: connection.execute("PRAGMA busy_timeout=1"))
    other = sqlite3.connect(tmp_path / "quire.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def let_go():
        other.execute("ROLLBACK")

    wheel = small.wheel(TWO, making())
    told = relieved(small, wheel, 3, let_go)
    batch = await wheel.run_batch(ID, ignore)
    other.close()
    assert batch.status == "DONE"
    assert "held by another process" in told[0]
    assert told[-1] is None


async def test_another_takes_over_from_a_conductor_that_died(small):
    await small.submitted(TWO, NAMES)
    first = small.wheel(TWO, making(), room=2)
    small.compute.take_reports = list  # its workers are never heard of again
    for _ in range(12):
        await first._until_answered(
            lambda: first._turn_or_rest(None)
        ) if first._membership.number else await first._begin()
    assert len(small.compute.seen) == 2
    second = small.wheel(TWO, making(), name="second")
    batch = await second.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert [member.name for member in await small.ledger.list_members()] == ["second"]
    _, attempts = await small.ledger.get_file_history(batch.no, NAMES[0])
    assert [one.outcome for one in attempts][:2] == ["interrupted", "done"]


async def test_dispatches_are_spaced_as_the_phase_says(small):
    paced = pipeline(
        phase("ONE", cached=False, pace=Pace(first_seconds=3.0, between_seconds=10.0, at_once=2))
    )
    await small.submitted(paced, NAMES)
    times = []

    def judge(order):
        times.append(small.clock.now())
        return Outcome.DONE, StepResult()

    batch = await small.wheel(paced, judge).run_batch(ID, ignore)
    waits = [round(later - earlier) for earlier, later in itertools.pairwise(times)]
    assert batch.status == "DONE"
    assert waits == [0, 10, 0, 10]
    assert times[0] - batch.started_at >= 3.0


async def test_directories_are_tasks_and_deeper_ones_come_first(small):
    names = ["a/x", "a/b/y", "a/b/c/z", "w"]
    tree = pipeline(
        phase(
            "TREE", unit=Unit.DIRECTORY, rank=lambda one: -one.path.count("/") - bool(one.path), cached=False
        )
    )
    await small.submitted(tree, names)
    told = {}

    def judge(order):
        told[order.file.path] = [one.path for one in order.earlier]
        return Outcome.DONE, StepResult(facts={"path": order.file.path})

    batch = await small.wheel(tree, judge, room=10).run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert list(told) == ["a/b/c", "a/b", "a", ""]
    assert told == {"a/b/c": [], "a/b": ["a/b/c"], "a": ["a/b"], "": ["a"]}
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}


async def test_a_directory_that_failed_is_retried_with_all_its_files(small):
    names = ["a/x", "a/y", "b/z"]
    folders = pipeline(phase("FOLDERS", unit=Unit.DIRECTORY, cached=False))
    await small.submitted(folders, names)
    batch = await small.wheel(folders, making("a")).run_batch(ID, ignore)
    assert await ends(small, batch) == {
        "a/x": FileOutcome.FAILED,
        "a/y": FileOutcome.FAILED,
        "b/z": FileOutcome.DONE,
    }
    again = moves.retry_round(batch, folders, 1, now=small.clock.now())
    await small.ledger.retry_tasks(again, TaskSelection(), small.act())
    batch = await small.wheel(folders, making(), name="second").run_batch(ID, ignore)
    assert [order.file.path for order in small.compute.seen] == ["a"]
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    (counts,) = await small.ledger.count_tasks(batch.no)
    assert (counts.total, counts.done, counts.failed) == (2, 2, 0)


async def test_a_pipeline_that_is_not_known_here_is_left_to_others(small):
    await small.submitted(TWO, NAMES)
    other = pipeline(phase("OTHER"))
    wheel = small.wheel(type(other)(name="elsewhere", version=1, queue=other.queue, phases=other.phases))
    with pytest.raises(Misconfigured):
        await wheel.run_batch(ID, ignore)


async def test_batches_of_other_pipelines_are_not_in_the_way(small):
    """More of them than are looked at in one go, and older: ours is done nevertheless."""
    other = Pipeline(name="elsewhere", version=1, queue=TWO.queue, phases=TWO.phases)
    for number in range(20):
        await small.submitted(other, ["f"], batch_id=f"{number:026}")
    await small.submitted(TWO, NAMES, batch_id="7" + "0" * 25)
    wheel = small.wheel(TWO, making())
    await wheel._begin()
    for _ in range(60):
        await wheel._turn_or_rest(None)
    assert (await small.ledger.get_batch("7" + "0" * 25)).status == "DONE"
    assert (await small.ledger.get_batch("0" * 26)).position.stage is Stage.FILLING


async def test_a_claim_is_of_the_phase_that_was_offered(small):
    """Between offer and claim another house brings the batch into its next phase: that has another step."""
    await small.submitted(TWO, NAMES)
    wheel = small.wheel(TWO, making())
    asked = []

    class Late:
        def __getattr__(self, name):
            return getattr(small.ledger, name)

        async def claim_tasks(self, batch_no, **how):
            asked.append((how["phase"], how["round_no"]))
            return await small.ledger.claim_tasks(batch_no, **{**how, "phase": how["phase"] + 1})

    small.foreman._tasks = Late()
    await wheel._begin()
    for _ in range(20):
        await wheel._turn_or_rest(None)
    assert set(asked) == {(1, 1)}
    assert small.compute.seen == []


async def test_a_conductor_alone_frees_what_the_dead_had(small):
    """Batches that a dead house was moving, and attempts that were out with it, are for others again."""
    await small.submitted(TWO, NAMES)
    first = small.wheel(TWO, making(), room=2, name="first")
    small.compute.take_reports = list
    await first._begin()
    for _ in range(12):
        await first._turn_or_rest(None)
    assert len(await small.ledger.list_running(first._membership.number)) == 2
    alone = small.wheel(TWO, name="alone", works=False)
    alone._membership._is_gone = lambda member: member.name == "first"
    await alone._begin()
    assert await small.ledger.list_running(first._membership.number) == []
    assert [member.name for member in await small.ledger.list_members()] == ["alone"]


async def test_who_falls_gives_everything_up_and_may_begin_again(small):
    await small.submitted(TWO, NAMES)
    wheel = small.wheel(TWO, making(), room=2)
    told, small.compute.take_reports = small.compute.take_reports, list
    await wheel._begin()
    for _ in range(12):
        await wheel._turn_or_rest(None)
    first = wheel._membership.number
    assert len(await small.ledger.list_running(first)) == 2
    await wheel.abandon()
    assert await small.ledger.list_running(first) == []
    assert await small.ledger.list_members() == []
    small.compute._reports.clear()
    small.compute.take_reports = told
    batch = await wheel.run_batch(ID, ignore)
    assert wheel._membership.number != first
    assert batch.status == "DONE"
    assert set((await ends(small, batch)).values()) == {FileOutcome.DONE}
    assert await small.ledger.list_stray_reports(batch.no, limit=9) == []


async def test_a_fall_while_the_ledger_is_away_is_finished_before_the_wheel_turns_again(small, monkeypatch):
    await small.submitted(TWO, NAMES)
    wheel = small.wheel(TWO, making(), room=2)
    told, small.compute.take_reports = small.compute.take_reports, list
    await wheel._begin()
    for _ in range(12):
        await wheel._turn_or_rest(None)
    first, running = wheel._membership.number, small.ledger.list_running
    with monkeypatch.context() as away:

        async def gone(member):
            raise Unavailable("the ledger is away")

        away.setattr(small.ledger, "list_running", gone)
        with pytest.raises(Unavailable):
            await wheel.abandon()
    assert len(await running(first)) == 2
    small.compute._reports.clear()
    small.compute.take_reports = told
    batch = await wheel.run_batch(ID, ignore)
    assert batch.status == "DONE"
    assert (
        [member.no for member in await small.ledger.list_members()] == [wheel._membership.number] != [first]
    )


async def test_an_urgent_batch_does_not_wait_for_the_end_of_a_large_one(small, monkeypatch):
    monkeypatch.setattr("quire.engine.scheduler.ROWS_AT_ONCE", 2)
    await small.submitted(TWO, [f"f{number:03}" for number in range(60)])
    wheel = small.wheel(TWO, making())
    await wheel._begin()
    for _ in range(3):
        await wheel._turn_or_rest(None)
    await small.submitted(TWO, ["urgent"], batch_id="1" * 26, tier=1)
    small.clock.advance(1.0)
    for _ in range(24):
        await wheel._turn_or_rest(None)
    assert (await small.ledger.get_batch("1" * 26)).status == "DONE"
    # Thirty moves of filling and as many of discovering: the large one is not through its first phase.
    assert (await small.ledger.get_batch(ID)).position.phase <= 1


async def served_in_turn(small, turns):
    """Which batch each order was of, in the order they were handed out, one at a time."""
    wheel = small.wheel(TWO, making(), room=1)
    await wheel._begin()
    for _ in range(turns):
        await wheel._turn_or_rest(None)
    return [order.batch_no for order in small.compute.seen]


async def test_urgent_batches_are_served_before_others(small):
    for number, tier in enumerate((5, 3, 1)):
        await small.submitted(TWO, NAMES, batch_id=f"{number:026}", tier=tier, now=small.clock.now())
    served = await served_in_turn(small, 60)
    assert served[:5] == [3] * 5
    assert served.index(2) < served.index(1)


async def test_a_tenant_with_many_batches_does_not_crowd_out_one_with_a_single_one(small):
    now = small.clock.now()
    for number in range(12):
        await small.submitted(TWO, NAMES, batch_id=f"{number:026}", tenant="many", now=now)
    lone = await small.submitted(TWO, NAMES, batch_id="1" * 26, tenant="lone", now=now)
    served = await served_in_turn(small, 90)
    # Turn and turn about: its five tasks are out while the other tenant's sixty have hardly begun.
    fifth = [place for place, number in enumerate(served) if number == lone.no][4]
    assert fifth <= 10


async def test_a_low_batch_that_has_waited_long_is_served_before_urgent_ones(small):
    low = await small.submitted(TWO, NAMES, batch_id="1" * 26, tier=5, now=small.clock.now() - 4 * 300.0)
    await small.submitted(TWO, NAMES, tier=2, now=small.clock.now())
    assert (await served_in_turn(small, 20))[0] == low.no
