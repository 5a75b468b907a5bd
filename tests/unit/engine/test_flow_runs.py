"""Whole batches that flow: real SQLite, real blobs, compute that answers as it is told."""

from collections import Counter

import msgspec
import pytest
from tests.situations.plans import phase, plan, product, step
from tests.unit.engine.conftest import SmallEngine

from quire.ledger.flow_values import first_number
from quire.ledger.port import TaskSelection
from quire.model.batch import FileOutcome, Stage
from quire.model.errors import Stale
from quire.model.files import Change, mark_of
from quire.model.plan import OnFailure, PlanUnit, TakenValue
from quire.model.work import MemberFile, Outcome, Report, StepResult, Value
from quire.testing.inline_compute import InlineCompute

ID = "0" * 26


class CallCompute(InlineCompute):
    """Asks `judge(call, order)`; it may give a Report's fields beyond outcome and result."""

    async def submit(self, call, orders):
        for order in orders:
            self.seen.append(order)
            self.called.append((call.step, order.file.path))
            outcome, result = self._judge(call, order)
            words = ("", "") if outcome is Outcome.DONE else (outcome.value, f"{call.step}: {outcome.value}")
            names = (order.batch_no, order.task_no, order.attempt)
            self._reports.append(Report(*names, outcome, 1.0, 0.0, "inline", result, *words))
        self._signal.set()


async def ignore(_batch):
    pass


class Runs:
    def __init__(self, small: SmallEngine) -> None:
        self.small = small
        self.called = []

    async def run(self, pipeline, names, judge=None, **changes):
        await self.submit(pipeline, names, **changes)
        return await self.carry_on(pipeline, judge)

    async def submit(self, pipeline, names, **changes):
        return await self.small.submit(pipeline, names, **changes)

    def loop(self, pipeline, judge=None, **options):
        loop = self.small.loop(pipeline, **options)
        compute = CallCompute(
            judge or (lambda *_: (Outcome.DONE, StepResult())), self.small.compute._signal, 100
        )
        compute.called = self.called
        self.small.dispatcher._compute = compute
        return loop

    async def carry_on(self, pipeline, judge=None):
        batch = await self.loop(pipeline, judge).run_batch(ID, ignore)
        assert batch.error is None
        return batch

    async def inputs(self, batch):
        return {one.path: one async for one in self._inputs(batch)}

    async def _inputs(self, batch):
        for one in await self.small.ledger.list_inputs(batch.no, after="", limit=1000):
            yield one

    async def files(self, batch):
        """(path, listed) of what is there at the end, inputs included."""
        rows = await self.small.database.read(
            lambda connection: connection.execute(
                "SELECT path, listed, tags FROM files WHERE batch_no = ? AND gone IS NULL AND role <> 'unit'"
                " ORDER BY path, tags",
                (batch.no,),
            ).fetchall()
        )
        return [(path, bool(listed)) for path, listed, _ in rows]


@pytest.fixture
def runs(small):
    return Runs(small)


async def test_documents_walk_through_the_phases_that_take_them(runs):
    two = plan(phase(step("one")), phase(step("two", "*.txt")), phase(step("three")))
    batch = await runs.run(two, ["a.txt", "b.bin"])
    assert batch.position.stage is Stage.DONE
    assert batch.status == "DONE"
    assert Counter(name for name, _ in runs.called) == {"plan.one": 2, "plan.two": 1, "plan.three": 2}
    assert {path: one.outcome for path, one in (await runs.inputs(batch)).items()} == {
        "a.txt": FileOutcome.DONE,
        "b.bin": FileOutcome.DONE,
    }
    assert {path: one.attempts for path, one in (await runs.inputs(batch)).items()} == {
        "a.txt": 3,
        "b.bin": 2,
    }


async def test_a_document_waits_for_nobody_else(runs):
    two = plan(phase(step("one")), phase(step("two")))
    batch = await runs.submit(two, [f"{number:03}.txt" for number in range(300)])
    loop = runs.loop(two, room=10)
    runs.small.dispatcher._compute._room = 10
    await loop.run_batch(ID, ignore)
    first = runs.called.index(("plan.two", runs.called[0][1]))
    assert first < 40
    assert len(runs.called) == 600
    assert (await runs.small.ledger.get_batch(batch.id)).position.stage is Stage.DONE


