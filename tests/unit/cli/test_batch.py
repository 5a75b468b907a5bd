"""`quire batch`: what is printed where, in which shape, and with which exit code."""

import asyncio
import csv
import io
import json
import os
from functools import partial

import pytest
from tests.situations.batches import TWO_PHASES, opened, walked, worked
from typer.testing import CliRunner

from quire.assembly.components import open_components
from quire.cli.app import app
from quire.cli.batch import control
from quire.ledger.port import OperatorAction
from quire.model.batch import BatchState, Budget, Stage
from quire.model.cost import Cost
from quire.settings import Settings
from quire.system import user_at_host

NAMES = ["a", "b", "c"]
ID = "0" * 26
EVIL = "\x1b[31mred\x1b[0m\n[bold]x[/bold]\u202e.tif"
FORMULA = "=cmd|' /C calc'!A0"
pipelines = {TWO_PHASES.name: TWO_PHASES}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("QUIRE_")]:
        monkeypatch.delenv(name)
    opener = partial(open_components, pipelines=pipelines)
    monkeypatch.setattr("quire.assembly.components.open_components", opener)
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def quire(home):
    def run(*arguments, answer=None):
        return CliRunner().invoke(app, ["batch", *arguments, "--home", str(home)], input=answer)

    return run


@pytest.fixture
def within(home):
    """Do something in the same home, as another process would."""

    def do(work):
        async def use_components():
            async with open_components(Settings(home=home), pipelines=pipelines) as components:
                return await work(components)

        return asyncio.run(use_components())

    return do


@pytest.fixture
def made(within):
    """A batch, walked as far as wanted."""

    def make(names=NAMES, *, failing=None, until=Stage.DONE, **changes):
        async def work(components):
            batch = await opened(components, names, **changes)
            if until is Stage.QUEUED:
                return batch
            return await walked(components, batch, failing=failing, until=until)

        return within(work)

    return make


def told(ran):
    """The class of the error that ended a command with --json."""
    assert ran.exit_code == 1
    return json.loads(ran.stdout)["error"]["class"]


def test_an_empty_home_has_no_batches(quire):
    ran = quire("list")
    assert (ran.exit_code, ran.stdout) == (0, "No batches.\n")
    assert json.loads(quire("list", "--json").stdout) == {"batches": []}


def test_a_home_that_is_not_there_is_not_made(quire, tmp_path):
    ran = CliRunner().invoke(app, ["batch", "list", "--home", str(tmp_path / "typo")])
    assert ran.exit_code == 1
    assert "--home" in ran.stderr
    assert not (tmp_path / "typo").exists()


def test_the_list_fits_into_80_columns(quire, made):
    made(failing={"a": "corrupt"})
    made(batch_id="1" * 26, until=Stage.FLOWING)
    ran = quire("list")
    assert ran.exit_code == 0
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "working in ONE: 0 of 3" in lines[1]
    assert "done, 1 failed" in lines[2]


def test_the_list_as_json_has_its_fields(quire, made):
    made(tenant="archive")
    (one,) = json.loads(quire("list", "--json").stdout)["batches"]
    assert (one["batch_id"], one["status"], one["state"], one["tenant"]) == (ID, "DONE", "done", "archive")
    assert one["summary"] == "done"
    assert "no" not in one


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--all"], "210"),
        (["--running"], "2"),
        (["--ended"], "10"),
        (["--state", "waiting"], "2"),
        (["--state", "done"], "10"),
        (["--state", "done", "--tenant", "x"], "1"),
        (["--state", "held"], ""),
        (["--phase", "ONE"], ""),
        (["--tenant", "x"], "1"),
        (["--limit", "2"], "21"),
    ],
)
def test_the_list_is_filtered(quire, made, options, found):
    made()
    made(batch_id="1" * 26, tenant="x")
    made(batch_id="2" * 26, until=Stage.QUEUED)
    listed = json.loads(quire("list", *options, "--json").stdout)["batches"]
    assert "".join(one["batch_id"][0] for one in listed) == found


