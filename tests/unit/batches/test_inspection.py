"""Looking at batches: the shapes programs rely on, the words people read, and what a look may cost."""

import json
import re

import msgspec
import pytest
from tests.situations.batches import TWO_PHASES, opened, walked, worked
from tests.situations.contexts import components_on

from quire.assembly.left_alone import list_noticed
from quire.batches import control, inspection
from quire.batches.lines import describe_state
from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import BatchFilter, OperatorAction
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import BatchState, Budget, FileOutcome, Hold, PhaseCounts, Position, Stage
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.model.ids import task_id
from quire.model.pipelines import to_pipelines
from quire.testing.factories import batch as a_batch
from quire.testing.factories import draft
from quire.testing.time import CountingIds, FakeClock

NAMES = ["a", "b", "c"]
ID = "0" * 26


@pytest.fixture
async def office(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    yield components_on(
        ledger,
        blobs=LocalBlobs(tmp_path / "blobs"),
        clock=FakeClock(),
        ids=CountingIds(),
        pipelines={TWO_PHASES.name: TWO_PHASES},
    )
    await database.close()


async def finished(office, names=NAMES, failing=None, **changes):
    refused = changes.pop("refused", {})
    cost = changes.pop("cost", Cost())
    batch = await opened(office, names, refused=refused, **changes)
    return await walked(office, batch, failing=failing, cost=cost)


async def all_of(pages):
    return [one async for one in pages]


async def test_a_working_batch_shows_the_progress_of_its_phase(office):
    batch = await opened(office, NAMES)
    batch = await walked(office, batch, failing={"a": "corrupt"}, until=Stage.FLOWING, phase_no=2)
    await worked(office, batch, limit=1)
    shown = msgspec.to_builtins(await inspection.show(office, ID))
    assert shown["status"] == "TWO"
    assert (shown["state"], shown["summary"]) == ("working", "working in TWO: 1 of 2")
    assert shown["progress"] == {"tasks_total": 2, "tasks_completed": 1, "tasks_failed": 0}
    assert shown["phases"]["ONE"] == {"total": 3, "completed": 2, "failed": 1, "cached": 0}
    assert "completed_at" not in shown
    assert "error" not in shown


async def test_a_finished_batch_shows_all_that_is_known(office):
    cost = Cost(bytes_in=5, bytes_out=7, tokens_in=1, tokens_out=2, money_micros=250_000)
    await finished(
        office, failing={"a": "corrupt"}, tenant="archive", budget=Budget(money_micros=99_000_000), cost=cost
    )
    shown = msgspec.to_builtins(await inspection.show(office, ID))
    at = "2023-11-14T22:13:20.000Z"
    assert {
        name: shown[name] for name in ("batch_id", "status", "state", "summary", "started_at", "completed_at")
    } == {
        "batch_id": ID,
        "status": "DONE",
        "state": "done",
        "summary": "done, 1 failed",
        "started_at": at,
        "completed_at": at,
    }
    assert shown["failed_tasks"] == [
        {
            "task_id": task_id("t", ID, "cas/a"),
            "input_r2_key": "cas/a",
            "error": "refused for its corrupt",
            "phase": "ONE",
            "path": "a",
            "error_class": "corrupt",
            "step": "one",
        }
    ]
    assert shown["failures"] == {"corrupt": 1}
    assert shown["spent"] == {
        "seconds": 2.5,
        "bytes_in": 25,
        "bytes_out": 35,
        "tokens_in": 5,
        "tokens_out": 10,
        "money": 1.25,
    }
    assert shown["budget"] == {"seconds": None, "tokens": None, "money": 99.0}
    assert (shown["tier"], shown["tenant"], shown["round"], shown["hold"]) == ("3_normal", "archive", 1, None)
    assert (shown["pipeline"], shown["total_files"], shown["phase_retry_count"]) == ("plain", 3, 0)
    assert shown["queue_message"]["batch_id"] == ID
    assert json.dumps(shown)


async def test_a_batch_that_failed_shows_its_error_and_what_was_planned(office):
    batch = await opened(office, NAMES)
    await control.reset(office, ID, OperatorAction(actor="x", reason="", now=office.clock.now()))
    shown = await inspection.show(office, ID)
    assert (shown.state, shown.error) == ("error", "Manually reset by admin")
    assert shown.summary == "error: Manually reset by admin"
    assert [(one.name, one.step) for one in shown.plan.phases] == [("ONE", "noop"), ("TWO", "noop")]
    assert (await office.batches.get_batch(ID)).no == batch.no


async def test_what_an_earlier_version_planned_is_shown(office):
    plan = '{"phases": [{"name": "ONE", "step": "noop", "version": 1, "options": {"q": 9}}]}'
    await opened(office, NAMES, plan=plan, plan_digest="")
    shown = await inspection.show(office, ID)
    assert [(one.name, one.step) for one in shown.plan.phases] == [("ONE", "noop")]


async def test_a_batch_of_an_earlier_version_names_the_processes_that_it_waits_for(office):
    plan = '{"phases": [{"name": "ONE", "step": "noop", "version": 1}]}'
    batch = await opened(office, NAMES, plan=plan, plan_digest="")
    database = office.batches._database
    member = await office.members.add_member("old-7", "run", "here", now=1.0)

    def begin(connection):
        connection.execute("UPDATE batches SET stage = 'working', status = 'ONE' WHERE no = ?", (batch.no,))
        connection.execute("UPDATE crew SET format = NULL WHERE no = ?", (member.no,))

    await database.write(begin)
    pipelines = to_pipelines(office.pipelines)
    assert "stop old-7" in (await inspection.show(office, ID)).summary
    (noticed,) = [one async for one in list_noticed(office.records, pipelines)]
    assert noticed.is_left_alone
    assert f"batch {ID}: working: waits until no process of the earlier version" in noticed.text
    await office.members.remove_member(member.no)
    assert (await inspection.show(office, ID)).summary.startswith("working in ONE")
    assert [one async for one in list_noticed(office.records, pipelines)] == []


async def test_a_batch_that_takes_files_in_has_no_message_yet(office):
    await office.uploads.open_batch(draft(ID, plan="not even JSON"))
    shown = await inspection.show(office, ID)
    assert (shown.queue_message, shown.plan.phases, shown.phases) == (None, (), {})
    assert shown.progress.tasks_total == 0


async def test_a_show_counts_no_rows(office):
    """Only methods that read counters, or a page, are called."""
    await finished(office, failing={"a": "corrupt"})
    asked = []

    class Watched:
        def __getattr__(self, name):
            asked.append(name)
            return getattr(office.batches, name)

    await inspection.show(msgspec.structs.replace(office, batches=Watched(), records=Watched()), ID)
    expected = {"get_batch", "count_tasks", "count_failures", "list_first_failed", "get_start_message"}
    assert set(asked) == expected


async def test_at_most_a_hundred_failed_tasks_are_shown(office):
    names = [f"f{number:03d}" for number in range(120)]
    await finished(office, names, failing=dict.fromkeys(names, "corrupt"))
    shown = await inspection.show(office, ID)
    assert len(shown.failed_tasks) == 100
    assert shown.failures == {"corrupt": 120}


async def test_the_list_is_newest_first_and_comes_in_pages(office):
    for number in range(5):
        await opened(office, [], batch_id=f"{number:026d}")
    first = await inspection.list_batches(office, BatchFilter(limit=2))
    second = await inspection.list_batches(office, BatchFilter(limit=2, before=first[-1].no))
    assert [int(one.batch_id) for one in (*first, *second)] == [4, 3, 2, 1]


async def test_the_list_is_filtered(office):
    await finished(office, batch_id="1" * 26, tenant="x")
    await opened(office, [], batch_id="2" * 26, tenant="y")

    async def ids(**wanted):
        return [one.batch_id[0] for one in await inspection.list_batches(office, BatchFilter(**wanted))]

    assert await ids(ended=True) == ["1"]
    assert await ids(ended=False) == ["2"]
    assert await ids(state=BatchState.WAITING) == ["2"]
    assert await ids(tenant="x") == ["1"]


async def test_files_come_in_pages_and_every_one_once(office, monkeypatch):
    monkeypatch.setattr(inspection, "PAGE", 2)
    names = [f"f{number}" for number in range(7)]
    await finished(office, names, failing={"f3": "corrupt"}, refused={"e": "empty_file"})
    found = await all_of(inspection.list_files(office, ID))
    assert [one.path for one in found] == ["e", *names]
    assert found[1].outputs == ["f0.jpg"]
    assert (found[4].status, found[4].error_class) == (FileOutcome.FAILED, "corrupt")
    assert (found[0].error_class, found[0].reason, found[0].attempts) == (
        "empty_file",
        "refused: empty_file",
        0,
    )


async def test_files_are_filtered_by_end_and_class(office, monkeypatch):
    monkeypatch.setattr(inspection, "PAGE", 1)
    await finished(office, failing={"a": "corrupt", "b": "timeout"}, refused={"e": "empty_file"})

    async def paths(**chosen):
        return [one.path for one in await all_of(inspection.list_files(office, ID, **chosen))]

    assert await paths(outcome=FileOutcome.FAILED) == ["a", "b", "e"]
    assert await paths(outcome=FileOutcome.DONE) == ["c"]
    assert await paths(error_class="timeout") == ["b"]
    assert await paths(outcome=FileOutcome.FAILED, error_class="empty_file") == ["e"]
    assert await paths(outcome=FileOutcome.PENDING) == []


async def test_the_story_of_a_file_has_every_attempt_of_every_round(office):
    await finished(office, failing={"a": "corrupt"})
    office.clock.advance(1)
    act = OperatorAction(actor="x", reason="", now=office.clock.now())
    await control.retry(office, ID, act)
    await walked(office, await office.batches.get_batch(ID))
    story = await inspection.get_file_history(office, ID, "a")
    assert (story.file.status, [one.path for one in story.files]) == (FileOutcome.DONE, ["a", "a.jpg"])
    assert [(one.made_in, one.replaced_in, one.withdrawn) for one in story.files] == [
        (None, None, False),
        ("ONE", None, False),
    ]
    tries = [(one.phase, one.round, one.path, one.outcome, one.error_class) for one in story.attempts]
    assert tries == [
        ("ONE", 1, "a", "rejected", "corrupt"),
        ("ONE", 2, "a", "done", None),
        ("TWO", 2, "a.jpg", "done", None),
    ]


async def test_a_made_file_leads_to_its_input(office):
    await finished(office)
    assert (await inspection.get_file_history(office, ID, "b.jpg")).file.path == "b"


async def test_a_file_refused_at_the_door_has_an_end_but_no_story(office):
    await finished(office, refused={"b0": "bad_name", "\ue000": "bad_name"})
    for path in ("b0", "\ue000"):
        story = await inspection.get_file_history(office, ID, path)
        assert (story.file.error_class, story.files, story.attempts) == ("bad_name", [], [])


@pytest.mark.parametrize("path", ["nobody", "", "a ", "\x00", "b/"])
async def test_a_path_that_is_not_there_is_missing(office, path):
    await finished(office)
    with pytest.raises(Missing, match="has no file"):
        await inspection.get_file_history(office, ID, path)


async def test_events_tell_what_happened_in_order(office, monkeypatch):
    monkeypatch.setattr(inspection, "PAGE", 2)
    await finished(office)
    found = await all_of(inspection.list_events(office, ID))
    kinds = [one.kind for one in found]
    assert kinds == [
        "batch_opened",
        "batch_finalized",
        "batch_started",
        "phase_started",
        "phase_started",
        "batch_done",
    ]
    assert [one.kind for one in await all_of(inspection.list_events(office, ID, after=found[3].no))] == kinds[
        4:
    ]


async def test_following_goes_on_until_the_end(office):
    batch = await opened(office, NAMES)
    looks = []

    async def pause():
        looks.append(1)
        await walked(office, await office.batches.get_batch(batch.id))

    kinds = [one.kind async for one in inspection.follow_events(office, ID, pause)]
    assert (kinds[0], kinds[-1], len(looks)) == ("batch_opened", "batch_done", 1)
    assert len(kinds) == len(set(kinds)) + 1  # two phases started, everything told once


async def test_looking_for_an_unknown_batch_is_missing(office):
    with pytest.raises(Missing):
        await inspection.show(office, "nobody")
    with pytest.raises(Missing):
        await all_of(inspection.list_files(office, "nobody"))
    with pytest.raises(Missing):
        await inspection.get_file_history(office, "nobody", "a")
    with pytest.raises(Missing):
        await all_of(inspection.list_events(office, "nobody"))
    with pytest.raises(Missing):
        await all_of(inspection.follow_events(office, "nobody", lambda: None))


COUNTS = [
    PhaseCounts(phase=1, name="ONE", total=12, done=10, failed=2, cached=0),
    PhaseCounts(phase=2, name="TWO", total=9, done=3, failed=0, cached=0),
]


@pytest.mark.parametrize(
    ("stage", "changes", "said"),
    [
        (Stage.OPEN, {}, "receiving files"),
        (Stage.QUEUED, {}, "waiting to start"),
        (Stage.FILLING, {}, "working: reads the file list"),
        (Stage.FLOWING, {}, "working in TWO: 3 of 9"),
        (Stage.ENDING, {}, "working: ends"),
        # A batch of an earlier version, before it goes on here:
        (Stage.GATHERING, {}, "working in TWO, to be taken over from an earlier version"),
        (Stage.DISCOVERING, {}, "working in TWO, to be taken over from an earlier version"),
        (Stage.WORKING, {}, "working in TWO: 3 of 9"),
        (Stage.TRANSFORMING, {}, "working in TWO, to be taken over from an earlier version"),
        (Stage.DONE, {}, "done, 2 failed"),
        (Stage.CANCELLED, {"error": "enough"}, "cancelled: enough"),
        (Stage.ERROR, {}, "error"),
        (Stage.FLOWING, {"hold": Hold.PAUSED}, "paused"),
        (Stage.FLOWING, {"hold": Hold.PAUSED, "hold_reason": "lunch"}, "paused: lunch"),
        (Stage.FLOWING, {"hold": Hold.BUDGET}, "held: budget spent"),
        (
            Stage.FLOWING,
            {"phase_retries": 2, "rests_until": 9.0},
            "working: waits to try TWO again after 2 failed tries",
        ),
        (Stage.FLOWING, {"phase_retries": 2, "rests_until": 1.0}, "working in TWO: 3 of 9"),
    ],
)
def test_every_state_has_its_words(stage, changes, said):
    batch = a_batch(position=Position(stage, 2), status="TWO", **changes)
    assert describe_state(batch, COUNTS, now=5.0) == said
    assert re.match("[a-z]+", said)[0] == batch.state, "the line begins with the word of the state"


def test_a_batch_without_failures_is_simply_done():
    assert describe_state(a_batch(Stage.DONE), [], now=0.0) == "done"