async def test_what_nobody_takes_is_skipped(runs):
    batch = await runs.run(plan(phase(step("one", "*.txt"))), ["a.txt", "b.bin"])
    inputs = await runs.inputs(batch)
    assert inputs["b.bin"].outcome is FileOutcome.SKIPPED
    assert inputs["b.bin"].error_class == "not_handled"


async def test_outputs_hang_join_or_replace(runs):
    def judge(call, order):
        if call.step == "plan.split":
            made = (product("p1.txt", Change.JOIN), product("p2.txt", Change.JOIN), product("note.json"))
            return Outcome.DONE, StepResult(products=made)
        if call.step == "plan.clean":
            made = msgspec.structs.replace(product("clean", Change.REPLACE), digest=order.file.path)
            return Outcome.DONE, StepResult(products=(made,))
        return Outcome.DONE, StepResult()

    split = plan(phase(step("split", "*.book")), phase(step("clean", "*.txt")), phase(step("last")))
    batch = await runs.run(split, ["a.book"], judge)
    assert await runs.files(batch) == [
        ("a.book", True),
        ("a.book.note.json", False),
        ("a.book.p1.txt.clean", True),
        ("a.book.p2.txt.clean", True),
    ]
    assert sorted(path for name, path in runs.called if name == "plan.last") == [
        "a.book",
        "a.book.p1.txt.clean",
        "a.book.p2.txt.clean",
    ]
    assert (await runs.inputs(batch))["a.book"].outcome is FileOutcome.DONE


async def test_new_tags_make_a_new_row(runs):
    def judge(call, _):
        return Outcome.DONE, StepResult(tags=("seen",) if call.step == "plan.tag" else ())

    batch = await runs.run(plan(phase(step("tag")), phase(step("use", "tag:seen"))), ["a.txt"], judge)
    assert [name for name, _ in runs.called] == ["plan.tag", "plan.use"]
    assert await runs.files(batch) == [("a.txt", True)]


async def test_failed_documents_pass_or_stop(runs):
    def judge(call, order):
        bad = order.file.path == "bad.txt" and call.step == "plan.one"
        return (Outcome.REJECTED, None) if bad else (Outcome.DONE, StepResult())

    batch = await runs.run(plan(phase(step("one")), phase(step("two"))), ["bad.txt", "good.txt"], judge)
    assert ("plan.two", "bad.txt") in runs.called
    inputs = await runs.inputs(batch)
    assert inputs["bad.txt"].outcome is FileOutcome.FAILED
    assert inputs["bad.txt"].error_class == "rejected"
    assert inputs["good.txt"].outcome is FileOutcome.DONE


async def test_a_step_that_stops_lets_its_document_visit_no_further_phase(runs):
    def judge(call, _):
        return (Outcome.REJECTED, None) if call.step == "plan.one" else (Outcome.DONE, StepResult())

    stopping = plan(phase(step("one", on_failure=OnFailure.STOP)), phase(step("two")))
    batch = await runs.run(stopping, ["a.txt"], judge)
    assert runs.called == [("plan.one", "a.txt")]
    assert (await runs.inputs(batch))["a.txt"].outcome is FileOutcome.FAILED


async def members_of(runs, stops, judge, names):
    """The documents of the batch's task, by path, as its step is given them."""
    given = []

    def judged(call, order):
        if call.step != "plan.all":
            return judge(call, order)
        given.append(order.file.key)
        return Outcome.DONE, StepResult()

    await runs.run(plan(phase(*stops), phase(step("all"), unit=PlanUnit.BATCH)), names, judged)
    listed = msgspec.json.decode(await runs.small.blobs.get(given[0]), type=list[MemberFile])
    return [(one.path, one.tags) for one in listed]