def test_a_long_list_is_read_in_pages(quire, made, monkeypatch):
    monkeypatch.setattr("quire.cli.batch.commands.PAGE", 2)
    for number in range(5):
        made([], batch_id=f"{number:026d}", until=Stage.QUEUED)
    listed = json.loads(quire("list", "--json", "--limit", "4").stdout)["batches"]
    assert [int(one["batch_id"]) for one in listed] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--all", "--running"],
        ["list", "--limit", "0"],
        ["list", "--state", "DONE"],
        ["list", "--state", "lost"],
        ["list", "--status", "DONE"],
        ["list", "--phase", "NOWHERE"],
        ["show"],
        ["files", ID, "--state", "lost"],
        ["files", ID, "--json", "--csv"],
        ["files", ID, "--file", "a", "--csv"],
        ["files", ID, "--file", "a", "--state", "done"],
        ["priority", ID],
        ["resume", ID, "--budget-tokens", "1.5"],
        ["resume", ID, "--budget-money", "much"],
        ["resume", ID, "--budget-seconds=-1"],
        ["export", ID],
        ["nonsense"],
    ],
)
def test_what_is_not_understood_ends_with_2(quire, arguments):
    assert quire(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("option", "known"),
    [(("--state", "DONE"), [state.value for state in BatchState]), (("--phase", "NOWHERE"), ["ONE", "TWO"])],
)
def test_an_unknown_filter_is_refused_with_those_that_are_known(quire, made, option, known):
    made()
    ran = quire("list", *option)
    assert ran.exit_code == 2
    assert all(word in ran.stderr for word in known), ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["files"],
        ["files", "--file", "a"],
        ["events"],
        ["retry"],
        ["cancel"],
        ["pause"],
        ["resume"],
        ["reset"],
        ["export", "--out", "x"],
    ],
)
def test_an_unknown_batch_ends_with_1_and_says_so(quire, made, arguments):
    command, *options = arguments
    ran = quire(command, "nobody", *options)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "nobody" in ran.stderr
    assert told(quire(command, "nobody", *options, "--json")) == "unknown_batch"


def test_a_batch_is_shown_within_80_columns(quire, made):
    made(
        ["a" * 150, "b"],
        failing={"a" * 150: "corrupt"},
        tenant="archive",
        budget=Budget(money_micros=5_000_000),
    )
    ran = quire("show", ID)
    assert ran.exit_code == 0
    assert max(map(len, ran.stdout.splitlines())) <= 80
    for word in (ID, "done, 1 failed", "archive", "5 money", "ONE", "TWO", "corrupt 1"):
        assert word in ran.stdout


def test_a_batch_is_shown_as_the_contract_says(quire, made):
    made(failing={"a": "corrupt"})
    shown = json.loads(quire("show", ID, "--json").stdout)
    assert set(shown) >= {
        "batch_id",
        "status",
        "progress",
        "started_at",
        "updated_at",
        "completed_at",
        "phases",
    }
    assert set(shown["progress"]) == {"tasks_total", "tasks_completed", "tasks_failed"}
    assert set(shown["failed_tasks"][0]) >= {"task_id", "input_r2_key", "error"}
    assert "error" not in shown


def test_files_are_listed_for_people(quire, made):
    made(failing={"b": "corrupt"})
    ran = quire("files", ID)
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["done", "a"]
    assert lines[1].split() == ["failed", "corrupt", "b"]
    assert "refused for its corrupt" in lines[2]
    assert ran.stderr == "3 files.\n"


