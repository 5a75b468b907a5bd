"""The plain model itself, by small cases: the walk, side by side, values, failures, folders, orders."""

import pytest

from quire.model.plan import OnFailure, TakenValue
from quire.model.work import StepResult
from tests.simulation.flow.endings import Failure
from tests.simulation.flow.tables import (
    batch,
    ending,
    ends,
    file,
    folders,
    gives,
    made,
    output,
    paths,
    phase,
    plan,
    step,
    visits,
)

BROKEN = Failure("broken")
STOP = OnFailure.STOP


def test_a_document_visits_the_phases_that_accept_it():
    line = plan(step("one", "*.txt"), step("two", "*.tif"), step("three", ("*.txt", "*.tif")))
    found = ending(line, ["a.txt", "b.tif", "c.bin"], {})
    assert visits(found) == ["one a.txt", "two b.tif", "three a.txt", "three b.tif"]
    assert ends(found) == {"a.txt": "done", "b.tif": "done", "c.bin": "skipped"}
    assert found.inputs[2].error_class == "not_handled"


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("text/plain", ["one a.txt"]),
        ("image/*", ["one b.tif"]),
        ("config:lang=de", ["one b.tif"]),
        ("tag:odd", ["one a.txt"]),
        ("!tag:odd", ["one b.tif"]),
    ],
)
def test_types_tags_and_configuration_decide_what_is_accepted(pattern, taken):
    assert (
        visits(ending(plan(step("one", pattern)), [file("a.txt", "odd"), file("b.tif", lang="de")], {}))
        == taken
    )


@pytest.mark.parametrize(
    ("change", "there", "taken"),
    [
        ("hang", ["x.txt", "x.txt.a.txt"], ["one x.txt", "two x.txt"]),
        ("join", ["x.txt", "x.txt.a.txt"], ["one x.txt", "two x.txt", "two x.txt.a.txt"]),
        ("replace", ["x.txt.a.txt"], ["one x.txt", "two x.txt.a.txt"]),
    ],
)
def test_outputs_hang_join_or_replace(change, there, taken):
    found = ending(plan("one", "two"), ["x.txt"], {"one": gives(output("a.txt", change, "new"))})
    assert (paths(found), visits(found)) == (there, taken)
    made_row = found.files[-1]
    assert (made_row.listed, made_row.file.tags, made_row.role) == (change != "hang", ("new",), "made")
    assert made_row.file.source_file == "x.txt"


def test_what_joins_begins_in_the_next_phase():
    line = plan(step("one", "x.txt"), step("two", "*.b.txt"), "three")
    found = ending(line, ["x.txt"], {"one": gives(output("a.txt", "join"), output("b.txt", "join"))})
    assert visits(found) == [
        "one x.txt",
        "two x.txt.b.txt",
        *("three x.txt", "three x.txt.a.txt", "three x.txt.b.txt"),
    ]


def test_a_branch_may_replace_a_document_by_several():
    found = ending(
        plan("one", "two"), ["x.txt"], {"one": gives(output("a.txt", "replace"), output("b.txt", "replace"))}
    )
    assert paths(found) == ["x.txt.a.txt", "x.txt.b.txt"]
    assert visits(found)[1:] == ["two x.txt.a.txt", "two x.txt.b.txt"]


def test_the_second_branch_that_replaces_has_failed():
    replaces = gives(output("a.txt", "replace"), value=1, tags=("odd",))
    line = plan(phase("one", "two"), "three")
    found = ending(line, ["x.txt"], {"one": replaces, "two": replaces})
    assert paths(found) == ["x.txt.a.txt"]
    assert list(found.files[0].values) == ["one"]
    assert ends(found) == {"x.txt": "failed two two_replacements"}
    assert visits(found)[2:] == ["three x.txt.a.txt"]


def test_a_branch_that_broke_a_rule_has_not_replaced():
    twice = gives(output("a.txt", "replace"), output("a.txt"))
    found = ending(
        plan(phase("one", "two")), ["x.txt"], {"one": twice, "two": gives(output("b.txt", "replace"))}
    )
    assert paths(found) == ["x.txt.b.txt"]
    assert ends(found) == {"x.txt": "failed one name_twice"}


def test_new_tags_make_a_new_row_that_walks_on():
    line = plan(step("one", "!tag:seen"), step("two", "tag:seen"), step("three", "tag:seen"))
    found = ending(
        line, [file("x.txt", "odd")], {"one": gives(tags=("seen", "odd")), "two": gives(tags=("seen",))}
    )
    assert visits(found) == ["one x.txt", "two x.txt", "three x.txt"]
    assert [(row.path, row.file.tags, row.born, row.role) for row in found.files] == [
        ("x.txt", ("odd", "seen"), 1, "")
    ]
    assert found.inputs[0].made == ()


