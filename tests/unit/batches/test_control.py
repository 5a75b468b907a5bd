"""A person intervenes: what would be done is told first, and nonsense is refused with advice."""

import pytest
from tests.situations.batches import TWO_PHASES, opened, walked, worked
from tests.situations.contexts import components_on

from quire.batches import control
from quire.batches.control import BudgetChange, FailedGroup
from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import OperatorAction, TaskSelection
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Budget, FileOutcome, Hold, Stage
from quire.model.cost import Cost
from quire.model.errors import Misconfigured, Missing, Reject
from quire.testing.time import CountingIds, FakeClock

NAMES = ["a", "b", "c", "d"]
ID = "0" * 26
ENDS = [Stage.DONE, Stage.ERROR, Stage.CANCELLED]
LIVING = [Stage.QUEUED, Stage.FILLING, Stage.FLOWING, Stage.ENDING]


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


@pytest.fixture
def act(office):
    return OperatorAction(actor="ann@desk", reason="as asked", now=office.clock.now())


async def standing(office, stage, **walk):
    """A batch that stands, or has ended, in this stage."""
    batch = await opened(office, NAMES, **walk.pop("draft", {}))
    if stage is Stage.QUEUED:
        return batch
    if stage in {Stage.ERROR, Stage.CANCELLED}:
        batch = await walked(office, batch, until=Stage.FLOWING, **walk)
        ending = office.control.reset if stage is Stage.ERROR else office.control.cancel
        return await ending(batch.no, OperatorAction(actor="x", reason="enough", now=office.clock.now()))
    return await walked(office, batch, until=stage, **walk)


async def event(office, batch, wanted):
    """The data of the last event of this kind."""
    events = await office.records.list_events(batch.no, limit=999)
    return [data for _, _, kind, data in events if kind == wanted][-1]


async def outcomes(office, batch):
    return {one.path: one.outcome for one in await office.records.list_inputs(batch.no, limit=99)}


async def test_the_preview_of_a_finished_batch_names_phases_and_classes(office):
    failing = {"a": "corrupt", "b": "corrupt", "c.jpg": "timeout"}
    await standing(office, Stage.DONE, failing=failing)
    preview = await control.preview_retry(office, ID)
    assert (preview.kind, preview.round, preview.from_phase) == ("new_round", 2, "ONE")
    assert preview.failed == (
        FailedGroup(phase="ONE", error_class="corrupt", tasks=2),
        FailedGroup(phase="TWO", error_class="timeout", tasks=1),
    )
    assert (preview.tasks, preview.unsettled, preview.files) == (3, 0, 3)


async def test_a_preview_changes_nothing(office):
    batch = await standing(office, Stage.DONE, failing={"a": "corrupt"})
    await control.preview_retry(office, ID)
    assert await office.batches.get_batch(ID) == batch


@pytest.mark.parametrize(
    ("selection", "tasks", "files", "first"),
    [
        (TaskSelection(error_class="timeout"), 1, 1, "TWO"),
        (TaskSelection(path="a"), 1, 1, "ONE"),
        (TaskSelection(path="c"), 1, 1, "TWO"),
        (TaskSelection(error_class="corrupt", path="a"), 1, 1, "ONE"),
    ],
)
async def test_a_preview_counts_what_is_selected(office, selection, tasks, files, first):
    await standing(office, Stage.DONE, failing={"a": "corrupt", "b": "corrupt", "c.jpg": "timeout"})
    preview = await control.preview_retry(office, ID, selection)
    assert (preview.tasks, preview.files, preview.from_phase) == (tasks, files, first)


async def test_a_retry_runs_what_failed_and_nothing_else(office, act):
    batch = await standing(office, Stage.DONE, failing={"a": "corrupt", "c.jpg": "timeout"})
    told = await control.retry(office, ID, act)
    assert told.tasks == 2
    batch = await office.batches.get_batch(ID)
    assert (batch.position.round, batch.position.phase, batch.ended) == (2, 1, False)
    batch = await walked(office, batch)
    assert batch.status == "DONE"
    assert set((await outcomes(office, batch)).values()) == {FileOutcome.DONE}
    attempts = [len((await office.records.get_file_history(batch.no, path))[1]) for path in NAMES]
    assert attempts == [3, 2, 3, 2]  # a: refused, done, and its jpeg; c: done, its jpeg twice


async def test_a_retry_of_one_file_leaves_the_other_failures(office, act):
    batch = await standing(office, Stage.DONE, failing={"a": "corrupt", "b": "corrupt"})
    await control.retry(office, ID, act, TaskSelection(path="b"))
    batch = await walked(office, await office.batches.get_batch(ID))
    ends = await outcomes(office, batch)
    assert (ends["a"], ends["b"]) == (FileOutcome.FAILED, FileOutcome.DONE)
    assert (await control.preview_retry(office, ID)).tasks == 1