def test_files_as_json_lines(quire, made):
    made(failing={"b": "corrupt"}, refused={"e": "empty_file"})
    lines = [json.loads(line) for line in quire("files", ID, "--json").stdout.splitlines()]
    assert [(one["path"], one["status"]) for one in lines] == [
        ("a", "done"),
        ("b", "failed"),
        ("c", "done"),
        ("e", "failed"),
    ]
    assert lines[0] == {
        "path": "a",
        "status": "done",
        "reason": None,
        "error_class": None,
        "outputs": ["a.jpg"],
        "attempts": 2,
        "size": 10,
        "steps": [],
    }
    assert lines[1]["steps"] == [
        {"step": "one", "done": 0, "failed": 1, "error_class": "corrupt", "reason": lines[1]["reason"]}
    ]


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        (["--state", "failed"], ["a", "b"]),
        (["--state", "done"], ["c"]),
        (["--state", "skipped"], []),
        (["--class", "timeout"], ["b"]),
        (["--state", "failed", "--class", "corrupt"], ["a"]),
    ],
)
def test_files_are_filtered(quire, made, options, paths):
    made(failing={"a": "corrupt", "b": "timeout"})
    lines = quire("files", ID, "--json", *options).stdout.splitlines()
    assert [json.loads(line)["path"] for line in lines] == paths


def test_csv_has_stable_columns_and_no_formulas(quire, made):
    names = [FORMULA, "+1", "-1", "@x", 'q"uo,te', "\uff1dx", EVIL]
    made(names, failing=dict.fromkeys(names, "=corrupt"))
    ran = quire("files", ID, "--csv")
    assert ran.exit_code == 0
    head, *rows = csv.reader(io.StringIO(ran.stdout))
    assert head == ["path", "status", "error_class", "reason", "attempts", "size", "outputs"]
    assert len(rows) == len(names) == len(ran.stdout.splitlines()) - 1
    cells = [row[0] for row in rows]
    assert f"'{FORMULA}" in cells
    assert 'q"uo,te' in cells
    assert not any(cell.startswith(("=", "+", "-", "@", "\uff1d")) for row in rows for cell in row)
    assert {row[2] for row in rows} == {"'=corrupt"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", ID],
        ["files", ID],
        ["files", ID, "--csv"],
        ["files", ID, "--json"],
        ["files", ID, "--file", EVIL],
        ["files", ID, "--file", EVIL, "--json"],
        ["retry", ID, "--dry-run"],
        ["retry", ID, "--dry-run", "--json"],
        ["events", ID],
        ["events", ID, "--json"],
        ["list"],
    ],
)
def test_names_and_reasons_from_outside_do_nothing_to_the_terminal(quire, made, within, arguments):
    made([EVIL], failing={EVIL: EVIL}, tenant=EVIL)
    ran = quire(*arguments)
    assert ran.exit_code == 0, ran.stderr
    assert not {"\x1b", "\u202e"} & set(ran.stdout + ran.stderr)
    if arguments[0] == "files":
        assert "[bold]" in ran.stdout.replace("\n", "")  # not taken for markup


def test_a_hostile_reason_is_shown_and_not_obeyed(quire, made):
    made(until=Stage.FLOWING)
    for ran in (
        quire("pause", ID, "--reason", EVIL),
        quire("pause", ID),
        quire("show", ID),
        quire("events", ID),
    ):
        assert "\x1b" not in ran.stdout + ran.stderr


def test_the_story_of_a_file_is_told(quire, made):
    made(failing={"a.jpg": "timeout"})
    ran = quire("files", ID, "--file", "a")
    assert ran.exit_code == 0
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "refused for its timeout" in " ".join(ran.stdout.split())
    story = json.loads(quire("files", ID, "--file", "a", "--json").stdout)
    assert story["file"]["status"] == "failed"
    assert [one["path"] for one in story["files"]] == ["a", "a.jpg"]
    assert [one["outcome"] for one in story["attempts"]] == ["done", "rejected"]


def test_a_file_that_is_not_there_is_said(quire, made):
    made()
    ran = quire("files", ID, "--file", "nobody")
    assert ran.exit_code == 1
    assert "no file nobody" in ran.stderr