def test_tags_for_a_document_that_was_replaced_are_lost():
    found = ending(
        plan(phase("one", "two")),
        ["x.txt"],
        {"one": gives(output("a.txt", "replace")), "two": gives(tags=("t",))},
    )
    assert [(row.path, row.file.tags) for row in found.files] == [("x.txt.a.txt", ())]


def test_values_go_with_the_document_and_with_all_that_comes_of_it():
    line = plan("one", phase("two", "deux"), step("three", takes=("one", "two", "deux")))
    found = ending(
        line,
        ["x.txt"],
        {
            "one": gives(value=1),
            "two x.txt": gives(output("a.txt", "join"), value=2),
            "deux x.txt": gives(output("b.txt", "replace"), value=3),
        },
    )
    given = {task.path: {name: one.data for name, one in task.values.items()} for task in found.tasks[3:]}
    values = {"one": 1, "two": 2, "deux": 3}
    assert given == {"x.txt.a.txt": values, "x.txt.b.txt": values}


def test_a_step_is_given_only_the_values_that_it_takes():
    line = plan("one", "two", step("three", takes=("two",)))
    found = ending(line, ["x.txt"], {"one": gives(value=1), "two": gives(value=2)})
    assert list(found.tasks[-1].values) == ["two"]


def test_a_step_without_a_value_that_it_needs_is_not_run():
    line = plan(
        "one", step("two", takes=("one",)), step("three", takes=(TakenValue("one", ("one",), False),))
    )
    found = ending(line, ["x.txt"], {"two": lambda _: pytest.fail("it must not run")})
    assert [task.failure and (task.failure.error_class, task.failure.reason) for task in found.tasks] == [
        *(None, ("input_missing", "one"), None)
    ]
    assert ends(found) == {"x.txt": "failed two input_missing"}


def test_of_branches_those_are_given_that_are_there():
    every = ("one", "two")
    line = plan(phase("one", "two"), step("three", takes=(TakenValue("all", every),)))
    found = ending(line, ["x.txt"], {"one": BROKEN, "two": gives(value=2)})
    assert list(found.tasks[-1].values) == ["two"]
    assert ends(found) == {"x.txt": "failed one broken"}
    found = ending(line, ["x.txt"], {"one": BROKEN, "two": BROKEN})
    assert [task.failure and task.failure.error_class for task in found.tasks] == [
        *("broken", "broken", "input_missing")
    ]


@pytest.mark.parametrize(("on_failure", "more"), [(OnFailure.PASS, ["two x.txt"]), (STOP, [])])
def test_a_document_that_fails_passes_or_stops(on_failure, more):
    found = ending(plan(step("one", on_failure=on_failure), "two"), ["x.txt"], {"one": BROKEN})
    assert visits(found) == ["one x.txt", *more]
    assert ends(found) == {"x.txt": "failed one broken"}
    assert paths(found) == ["x.txt"]


def test_stopping_acts_after_all_branches_and_keeps_what_they_made():
    line = plan(phase(step("one", on_failure=STOP), "two"), "three")
    found = ending(line, ["x.txt"], {"one": BROKEN, "two": gives(output("a.txt", "join"), output("b.txt"))})
    assert visits(found) == ["one x.txt", "two x.txt", "three x.txt.a.txt"]
    assert paths(found) == ["x.txt", "x.txt.a.txt", "x.txt.b.txt"]
    found = ending(line, ["x.txt"], {"one": BROKEN, "two": gives(output("a.txt", "replace"))})
    assert (visits(found)[2:], paths(found)) == ([], ["x.txt.a.txt"])


def test_the_first_failure_is_the_one_of_the_lowest_phase_path_and_branch():
    joins = gives(output("b.txt", "join"), output("a.txt", "join"))
    line = plan(step("one", "x.txt"), phase(step("two", "*.b.txt"), step("three", "*.?.txt")), "four")
    results = {"one": joins, "three": BROKEN, "two": Failure("bad"), "four": Failure("late")}
    assert ends(ending(line, ["x.txt"], results)) == {"x.txt": "failed three broken"}
    del results["three"]
    assert ends(ending(line, ["x.txt"], results)) == {"x.txt": "failed two bad"}


def test_every_folder_with_a_document_and_every_one_above_is_a_unit():
    line = plan(folders(step("sum", "*.txt")))
    found = ending(line, ["a/b/c/x.txt", "a/b/c/w.txt", "d/y.tif", "z.txt"], {})
    assert [(task.path, task.members) for task in found.tasks] == [
        ("", ("z.txt",)),
        ("a", ()),
        ("a/b", ()),
        ("a/b/c", ("a/b/c/w.txt", "a/b/c/x.txt")),
    ]
    assert ends(found)["d/y.tif"] == "skipped"
    assert ends(found)["z.txt"] == "done"
    assert ending(plan(folders(step("sum", "*.gif"))), ["a/x.txt"], {}).tasks == ()