async def test_a_stopped_document_is_no_member_of_folders_and_of_the_batch(runs):
    given = {}

    def judge(call, order):
        if call.step != "plan.one":
            given[call.step, order.file.path] = order.file.key
        return (Outcome.REJECTED if order.file.path.endswith("bad.txt") else Outcome.DONE), None

    stops = plan(
        phase(step("one", on_failure=OnFailure.STOP)),
        phase(step("folder"), unit=PlanUnit.FOLDER),
        phase(step("all"), unit=PlanUnit.BATCH),
    )
    batch = await runs.run(stops, ["a/bad.txt", "a/good.txt", "b/bad.txt"], judge)
    members = {
        about: [one["path"] for one in msgspec.json.decode(await runs.small.blobs.get(key))]
        for about, key in given.items()
    }
    assert members == {
        ("plan.folder", "a"): ["a/good.txt"],
        ("plan.folder", ""): [],
        ("plan.all", ""): ["a/good.txt"],
    }
    assert (await runs.inputs(batch))["b/bad.txt"].outcome is FileOutcome.FAILED
    assert ("b/bad.txt", True) in await runs.files(batch), "it is handed over all the same"


async def test_what_stands_for_a_stopped_document_is_no_member_and_what_has_joined_is_one(runs):
    def judge(call, order):
        if call.step == "plan.bad" and order.file.path != "fine.txt":
            return Outcome.REJECTED, None
        if call.step == "plan.make":
            made = (product("new.txt", Change.REPLACE), product("more.txt", Change.JOIN))
            return Outcome.DONE, StepResult(products=made)
        return Outcome.DONE, StepResult(tags=("seen",))

    beside = (step("make", "x*"), step("tag", "!x*"), step("bad", on_failure=OnFailure.STOP))
    found = await members_of(runs, beside, judge, ["fine.txt", "x.txt", "y.txt"])
    assert found == [("fine.txt", ("seen",)), ("x.txt.more.txt", ())]


async def test_a_document_that_passes_a_failed_step_is_a_member(runs):
    failing = (step("one", on_failure=OnFailure.PASS),)
    found = await members_of(runs, failing, lambda *_: (Outcome.REJECTED, None), ["a.txt"])
    assert found == [("a.txt", ())]


async def test_failures_are_tried_again_and_counted(runs):
    tries = Counter()

    def judge(call, order):
        tries[call.step] += 1
        bad = call.step == "plan.one" and tries[call.step] < 3
        return (Outcome.ERRED, None) if bad else (Outcome.DONE, StepResult())

    batch = await runs.run(plan(phase(step("one")), phase(step("two"))), ["a.txt"], judge)
    assert tries == {"plan.one": 3, "plan.two": 1}
    assert (await runs.inputs(batch))["a.txt"].attempts == 4
    assert (await runs.inputs(batch))["a.txt"].outcome is FileOutcome.DONE


async def test_steps_side_by_side_are_joined_once_in_the_order_of_the_steps(runs):
    def judge(call, _):
        name = call.step.removeprefix("plan.")
        if name in {"left", "right"}:
            return Outcome.DONE, StepResult(products=(product(f"{name}.txt"),), value=Value(data=name))
        return Outcome.DONE, StepResult()

    takes = (TakenValue("left", ("left",)), TakenValue("right", ("right",)))
    group = plan(
        phase(step("left", gives_value=True), step("right", gives_value=True), name="BOTH"),
        phase(step("last", takes=takes)),
    )
    batch = await runs.run(group, ["a.txt", "b.txt"], judge)
    assert batch.position.stage is Stage.DONE
    assert await runs.files(batch) == [
        ("a.txt", True),
        ("a.txt.left.txt", False),
        ("a.txt.right.txt", False),
        ("b.txt", True),
        ("b.txt.left.txt", False),
        ("b.txt.right.txt", False),
    ]
    last = [order for order in runs.small.dispatcher._compute.seen if order.values]
    assert {name: value.data for name, value in last[0].values.items()} == {"left": "left", "right": "right"}
    assert len(last) == 2


async def test_a_failed_branch_fails_its_document_and_names_itself(runs):
    def judge(call, _):
        return (Outcome.REJECTED, None) if call.step == "plan.right" else (Outcome.DONE, StepResult())

    takes = (TakenValue("right", ("right",)),)
    group = plan(
        phase(step("left"), step("right", gives_value=True), name="BOTH"), phase(step("last", takes=takes))
    )
    batch = await runs.run(group, ["a.txt"], judge)
    one = (await runs.inputs(batch))["a.txt"]
    assert one.outcome is FileOutcome.FAILED
    assert one.reason == "right: plan.right: rejected"
    assert ("plan.last", "a.txt") not in runs.called
    failed = await runs.small.ledger.list_failed_tasks(batch.no, after=0, limit=10)
    assert {one.error_class for one in failed} == {"rejected", "input_missing"}