def test_a_dry_run_tells_and_changes_nothing(quire, made, within):
    before = made(failing={"a": "corrupt", "b.jpg": "timeout"})
    ran = quire("retry", ID, "--dry-run")
    assert ran.exit_code == 0
    assert "round 2, for 2 files" in ran.stdout
    assert "1 failed task  ONE  corrupt" in ran.stdout
    assert "1 failed task  TWO  timeout" in ran.stdout
    assert within(lambda components: components.batches.get_batch(ID)) == before
    told = json.loads(quire("retry", ID, "--dry-run", "--json").stdout)
    assert (told["kind"], told["tasks"], told["files"], told["did"]) == ("new_round", 2, 2, None)


def test_a_retry_says_what_happens_next(quire, made, within):
    made(failing={"a": "corrupt"})
    ran = quire("retry", ID, "--yes", "--reason", "new scanner")
    assert ran.exit_code == 0, ran.stderr
    assert "was retried" in ran.stdout
    assert "quire scheduler --workers" in ran.stderr
    assert within(lambda components: components.batches.get_batch(ID)).position.round == 2
    assert "new scanner" in quire("events", ID).stdout


def test_a_retry_as_json_does_not_ask(quire, made):
    made(failing={"a": "corrupt", "b": "timeout"})
    told = json.loads(quire("retry", ID, "--class", "timeout", "--json").stdout)
    assert (told["did"], told["tasks"], told["round"]) == ("retried", 1, 2)


@pytest.mark.parametrize(("answer", "code", "round_no"), [("y\n", 0, 2), ("n\n", 1, 1), ("\n", 1, 1)])
def test_at_a_terminal_it_asks_first(quire, made, within, monkeypatch, answer, code, round_no):
    made(failing={"a": "corrupt"})
    monkeypatch.setattr(control, "is_interactive", lambda: True)
    ran = quire("retry", ID, answer=answer)
    assert ran.exit_code == code
    assert within(lambda components: components.batches.get_batch(ID)).position.round == round_no


def test_a_cancelled_batch_is_continued(quire, made):
    made(until=Stage.FLOWING)
    assert quire("cancel", ID, "--reason", "enough").exit_code == 0
    assert "cancelled: enough" in " ".join(quire("show", ID).stdout.split())
    ran = quire("retry", ID)
    assert "would pick up where it left off in ONE" in ran.stdout
    assert "3 unfinished tasks" in ran.stdout
    assert "was continued. Now: working in ONE: 0 of 3" in ran.stdout


@pytest.mark.parametrize(
    ("until", "arguments", "code"),
    [
        (Stage.FLOWING, ["retry", ID], "still_running"),
        (Stage.DONE, ["retry", ID], "nothing_to_retry"),
        (Stage.DONE, ["retry", ID, "--file", "nobody"], "nothing_to_retry"),
        (Stage.DONE, ["cancel", ID], "wrong_state"),
        (Stage.DONE, ["pause", ID], "wrong_state"),
        (Stage.FLOWING, ["resume", ID], "wrong_state"),
        (Stage.DONE, ["reset", ID], "wrong_state"),
        (Stage.DONE, ["priority", ID, "high"], "wrong_state"),
        (Stage.FLOWING, ["priority", ID, "urgent"], "unknown_tier"),
        (Stage.FLOWING, ["export", ID, "--out", "x"], "still_running"),
    ],
)
def test_what_makes_no_sense_now_ends_with_1_and_its_class(quire, made, until, arguments, code):
    made(until=until)
    assert told(quire(*arguments, "--json")) == code


def test_a_choice_among_unfinished_work_is_refused(quire, made):
    made(until=Stage.FLOWING)
    quire("reset", ID)
    assert told(quire("retry", ID, "--class", "corrupt", "--json")) == "not_finished"


def test_pause_and_resume_say_what_they_did(quire, made):
    made(until=Stage.FLOWING)
    paused = json.loads(quire("pause", ID, "--json").stdout)
    assert (paused["did"], paused["summary"]) == ("paused", f"paused: paused by {user_at_host()}")
    ran = quire("resume", ID)
    assert "was resumed. Now: working in ONE: 0 of 3" in ran.stdout
    assert "quire scheduler" in ran.stderr