def test_a_folder_is_given_the_results_of_the_folders_right_below():
    seen = {}

    def count(work):
        below = sum(one.result.value.data for one in work.earlier)
        seen[work.file.path] = [one.path for one in work.earlier]
        return gives(value=below + len(work.members))

    found = ending(plan(folders("sum")), ["a/b/x.txt", "a/c/x.txt", "a-/x.txt", "y.txt"], {"sum": count})
    assert seen == {"": ["a", "a-"], "a": ["a/b", "a/c"], "a/b": [], "a/c": [], "a-": []}
    assert found.tasks[0].result.value.data == 4
    found = ending(plan(folders("sum")), ["a/b/x.txt", "y.txt"], {"sum": count, "sum a": BROKEN})
    assert (seen[""], found.tasks[0].result.value.data) == ([], 1)


def test_members_come_by_path_with_their_values():
    seen = []
    line = plan("one", folders("sum"), "two")
    found = ending(
        line,
        ["b.txt", "a.txt"],
        {
            "one a.txt": gives(output("z.txt", "join"), value=1),
            "one b.txt": gives(output("c.txt"), value=2),
            "sum": lambda work: seen.extend(work.members) or StepResult(),
            "two": gives(value=3),
        },
    )
    assert [(one.path, {name: value.data for name, value in one.values.items()}) for one in seen] == [
        ("a.txt", {"one": 1}),
        ("a.txt.z.txt", {"one": 1}),
        ("b.txt", {"one": 2}),
    ]
    assert found.tasks[2].members == ("a.txt", "a.txt.z.txt", "b.txt")


def test_what_a_folder_makes_walks_on_as_a_document_of_its_first_member():
    line = plan(folders("sum"), step("two", "*.json"))
    results = {"sum": gives(output("o.json", "replace"), value=7), "two": Failure("bad")}
    found = ending(line, ["a/b/x.txt", "a/b/c/y.txt"], results)
    assert made(found) == ["o.json", "a/o.json", "a/b/o.json", "a/b/c/o.json"]
    assert [row.values["sum"].data for row in found.files if row.born] == [7, 7, 7, 7]
    assert ends(found) == {"a/b/x.txt": "failed two bad", "a/b/c/y.txt": "failed two bad"}
    roots = {row.path: row.root for row in found.files}
    assert roots["o.json"] == roots["a/o.json"] == roots["a/b/o.json"] == "a/b/x.txt"
    assert roots["a/b/c/o.json"] == "a/b/c/y.txt"


def test_a_folder_that_fails_fails_its_members_only():
    found = ending(plan(folders("sum")), ["a/x.txt", "b/y.txt", "z.txt"], {"sum a": BROKEN})
    assert ends(found) == {"a/x.txt": "failed sum broken", "b/y.txt": "done", "z.txt": "done"}


def test_an_empty_folder_that_fails_fails_the_first_document_below():
    found = ending(plan(folders("sum")), ["a/b/y.txt", "a/b/x.txt", "a/c/w.txt"], {"sum a": BROKEN})
    assert ends(found) == {"a/b/x.txt": "failed sum broken", "a/b/y.txt": "done", "a/c/w.txt": "done"}


def test_the_batch_is_one_unit_of_all_accepted_documents():
    found = ending(plan(batch(step("all", "*.txt"))), ["b/x.txt", "a.txt", "c.tif"], {"all": BROKEN})
    assert [(task.path, task.members) for task in found.tasks] == [("", ("a.txt", "b/x.txt"))]
    assert ends(found) == {"a.txt": "failed all broken", "b/x.txt": "failed all broken", "c.tif": "skipped"}
    assert ending(plan(batch(step("all", "*.gif"))), ["a.txt"], {}).tasks == ()


def test_folder_steps_take_what_the_same_folder_was_given_before():
    line = plan(folders("sum"), folders(step("more", takes=("sum",))))
    found = ending(line, ["a/x.txt", "b/y.txt"], {"sum a": gives(value=1), "sum ": gives(value=2)})
    assert [(task.path, task.failure is None) for task in found.tasks[3:]] == [
        *(("", True), ("a", True), ("b", False))
    ]
    assert ends(found)["b/y.txt"] == "failed more input_missing"


def test_a_stopped_document_is_not_among_those_of_its_folder():
    line = plan(step("one", "x.txt", on_failure=STOP), folders("sum"))
    found = ending(line, ["x.txt", "y.txt"], {"one": BROKEN})
    assert found.tasks[-1].members == ("y.txt",)


def test_the_list_that_is_handed_over_goes_by_folder_and_path():
    found = ending(
        plan(step("one", "z.txt")),
        ["z.txt", "b/a.txt", "a/b/c.txt", "a/z.txt", "a-/q.txt"],
        {"one": gives(output("h.txt"))},
    )
    assert [row.path for row in found.manifest] == ["z.txt", "a/z.txt", "a-/q.txt", "a/b/c.txt", "b/a.txt"]