async def test_who_retried_and_why_is_kept(office, act):
    batch = await standing(office, Stage.DONE, failing={"a": "corrupt"})
    await control.retry(office, ID, act)
    data = await event(office, batch, "batch_retried")
    assert (data["actor"], data["reason"]) == ("ann@desk", "as asked")


@pytest.mark.parametrize("stage", [Stage.ERROR, Stage.CANCELLED])
async def test_an_unfinished_batch_goes_on_where_it_stood(office, act, stage):
    await standing(office, stage)
    preview = await control.preview_retry(office, ID)
    assert (preview.kind, preview.round, preview.from_phase) == ("continues", 1, "ONE")
    assert (preview.unsettled, preview.failed, preview.tasks, preview.files) == (4, (), 4, 4)
    await control.retry(office, ID, act)
    batch = await office.batches.get_batch(ID)
    assert (batch.position.stage, batch.status, batch.error) == (Stage.FLOWING, "ONE", None)
    assert (await walked(office, batch)).status == "DONE"


async def test_a_batch_that_stood_in_its_second_phase_leaves_the_failures_of_the_first(office, act):
    await standing(office, Stage.CANCELLED, failing={"a": "corrupt"}, phase_no=2)
    preview = await control.preview_retry(office, ID)
    assert (preview.from_phase, preview.unsettled, preview.failed) == ("TWO", 3, ())
    await control.retry(office, ID, act)
    batch = await walked(office, await office.batches.get_batch(ID))
    assert (await outcomes(office, batch))["a"] is FileOutcome.FAILED


@pytest.mark.parametrize("stage", LIVING)
async def test_a_running_batch_is_not_retried(office, act, stage):
    batch = await standing(office, stage)
    for retrying in (control.preview_retry(office, ID), control.retry(office, ID, act)):
        with pytest.raises(Reject, match="cancel it and then retry it") as caught:
            await retrying
        assert caught.value.code == "still_running"
    assert await office.batches.get_batch(ID) == batch


@pytest.mark.parametrize("stage", [Stage.ERROR, Stage.CANCELLED])
@pytest.mark.parametrize("selection", [TaskSelection(path="a"), TaskSelection(error_class="corrupt")])
async def test_a_choice_among_unfinished_work_is_refused(office, act, stage, selection):
    await standing(office, stage)
    with pytest.raises(Reject, match="as a whole") as caught:
        await control.retry(office, ID, act, selection)
    assert caught.value.code == "not_finished"


@pytest.mark.parametrize(
    ("failing", "selection"),
    [
        ({}, TaskSelection()),
        ({"a": "corrupt"}, TaskSelection(path="b")),
        ({"a": "corrupt"}, TaskSelection(path="nobody")),
        ({"a": "corrupt"}, TaskSelection(error_class="timeout")),
    ],
)
async def test_nothing_to_retry_is_said(office, act, failing, selection):
    await standing(office, Stage.DONE, failing=failing)
    with pytest.raises(Reject) as caught:
        await control.retry(office, ID, act, selection)
    assert caught.value.code == "nothing_to_retry"


async def test_a_batch_is_retried_where_its_pipeline_is_not(office, act):
    """Its plan is stored with it."""
    batch = await opened(office, [], pipeline_version=7)
    await office.control.cancel(batch.no, act)
    assert (await control.retry(office, ID, act)).kind == "continues"
    assert not (await office.batches.get_batch(ID)).ended


async def test_a_batch_without_a_plan_whose_pipeline_is_not_here_says_so(office, act):
    """As earlier versions opened them."""
    batch = await opened(office, [], pipeline_version=7, plan="{}", plan_digest="")
    await office.control.cancel(batch.no, act)
    with pytest.raises(Misconfigured, match="version 7"):
        await control.retry(office, ID, act)


async def test_every_act_on_an_unknown_batch_is_missing(office, act):
    for doing in (
        control.preview_retry(office, "nobody"),
        control.retry(office, "nobody", act),
        control.pause(office, "nobody", act),
        control.resume(office, "nobody", act),
        control.cancel(office, "nobody", act),
        control.reset(office, "nobody", act),
        control.prioritise(office, "nobody", "high", act),
    ):
        with pytest.raises(Missing):
            await doing