def test_a_spent_budget_needs_a_larger_one(quire, made, within):
    batch = made(until=Stage.FLOWING, budget=Budget(seconds=99.0, money_micros=1_000_000))

    cost = Cost(money_micros=1_000_000)
    within(lambda components: worked(components, batch, limit=1, cost=cost))
    assert "held: budget spent" in quire("show", ID).stdout
    assert told(quire("resume", ID, "--json")) == "budget_spent"
    assert quire("resume", ID, "--budget-money", "12.50", "--budget-seconds", "none").exit_code == 0
    shown = json.loads(quire("show", ID, "--json").stdout)
    assert shown["budget"] == {"seconds": None, "tokens": None, "money": 12.5}
    assert shown["hold"] is None


def test_a_reset_ends_in_error(quire, made):
    made(until=Stage.FLOWING)
    told = json.loads(quire("reset", ID, "--json").stdout)
    assert (told["status"], told["state"]) == ("ERROR", "error")
    assert told["summary"] == "error: Manually reset by admin"


def test_a_priority_is_set(quire, made):
    made(until=Stage.FLOWING)
    assert json.loads(quire("priority", ID, "high", "--json").stdout)["tier"] == "2_high"


def test_events_name_who_did_what_and_why(quire, made):
    made(until=Stage.FLOWING)
    quire("cancel", ID, "--reason", "wrong folder")
    lines = [json.loads(line) for line in quire("events", ID, "--json").stdout.splitlines()]
    assert lines[-1]["kind"] == "batch_cancelled"
    assert lines[-1]["data"] == {"actor": user_at_host(), "reason": "wrong folder"}
    assert [one["no"] for one in lines] == sorted(one["no"] for one in lines)


def test_following_an_ended_batch_ends_at_once(quire, made):
    made()
    assert quire("events", ID, "--follow").stdout == quire("events", ID).stdout


def test_results_are_laid_out_again(quire, home, made, within):
    async def work(components):
        batch = await opened(components, NAMES)
        await walked(components, batch, failing=dict.fromkeys(NAMES, "corrupt"))

    within(work)
    out = home.parent / "out"
    ran = quire("export", ID, "--out", str(out))
    assert ran.exit_code == 3, ran.stderr
    assert "3 files: 3 failed" in ran.stdout
    report = json.loads((out / "report.json").read_text())
    assert json.loads(quire("export", ID, "--out", str(out), "--json").stdout) == report
    assert within(lambda components: components.batches.get_batch(ID)).delivered_at is None


def test_results_are_not_laid_out_over_other_files_or_into_the_home(quire, home, made):
    made([])
    (home.parent / "mine").mkdir()
    (home.parent / "mine" / "thesis.txt").write_text("mine")
    assert told(quire("export", ID, "--out", str(home.parent / "mine"), "--json")) == "bad_path"
    assert told(quire("export", ID, "--out", str(home / "out"), "--json")) == "bad_path"


def test_a_batch_that_was_cancelled_is_laid_out_as_far_as_it_came(quire, home, made, within):
    made(until=Stage.FLOWING)
    within(
        lambda components: components.control.cancel(1, OperatorAction(actor="x", reason="enough", now=1.0))
    )
    ran = quire("export", ID, "--out", str(home.parent / "out"))
    assert ran.exit_code == 3
    assert "3 cancelled" in ran.stdout


def test_a_batch_without_failures_is_laid_out_with_0(quire, home, made):
    made([])
    assert quire("export", ID, "--out", str(home.parent / "out")).exit_code == 0


@pytest.mark.parametrize("command", ["list", "show", "files", "events", "export", "retry", "cancel", "pause"])
def test_every_command_has_examples_and_exit_codes(command):
    ran = CliRunner().invoke(app, ["batch", command, "--help"])
    assert f"quire batch {command}" in ran.stdout
    assert "Exit codes" in ran.stdout