async def test_folders_wait_for_their_documents_and_for_the_folders_below(runs):
    given = {}

    def judge(call, order):
        if call.step == "plan.score":
            return Outcome.DONE, StepResult(value=Value(data=len(order.file.path)))
        given[order.file.path] = (order.file.key, [one.path for one in order.earlier])
        made = (product("overview.json"),)
        return Outcome.DONE, StepResult(products=made, value=Value(data=order.file.path))

    folders = plan(
        phase(step("score", gives_value=True)),
        phase(step("overview", gives_value=True), unit=PlanUnit.FOLDER),
    )
    batch = await runs.run(folders, ["a/b/x.txt", "a/y.txt", "a/z.txt"], judge)
    assert batch.position.stage is Stage.DONE
    assert [path for name, path in runs.called if name == "plan.overview"] == ["a/b", "a", ""]
    assert {path: below for path, (_, below) in given.items()} == {"a/b": [], "a": ["a/b"], "": ["a"]}
    members = msgspec.json.decode(await runs.small.blobs.get(given["a"][0]), type=list[MemberFile])
    assert [(one.path, one.values["score"].data) for one in members] == [("a/y.txt", 7), ("a/z.txt", 7)]
    assert [path for path, _ in await runs.files(batch)] == [
        "a/b/overview.json",
        "a/b/x.txt",
        "a/overview.json",
        "a/y.txt",
        "a/z.txt",
        "overview.json",
    ]


async def test_a_document_has_the_values_of_its_source_up_to_the_phase_that_made_it(runs):
    given = {}

    def judge(call, order):
        if call.step == "plan.all":
            given["members"] = order.file.key
            return Outcome.DONE, StepResult()
        made = (product("part.txt", Change.JOIN),) if call.step == "plan.one" else ()
        return Outcome.DONE, StepResult(products=made, value=Value(data=call.step))

    values = plan(
        phase(step("one", "a.txt", gives_value=True)),
        phase(step("two", "a.txt", gives_value=True)),
        phase(step("all"), unit=PlanUnit.BATCH),
    )
    await runs.run(values, ["a.txt"], judge)
    members = msgspec.json.decode(await runs.small.blobs.get(given["members"]), type=list[MemberFile])
    assert [(one.path, sorted(one.values)) for one in members] == [
        ("a.txt", ["one", "two"]),
        ("a.txt.part.txt", ["one"]),
    ]


async def test_outputs_of_folders_that_differ_in_case_are_marked_whichever_is_a_unit(runs):
    def judge(call, _):
        made = (product("sum.json"),) if call.step == "plan.all" else ()
        return Outcome.DONE, StepResult(products=made)

    folders = plan(phase(step("all", "*.txt"), unit=PlanUnit.FOLDER))
    batch = await runs.run(folders, ["A/x.bin", "a/y.txt", "ab/z.txt"], judge)
    made = [path for path, listed in await runs.files(batch) if not listed]
    marked = [path for path in made if path.startswith("a/")]
    assert [path for path in made if path not in marked] == ["ab/sum.json", "sum.json"]
    assert [len(path.split("/")[1].split(".")[0]) for path in marked] == [12]


async def test_a_report_of_a_batch_that_does_not_exist_is_nobodys(runs):
    one = plan(phase(step("one")))
    await runs.submit(one, ["a.txt"])
    loop = runs.loop(one)
    stray = Report(999, first_number(1) + 1, 1, Outcome.DONE, 1.0, 0.0, "forged", StepResult())
    runs.small.dispatcher._compute._reports.append(stray)
    batch = await loop.run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE


async def test_a_folder_without_documents_that_fails_is_told_of_the_input_that_stands_for_it(runs):
    def judge(_, order):
        return (Outcome.REJECTED, None) if order.file.path == "a" else (Outcome.DONE, StepResult())

    folders = plan(phase(step("all"), unit=PlanUnit.FOLDER))
    batch = await runs.run(folders, ["a/b/x.txt", "c/y.txt"], judge)
    one = (await runs.inputs(batch))["a/b/x.txt"]
    assert one.outcome is FileOutcome.FAILED
    assert [(end.done, end.failed, end.error_class) for end in one.steps] == [(1, 1, "rejected")]