@pytest.mark.parametrize("stage", LIVING)
async def test_whatever_has_not_ended_can_be_paused_resumed_and_cancelled(office, act, stage):
    batch = await standing(office, stage)
    batch = await control.pause(office, ID, act)
    assert (batch.hold, batch.hold_reason) == (Hold.PAUSED, "as asked")
    assert (await control.resume(office, ID, act)).hold is None
    batch = await control.cancel(office, ID, act)
    assert (batch.position.stage, batch.error) == (Stage.CANCELLED, "as asked")


@pytest.mark.parametrize("stage", LIVING)
async def test_whatever_has_not_ended_can_be_reset(office, act, stage):
    await standing(office, stage)
    batch = await control.reset(office, ID, act)
    assert (batch.status, batch.error) == ("ERROR", "Manually reset by admin")


@pytest.mark.parametrize("stage", ENDS)
@pytest.mark.parametrize("doing", [control.pause, control.resume, control.cancel, control.reset])
async def test_what_has_ended_is_left_alone(office, act, stage, doing):
    before = await standing(office, stage)
    with pytest.raises(Reject, match="the batch has ended") as caught:
        await doing(office, ID, act)
    assert caught.value.code == "wrong_state"
    assert await office.batches.get_batch(ID) == before


async def test_a_second_pause_says_that_it_is_paused(office, act):
    await standing(office, Stage.FLOWING)
    await control.pause(office, ID, act)
    with pytest.raises(Reject, match="paused: as asked; resume or cancel it") as caught:
        await control.pause(office, ID, act)
    assert caught.value.code == "wrong_state"


async def test_a_batch_that_is_not_held_is_not_resumed(office, act):
    await standing(office, Stage.FLOWING)
    with pytest.raises(Reject, match="working in ONE: 0 of 4; it is running"):
        await control.resume(office, ID, act)


async def test_without_a_reason_the_actor_is_the_reason(office):
    await standing(office, Stage.FLOWING)
    nobody_says = OperatorAction(actor="ann@desk", reason="", now=office.clock.now())
    assert (await control.pause(office, ID, nobody_says)).hold_reason == "paused by ann@desk"
    assert (await control.cancel(office, ID, nobody_says)).error == "cancelled by ann@desk"


async def test_a_spent_budget_is_not_resumed_without_a_larger_one(office, act):
    batch = await opened(office, NAMES, budget=Budget(seconds=1.0, tokens=1))
    batch = await walked(office, batch, until=Stage.FLOWING)
    assert (await worked(office, batch, limit=1, cost=Cost(tokens_in=9))).hold is Hold.BUDGET
    with pytest.raises(Reject, match="larger budget of tokens") as caught:
        await control.resume(office, ID, act)
    assert caught.value.code == "budget_spent"
    with pytest.raises(Reject, match="tokens"):
        await control.resume(office, ID, act, BudgetChange(tokens=9))
    batch = await control.resume(office, ID, act, BudgetChange(tokens=10))
    assert (batch.hold, batch.budget) == (None, Budget(seconds=1.0, tokens=10))


async def test_a_limit_can_be_lifted(office, act):
    await standing(office, Stage.FLOWING, draft={"budget": Budget(seconds=9.0, money_micros=5)})
    await control.pause(office, ID, act)
    batch = await control.resume(office, ID, act, BudgetChange(seconds=None))
    assert batch.budget == Budget(seconds=None, money_micros=5)


@pytest.mark.parametrize(("said", "tier"), [("1_critical", 1), ("low", 4), ("5", 5)])
async def test_a_priority_has_many_spellings(office, act, said, tier):
    await standing(office, Stage.FLOWING)
    assert (await control.prioritise(office, ID, said, act)).tier == tier


async def test_an_unknown_priority_is_refused(office, act):
    await standing(office, Stage.FLOWING)
    with pytest.raises(Reject) as caught:
        await control.prioritise(office, ID, "urgent", act)
    assert caught.value.code == "unknown_tier"


@pytest.mark.parametrize("stage", ENDS)
async def test_what_has_ended_has_no_priority(office, act, stage):
    await standing(office, stage)
    with pytest.raises(Reject) as caught:
        await control.prioritise(office, ID, "high", act)
    assert caught.value.code == "wrong_state"


async def test_what_another_did_meanwhile_is_told(office, act, monkeypatch):
    await standing(office, Stage.DONE, failing={"a": "corrupt"})
    planned = control._plan_retry

    async def overtaken(*arguments):
        found = await planned(*arguments)
        monkeypatch.setattr(control, "_plan_retry", planned)
        await control.retry(office, ID, act)
        return found

    monkeypatch.setattr(control, "_plan_retry", overtaken)
    with pytest.raises(Reject, match="cannot be retried: working in ONE: 3 of 4") as caught:
        await control.retry(office, ID, act)
    assert caught.value.code == "wrong_state"