async def test_who_was_overtaken_while_units_were_made_does_not_end_a_later_phase(runs, monkeypatch):
    two = plan(phase(step("one"), unit=PlanUnit.FOLDER), phase(step("two"), unit=PlanUnit.BATCH))
    ends = []
    end_gather = runs.small.ledger.end_gather

    async def overtaken(batch, *, waits_at, now):
        ends.append((batch, waits_at))
        if len(ends) == 2:
            seen, following = ends[0]
            with pytest.raises(Stale):
                await end_gather(seen, waits_at=following, now=now)
        return await end_gather(batch, waits_at=waits_at, now=now)

    monkeypatch.setattr(runs.small.ledger, "end_gather", overtaken)
    batch = await runs.run(two, ["a/x.txt"])
    assert batch.position.stage is Stage.DONE
    assert len(ends) == 2
    assert runs.called == [("plan.one", "a"), ("plan.one", ""), ("plan.two", "")]


async def test_a_success_right_behind_the_report_that_time_was_up_counts_and_is_followed_once(runs):
    two = plan(phase(step("one", max_attempts=1)), phase(step("two")))

    def judge(call, order):
        if call.step == "plan.two":
            return Outcome.DONE, StepResult()
        names = (order.batch_no, order.task_no, order.attempt)
        words = ("timed_out", "too slow")
        late = Report(*names, Outcome.TIMED_OUT, 1.0, 0.0, "inline", None, *words)
        runs.small.dispatcher._compute._reports.append(late)
        return Outcome.DONE, StepResult(products=(product("made.txt"),))

    batch = await runs.run(two, ["a.txt"], judge)
    assert (await runs.inputs(batch))["a.txt"].outcome is FileOutcome.DONE
    assert runs.called == [("plan.one", "a.txt"), ("plan.two", "a.txt")]
    assert await runs.files(batch) == [("a.txt", True), ("a.txt.made.txt", False)]


async def test_the_whole_batch_is_one_task(runs):
    whole = plan(phase(step("one", "*.txt")), phase(step("all"), unit=PlanUnit.BATCH), phase(step("after")))
    batch = await runs.run(whole, ["a/x.txt", "b.bin"])
    assert [path for name, path in runs.called if name == "plan.all"] == [""]
    assert {path: one.outcome for path, one in (await runs.inputs(batch)).items()} == {
        "a/x.txt": FileOutcome.DONE,
        "b.bin": FileOutcome.DONE,
    }


async def test_names_step_aside_for_other_inputs(runs):
    def judge(call, order):
        stem = order.file.name.rpartition(".")[0] or order.file.name
        made = (product("jpg", Change.JOIN, "image/jpeg", preferred=f"{stem}.jpg"),)
        return Outcome.DONE, StepResult(products=made)

    convert = plan(phase(step("convert", ["*.tif", "*.tiff"], renames=(".tif", ".tiff"))))
    batch = await runs.run(convert, ["a.tif", "a.tiff", "A.TIF", "b.tif", "c.tif", "c.jpg"], judge)
    paths = [path for path, _ in await runs.files(batch)]
    assert "b.jpg" in paths
    assert "c.tif.jpg" in paths
    assert "a.tiff.jpg" in paths
    marked = [path for path in paths if path.startswith(("a.tif.", "A.TIF."))]
    assert len(marked) == 2
    assert all(len(path.split(".")[2]) == 12 for path in marked)


async def test_a_step_that_asks_for_it_knows_how_its_outputs_will_be_marked(runs):
    expected = set()

    def judge(call, order):
        marks = [f".{mark_of(order.file.marked, at)}" if order.file.marked else "" for at in (0, 1)]
        expected.update(f"{order.file.path}{mark}.{name}" for mark, name in zip(marks, "mn", strict=True))
        return Outcome.DONE, StepResult(products=(product("m"), product("n")))

    linked = plan(phase(step("one", cache_by=("marked",))))
    batch = await runs.run(linked, ["a.txt", "A.txt", "x/b.txt", "X/b.txt", "c.txt"], judge)
    made = {path for path, listed in await runs.files(batch) if not listed}
    assert made == expected
    assert {path for path in made if len(path) == len("c.txt.m")} == {"c.txt.m", "c.txt.n"}


async def test_what_takes_the_place_of_an_input_in_another_case_is_not_beside_it(runs):
    def judge(call, order):
        if call.step == "plan.convert":
            replaced = product("tif", Change.REPLACE, "image/tiff", preferred="scan.tif")
            return Outcome.DONE, StepResult(products=(replaced,))
        return Outcome.DONE, StepResult(products=(product("words.json"),))

    convert = plan(phase(step("convert", "*.TIF", renames=(".tif",))), phase(step("count")))
    batch = await runs.run(convert, ["scan.TIF"], judge)
    assert [path for path, _ in await runs.files(batch)] == ["scan.tif", "scan.tif.words.json"]


async def test_two_outputs_of_one_name_fail_their_task(runs):
    def judge(*_):
        return Outcome.DONE, StepResult(products=(product("same.txt"), product("same.txt")))

    batch = await runs.run(plan(phase(step("one"))), ["a.txt"], judge)
    one = (await runs.inputs(batch))["a.txt"]
    assert (one.outcome, one.error_class) == (FileOutcome.FAILED, "name_twice")
    assert await runs.files(batch) == [("a.txt", True)]


async def test_only_one_branch_replaces(runs):
    def judge(call, _):
        return Outcome.DONE, StepResult(products=(product(call.step, Change.REPLACE),))

    batch = await runs.run(plan(phase(step("one"), step("two"), name="BOTH")), ["a.txt"], judge)
    one = (await runs.inputs(batch))["a.txt"]
    assert (one.outcome, one.error_class) == (FileOutcome.FAILED, "two_replacements")
    assert await runs.files(batch) == [("a.txt.plan.one", True)]


async def test_large_folders_are_listed_before_their_first_task(runs, monkeypatch):
    monkeypatch.setattr("quire.engine.flow_moves.ROWS_AT_ONCE", 3)
    names = [f"big/{number:02}.txt" for number in range(10)] + ["small/a.txt", "small/b.txt", "top.txt"]
    batch = await runs.run(plan(phase(step("one"))), names)
    assert batch.position.stage is Stage.DONE
    assert sorted(path for _, path in runs.called) == sorted(names)
    assert {one.outcome for one in (await runs.inputs(batch)).values()} == {FileOutcome.DONE}


async def test_a_batch_without_files_ends(runs):
    assert (await runs.run(plan(phase(step("one"))), [])).position.stage is Stage.DONE


async def test_phases_start_once_and_in_order(runs):
    three = plan(phase(step("one")), phase(step("two", "*.none")), phase(step("three")))
    batch = await runs.run(three, ["a.txt", "b.txt"])
    events = await runs.small.ledger.list_events(batch.no, after=0, limit=100)
    started = [data["phase"] for _, _, kind, data in events if kind == "phase_started"]
    assert started == ["ONE", "TWO", "THREE"]
    assert events[-1][2] == "batch_done"


async def test_equal_work_is_done_once(runs):
    """At the same time, and later in another batch."""
    one = plan(phase(step("one")))
    batch = await runs.run(one, ["a.txt", "b.txt"], digest="same")
    assert runs.called == [("plan.one", "a.txt")]
    assert {each.outcome for each in (await runs.inputs(batch)).values()} == {FileOutcome.DONE}
    await runs.submit(one, ["c.txt"], batch_id="1" * 26, digest="same")
    later = await runs.loop(one).run_batch("1" * 26, ignore)
    assert later.position.stage is Stage.DONE
    assert runs.called == [("plan.one", "a.txt")]
    (counts,) = await runs.small.ledger.count_tasks(later.no)
    assert (counts.total, counts.done, counts.cached) == (1, 1, 1)


class TestRetrying:
    """A new round of a batch that has ended, and one that goes on after it was cancelled."""

    async def retry(self, runs, batch, pipeline, judge=None, **selection):
        names = [one.name for one in pipeline.phases]
        waiting = [number for number, one in enumerate(pipeline.phases, start=1) if one.waits]
        action = runs.small.act()
        chosen = TaskSelection(**selection)
        await runs.small.ledger.retry_flow(batch, chosen, action, waiting=waiting, names=names)
        return await runs.carry_on(pipeline, judge)

    async def test_a_stopped_document_that_succeeds_in_a_new_round_is_a_member_then(self, runs):
        listed = []

        def judge(call, order):
            if call.step == "plan.all":
                listed.append(order.file.key)
                return Outcome.DONE, None
            bad = call.step == "plan.one" and not again and order.file.path == "a.txt"
            bad = bad or (call.step == "plan.last" and order.file.path == "b.txt")
            return (Outcome.REJECTED if bad else Outcome.DONE), None

        again = []
        line = plan(
            phase(step("one", on_failure=OnFailure.STOP)),
            phase(step("all"), unit=PlanUnit.BATCH),
            phase(step("last", on_failure=OnFailure.STOP)),
        )
        batch = await runs.run(line, ["a.txt", "b.txt"], judge)
        again.append(True)
        await self.retry(runs, batch, line, judge)
        members = [
            [one["path"] for one in msgspec.json.decode(await runs.small.blobs.get(key))] for key in listed
        ]
        assert members == [["b.txt"], ["a.txt", "b.txt"]]

    async def test_only_what_failed_runs_again_and_goes_on(self, runs):
        two = plan(phase(step("one")), phase(step("two")))

        def judge(call, order):
            bad = order.file.path == "bad.txt" and call.step == "plan.one"
            return (Outcome.REJECTED, None) if bad else (Outcome.DONE, StepResult())

        batch = await runs.run(two, ["bad.txt", "good.txt"], judge)
        runs.called.clear()
        again = await self.retry(runs, batch, two)
        assert runs.called == [("plan.one", "bad.txt"), ("plan.two", "bad.txt")]
        assert again.position.stage is Stage.DONE
        assert again.position.round == 2
        inputs = await runs.inputs(again)
        assert {one.outcome for one in inputs.values()} == {FileOutcome.DONE}
        assert inputs["bad.txt"].attempts == 4
        assert not await runs.small.ledger.list_failed_tasks(batch.no, limit=10)
        counts = await runs.small.ledger.count_tasks(batch.no)
        assert [(one.total, one.done, one.failed) for one in counts] == [(2, 2, 0), (2, 2, 0)]

    async def test_phases_of_a_later_round_are_told_with_its_number(self, runs):
        three = plan(phase(step("one")), phase(step("two")), phase(step("three")))

        def judge(call, _):
            return (Outcome.REJECTED, None) if call.step == "plan.two" else (Outcome.DONE, StepResult())

        batch = await runs.run(three, ["a.txt"], judge)
        await self.retry(runs, batch, three)
        events = await runs.small.ledger.list_events(batch.no, limit=99)
        told = [(data["phase"], data["round"]) for _, _, kind, data in events if kind == "phase_started"]
        assert told == [("ONE", 1), ("TWO", 1), ("THREE", 1), ("TWO", 2), ("THREE", 2)]

    async def test_what_is_not_tried_again_still_speaks_against_an_input(self, runs):
        """A folder of an earlier phase, and a step beside others, which is named as before."""
        fails = {"plan.all", "plan.right", "plan.last"}

        def judge(call, _):
            return (Outcome.REJECTED if call.step in fails else Outcome.DONE), StepResult()

        mixed = plan(
            phase(step("all", "*.a"), unit=PlanUnit.FOLDER),
            phase(step("left", "*.b"), step("right", "*.b"), name="BOTH"),
            phase(step("last")),
        )
        batch = await runs.run(mixed, ["x/one.a", "y/two.b"], judge)
        before = await runs.inputs(batch)
        assert before["y/two.b"].reason.startswith("right: ")
        fails.remove("plan.last")
        failed = await runs.small.ledger.list_failed_tasks(batch.no, limit=9)
        assert ("LAST", "x/one.a") in {(one.phase, one.path) for one in failed}
        again = await self.retry(runs, batch, mixed, judge, path="x/one.a")
        after = await runs.inputs(again)
        assert (after["x/one.a"].outcome, after["x/one.a"].error_class) == (FileOutcome.FAILED, "rejected")
        assert after["x/one.a"].reason == before["x/one.a"].reason
        assert after["y/two.b"] == before["y/two.b"]

    async def test_what_was_made_since_is_withdrawn(self, runs):
        fails = [True]

        def judge(call, order):
            if call.step == "plan.one" and fails[0]:
                return Outcome.REJECTED, None
            if call.step == "plan.two":
                return Outcome.DONE, StepResult(products=(product("old.txt" if fails[0] else "new.txt"),))
            return Outcome.DONE, StepResult(value=Value(data=1))

        takes = (TakenValue("one", ("one",), required=False),)
        two = plan(phase(step("one", gives_value=True)), phase(step("two", takes=takes)))
        batch = await runs.run(two, ["a.txt"], judge)
        assert ("a.txt.old.txt", False) in await runs.files(batch)
        fails[0] = False
        again = await self.retry(runs, batch, two, judge)
        assert await runs.files(again) == [("a.txt", True), ("a.txt.new.txt", False)]

    async def test_a_branch_runs_again_alone_and_the_join_is_applied_anew(self, runs):
        fails = [True]

        def judge(call, _):
            if call.step == "plan.right" and fails[0]:
                return Outcome.REJECTED, None
            return Outcome.DONE, StepResult(products=(product(call.step),))

        group = plan(phase(step("left"), step("right"), name="BOTH"), phase(step("last")))
        batch = await runs.run(group, ["a.txt"], judge)
        assert [path for path, _ in await runs.files(batch)] == [
            "a.txt",
            "a.txt.plan.last",
            "a.txt.plan.left",
        ]
        fails[0] = False
        runs.called.clear()
        again = await self.retry(runs, batch, group, judge)
        assert runs.called == [("plan.right", "a.txt"), ("plan.last", "a.txt")]
        assert [path for path, _ in await runs.files(again)] == [
            "a.txt",
            "a.txt.plan.last",
            "a.txt.plan.left",
            "a.txt.plan.right",
        ]
        assert (await runs.inputs(again))["a.txt"].outcome is FileOutcome.DONE

    async def test_folders_above_are_made_anew(self, runs):
        fails = [True]

        def judge(call, order):
            bad = order.file.path == "a/bad.txt" and fails[0] and call.step == "plan.one"
            return (Outcome.REJECTED, None) if bad else (Outcome.DONE, StepResult(value=Value(data=1)))

        folders = plan(phase(step("one", gives_value=True)), phase(step("all"), unit=PlanUnit.FOLDER))
        batch = await runs.run(folders, ["a/bad.txt", "b/good.txt"], judge)
        fails[0] = False
        runs.called.clear()
        again = await self.retry(runs, batch, folders, judge)
        assert again.position.stage is Stage.DONE
        assert runs.called[:2] == [("plan.one", "a/bad.txt"), ("plan.all", "a")]
        assert {one.outcome for one in (await runs.inputs(again)).values()} == {FileOutcome.DONE}

    async def test_a_failed_folder_runs_again(self, runs):
        fails = [True]

        def judge(call, order):
            failing = fails[0] and (call.step, order.file.path) == ("plan.all", "a")
            return (Outcome.REJECTED, None) if failing else (Outcome.DONE, StepResult())

        folders = plan(phase(step("one")), phase(step("all"), unit=PlanUnit.FOLDER))
        batch = await runs.run(folders, ["a/x.txt", "a/y.txt", "b/z.txt"], judge)
        assert {path: one.outcome for path, one in (await runs.inputs(batch)).items()} == {
            "a/x.txt": FileOutcome.FAILED,
            "a/y.txt": FileOutcome.FAILED,
            "b/z.txt": FileOutcome.DONE,
        }
        fails[0] = False
        runs.called.clear()
        again = await self.retry(runs, batch, folders, judge)
        assert again.position.stage is Stage.DONE
        assert ("plan.all", "b") not in runs.called
        assert {one.outcome for one in (await runs.inputs(again)).values()} == {FileOutcome.DONE}

    async def test_a_cancelled_batch_goes_on(self, runs):
        two = plan(phase(step("one")), phase(step("two")))
        batch = await runs.submit(two, ["a.txt", "b.txt"])
        loop = runs.loop(two)

        async def cancel(seen):
            now = await runs.small.ledger.get_batch(seen.id)
            if now.position.stage is Stage.FLOWING and len(runs.called) >= 2:
                await runs.small.ledger.cancel(batch.no, runs.small.act())

        cancelled = await loop.run_batch(ID, cancel)
        assert cancelled.position.stage is Stage.CANCELLED
        await runs.small.ledger.reopen(batch.no, runs.small.act(), status="ONE")
        ended = await runs.carry_on(two)
        assert ended.position.stage is Stage.DONE
        assert {one.outcome for one in (await runs.inputs(ended)).values()} == {FileOutcome.DONE}
