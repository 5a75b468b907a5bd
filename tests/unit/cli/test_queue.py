"""`quire queue`: what is printed where, in which shape, and with which exit code."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.situations.commands import load_commands
from typer.testing import CliRunner

from quire.assembly.components import open_components
from quire.assembly.queues import queue_policies
from quire.cli import options
from quire.cli.app import app
from quire.ledger.port import NO_BATCH
from quire.model.errors import Misconfigured
from quire.model.queues import KNOWN_QUEUES
from quire.queues.port import Message
from quire.settings import Settings, load
from quire.settings.keys import QUEUE_KEYS
from quire.system import user_at_host

QUEUE = "arke-preprocess-jobs"
EVIL = "\x1b[31mred\x1b[0m\n[bold]x[/bold]\u202e"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("QUIRE_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def quire(home):
    def run(*arguments, answer=None):
        return CliRunner().invoke(app, ["queue", *arguments, "--home", str(home)], input=answer)

    return run


@pytest.fixture
def within(home):
    """Do something in the same home, as another process would."""

    def do(work):
        async def use_components():
            async with open_components(Settings(home=home)) as components:
                return await work(components)

        return asyncio.run(use_components())

    return do


@pytest.fixture
def sent(within):
    def send(*ids, body=b'{"n": 1}', **options):
        async def work(components):
            messages = [Message(id=one, body=body) for one in ids]
            await components.queues.send(QUEUE, messages, now=components.clock.now(), **options)

        within(work)

    return send


@pytest.fixture
def buried(within, sent):
    def dead_letter(*ids, error_class="transient", reason="rate limit", **options):
        sent(*ids, **options)

        async def work(components):
            now = components.clock.now()
            for leased in await components.queues.lease(QUEUE, limit=99, seconds=60, now=now, worker="w1"):
                await components.queues.dead_letter(leased, now=now, reason=reason, error_class=error_class)

        within(work)

    return dead_letter


@pytest.fixture
def somebody(monkeypatch):
    monkeypatch.setattr(options, "is_interactive", lambda: True)


def answer(ran):
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def error(ran):
    assert ran.exit_code == 1
    return json.loads(ran.stdout)["error"]["class"]


@pytest.mark.parametrize("more", [(), ("--all",), ("--json",), ("--prometheus",)])
def test_queues_on_a_server_that_is_away_are_left_out_with_a_warning(quire, sent, monkeypatch, more):
    sent("a")
    monkeypatch.setenv("QUIRE_REDIS_URL", "redis://127.0.0.1:1/0")
    ran = quire("list", *more)
    assert (ran.exit_code, QUEUE in ran.stdout) == (0, True)
    said = json.loads(ran.stdout)["warnings"] if "--json" in more else ran.stderr.splitlines()
    (warning,) = said
    assert "left out: jarvis.ocr.jobs, jarvis.recipes.jobs, because Redis 127.0.0.1:1/0" in warning
    assert "jarvis" not in ran.stdout.replace(warning, "")


def test_an_empty_home_has_no_queues_but_those_that_are_configured(quire):
    ran = quire("list")
    assert (ran.exit_code, "No queue has messages" in ran.stdout) == (0, True)
    assert answer(quire("list", "--json")) == {"queues": [], "warnings": []}
    names = [one["queue"] for one in answer(quire("list", "--all", "--json"))["queues"]]
    assert {QUEUE, "arke-batch-jobs", "manuscript-analysis-queue", "asset-generation-queue"} <= set(names)


def test_a_home_that_is_not_there_is_not_made(tmp_path):
    ran = CliRunner().invoke(app, ["queue", "list", "--home", str(tmp_path / "typo")])
    assert (ran.exit_code, (tmp_path / "typo").exists()) == (1, False)


def test_the_list_fits_into_80_columns(quire, sent, buried):
    buried("dead")
    sent("a", "b")
    sent("c", delay_seconds=60)
    ran = quire("list")
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:5] == [QUEUE, "2", "1", "0", "1"]
    (one,) = answer(quire("list", "--json"))["queues"]
    assert (one["waiting"], one["delayed"], one["in_flight"], one["dead"]) == (2, 1, 0, 1)
    assert one["dead_letter"] == "preprocess-dlq"


def test_metrics_are_printed_for_prometheus(quire, sent):
    sent("a")
    ran = quire("list", "--prometheus")
    assert ran.exit_code == 0
    assert f'quire_queue_depth{{queue="{QUEUE}",state="waiting"}} 1\n' in ran.stdout
    assert quire("list", "--prometheus", "--json").exit_code == 2


def test_peek_shows_bodies_that_do_nothing_to_a_terminal(quire, sent):
    sent("evil" + EVIL.replace("\n", "").replace("\x1b", "").replace("\u202e", ""), body=EVIL.encode())
    sent("long", body=b"x" * 5000)
    sent("bytes", body=b"\xff\xfe")
    ran = quire("peek", QUEUE)
    assert ran.exit_code == 0
    assert "\x1b" not in ran.stdout
    assert "\u202e" not in ran.stdout
    assert "[bold]" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) < 200
    messages = answer(quire("peek", QUEUE, "--json"))["messages"]
    assert [one["body"] for one in messages] == [EVIL, "x" * 5000, None]
    assert messages[2]["body_base64"] == "//4="


def test_a_queue_that_does_not_exist_is_told_with_the_nearest(quire):
    ran = quire("peek", "arke-preproces-jobs")
    assert ran.exit_code == 1
    assert QUEUE in ran.stderr
    assert error(quire("peek", "??", "--json")) == "missing"


def test_dead_letters_are_listed_searched_and_grouped(quire, buried):
    buried("a", "b")
    buried("c", error_class="not_json", reason=f"broken {EVIL}", body=b"<xml>")
    ran = quire("dead", "list", QUEUE)
    assert ran.exit_code == 0
    assert "\x1b" not in ran.stdout
    assert "transient" in ran.stdout
    assert answer(quire("dead", "list", QUEUE, "--group", "--json"))["classes"] == {
        "transient": 2,
        "not_json": 1,
    }
    assert "not_json" in quire("dead", "list", QUEUE, "--group").stdout
    (found,) = answer(quire("dead", "list", "preprocess-dlq", "--text", "XML", "--json"))["dead"]
    assert (found["id"], found["queue"]) == ("c", QUEUE)
    page = answer(quire("dead", "list", QUEUE, "--limit", "2", "--json"))
    after = answer(quire("dead", "list", QUEUE, "--after", str(page["next_after"]), "--json"))
    assert ([one["id"] for one in after["dead"]], after["next_after"]) == (["c"], None)
    assert quire("dead", "list", QUEUE, "--group", "--class", "x").exit_code == 2


def test_a_dead_letter_is_shown_with_its_history(quire, buried):
    buried("a", reason=EVIL, body=EVIL.encode())
    ran = quire("dead", "show", QUEUE, "a")
    assert ran.exit_code == 0
    assert "\x1b" not in ran.stdout
    assert "w1" in ran.stdout
    letter = answer(quire("dead", "show", QUEUE, "a", "--json"))
    assert [one["ending"] for one in letter["history"]] == ["buried"]
    assert error(quire("dead", "show", QUEUE, "b", "--json")) == "missing"


@pytest.mark.parametrize("act", ["replay", "discard"])
def test_an_act_says_first_what_it_would_do_and_does_nothing_unasked(quire, buried, act):
    buried("a", "b")
    assert answer(quire("dead", act, QUEUE, "--all", "--dry-run", "--json")) == {
        "queue": QUEUE,
        "dead_letters": 2,
        "did": None,
    }
    ran = quire("dead", act, QUEUE, "--all")  # nobody is at the terminal
    assert (ran.exit_code, "--yes" in ran.stderr) == (1, True)
    assert error(quire("dead", act, QUEUE, "--all", "--json")) == "not_confirmed"
    assert answer(quire("list", "--json"))["queues"][0]["dead"] == 2


@pytest.mark.parametrize("act", ["replay", "discard"])
def test_an_act_is_asked_for(quire, buried, somebody, act):
    buried("a", "b")
    refused = quire("dead", act, QUEUE, "a", answer="n\n")
    assert (refused.exit_code, "Nothing was changed" in refused.stderr) == (1, True)
    done = quire("dead", act, QUEUE, "a", answer="y\n")
    assert done.exit_code == 0
    assert "1 dead letter of" in done.stdout
    line = answer(quire("list", "--json"))["queues"][0]
    assert (line["dead"], line["waiting"]) == (1, int(act == "replay"))


@pytest.mark.parametrize("act", ["replay", "discard"])
@pytest.mark.parametrize("words", [[], ["a", "--all"], ["a", "--class", "x"], ["--all", "--text", "x"]])
def test_it_must_be_said_which_dead_letters_are_meant(quire, act, words):
    assert quire("dead", act, QUEUE, *words, "--yes").exit_code == 2


def test_dead_letters_are_replayed_by_class_and_at_a_rate(quire, buried):
    buried("a", "b", "c")
    buried("d", error_class="not_json")
    told = answer(quire("dead", "replay", QUEUE, "--class", "transient", "--rate", "0.01", "--yes", "--json"))
    assert told == {"queue": QUEUE, "dead_letters": 3, "did": "replayed"}
    line = answer(quire("list", "--json"))["queues"][0]
    assert (line["waiting"], line["delayed"], line["dead"]) == (1, 2, 1)


def test_nothing_chosen_is_nothing_done(quire, buried):
    buried("a")
    told = answer(quire("dead", "replay", QUEUE, "--class", "nope", "--json"))
    assert (told["dead_letters"], told["did"]) == (0, "replayed")
    assert error(quire("dead", "discard", QUEUE, "typo", "--yes", "--json")) == "missing"


def test_purging_is_asked_for_and_leaves_the_dead_alone(quire, sent, buried, somebody):
    buried("dead")
    sent("a", "b")
    assert answer(quire("purge", QUEUE, "--dry-run", "--json"))["messages"] == 2
    assert quire("purge", QUEUE, answer="n\n").exit_code == 1
    assert "2 messages" in quire("purge", QUEUE, answer="y\n").stdout
    line = answer(quire("list", "--json"))["queues"][0]
    assert (line["waiting"], line["dead"]) == (0, 1)
    assert answer(quire("purge", QUEUE, "--yes", "--json")) == {
        "queue": QUEUE,
        "messages": 0,
        "did": "purged",
    }


def test_purging_is_refused_where_nobody_can_be_asked(quire, sent):
    sent("a")
    assert error(quire("purge", QUEUE, "--json")) == "not_confirmed"
    assert answer(quire("list", "--json"))["queues"][0]["waiting"] == 1


def test_the_backend_of_the_settings_is_tried(quire):
    ran = quire("test")
    assert ran.exit_code == 0
    assert {line.split()[0] for line in ran.stdout.splitlines()} == {"ok"}
    told = answer(quire("test", "--json"))
    assert (told["fine"], told["warnings"], len(told["promises"])) == (True, [], 12)
    assert {tuple(promise) for promise in told["promises"]} == {("promise", "ok", "detail", "seconds")}


def test_a_file_that_was_not_there_is_tried_and_gone_again(quire, home, tmp_path):
    told = answer(quire("test", "sqlite:///queues.db", "--json"))
    assert told["fine"]
    assert answer(quire("test", f"sqlite:///{tmp_path}/queues.db", "--json"))["fine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


@pytest.mark.parametrize("url", ["mysql://u:hush@h/d", "sqlite:///no/such/folder/q.db", "sqlite:///"])
def test_a_url_that_cannot_be_used_is_refused_without_quoting_a_password(quire, url):
    ran = quire("test", url)
    assert ran.exit_code == 1
    assert "hush" not in ran.output
    assert "Traceback" not in ran.output


def test_queues_in_a_folder_are_refused_with_what_to_use_instead(quire, tmp_path):
    ran = quire("test", f"file://{tmp_path}/queues")
    assert ran.exit_code == 1
    assert "no longer supported: write sqlite:///" in " ".join(ran.stderr.split())
    assert not (tmp_path / "queues").exists()


@pytest.mark.parametrize("words", [["list"], ["test"]])
def test_queues_in_a_bucket_are_refused_as_other_bad_settings_are(quire, monkeypatch, words):
    ended = []
    for value in ("bucket", "tape"):
        monkeypatch.setenv("QUIRE_QUEUE_STORE", value)
        ended.append(quire(*words))
    assert [ran.exit_code for ran in ended] == [1, 1]
    assert ["were removed" in " ".join(ran.stderr.split()) for ran in ended] == [True, False]


def test_a_broken_promise_is_told_and_ends_with_1(quire, monkeypatch):
    async def forgetful(_self, _leased, *, now):
        pass

    monkeypatch.setattr("quire.queues.sqlite.SqliteQueues.acknowledge", forgetful)
    ran = quire("test")
    assert ran.exit_code == 1
    assert any(line.startswith("FAILED  ") for line in ran.stdout.splitlines())


def _nested():
    group = load_commands().commands["queue"].commands["dead"]
    return [
        (name, option)
        for name, command in group.commands.items()
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in parameter.opts
    ]


@pytest.mark.parametrize(("command", "option"), _nested())
def test_an_option_of_the_inner_group_is_documented(command, option):
    section = re.search(
        r"^## quire queue\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )[1]
    assert f"`dead {command}" in section
    assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section)


@pytest.mark.parametrize(
    "words", [["list"], ["peek"], ["purge"], ["test"], ["dead", "replay"], ["dead", "list"]]
)
def test_help_has_examples_and_exit_codes(quire, words):
    ran = CliRunner().invoke(app, ["queue", *words, "--help"])
    assert "Examples:" in ran.stdout
    assert "Exit codes:" in ran.stdout


def loaded(tmp_path, text):
    (tmp_path / "quire.toml").write_text(text, "utf-8")
    return load({}, tmp_path)


def test_a_table_changes_what_it_names_and_nothing_else(tmp_path):
    read = loaded(
        tmp_path,
        '[queues."manuscript-analysis-queue"]\nmax_retries = 5\n[queues.own]\ndelays_seconds = [1, 2.5]\n',
    )
    policies = queue_policies(read.settings)
    analysis = policies["manuscript-analysis-queue"]
    assert (analysis.max_retries, analysis.max_batch_size) == (5, 1)
    assert analysis.delays_seconds == (60, 300, 900)
    assert (policies["own"].delays_seconds, policies["own"].name) == ((1, 2.5), "own")
    assert policies["arke-batch-jobs"] == KNOWN_QUEUES["arke-batch-jobs"]
    assert ('queues."manuscript-analysis-queue".max_retries', "5", "quire.toml") in read.rows()


def test_who_asks_for_backoff_gets_it_in_place_of_exact_waits(tmp_path):
    read = loaded(tmp_path, '[queues."manuscript-analysis-queue"]\nfirst_delay_seconds = 8\n')
    policy = queue_policies(read.settings)["manuscript-analysis-queue"]
    assert policy.redelivery.delay_seconds(2, 1.0) == 16


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues = 3", '[queues."name"]'),
        ("[queues]\nmax_retries = 3", '[queues."name"]'),
        ("[queues.q]\nmax_retry = 3", "did you mean"),
        ("[queues.q]\nmax_retries = -1", 'queues."q".max_retries must be a whole number from 0 to 1000'),
        ("[queues.q]\nmax_retries = true", "a whole number"),
        ("[queues.q]\ndelays_seconds = []", "a list of numbers"),
        ("[queues.q]\ndelays_seconds = [1, -2]", "a list of numbers"),
        ("[queues.q]\ndelays_seconds = [nan]", "a list of numbers"),
        ("[queues.q]\nlease_seconds = 0", "from 1 to 86400"),
        ("[queues.q]\nfirst_delay_seconds = 9\nlongest_delay_seconds = 3", "greater than"),
        ('[queues."\\u001b[31m"]\nmax_retries = "x"', "a whole number"),
        ("[queue]\nx = 1", "unknown table"),
        ('queue_store = "redis"', "redis.url is not set"),
    ],
)
def test_what_cannot_be_a_queue_s_setting_is_refused(tmp_path, text, said):
    with pytest.raises(Misconfigured) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_the_known_queues_stand_in_the_reference():
    page = (PAGE.parent / "settings.md").read_text("utf-8")
    for policy in KNOWN_QUEUES.values():
        timeout = f"{policy.max_batch_timeout_seconds:g}"
        cells = [policy.name, str(policy.max_batch_size), timeout, str(policy.max_retries)]
        assert f"| {' | '.join(cells)} | " in page
        assert f" | {policy.dead_letter} |" in page
    assert all(f"\n| {name} | " in page for name in QUEUE_KEYS)


@pytest.fixture
def trail(within):
    """The audit trail: what was done, and the actor, reason and rest of it."""

    async def work(components):
        return [
            (kind, data)
            for _, _, kind, data in await components.records.list_events(NO_BATCH, after=0, limit=99)
        ]

    return lambda: within(work)


def test_acts_on_queues_are_in_the_audit_trail(quire, buried, sent, trail):
    buried("a", "b", "c")
    assert quire("dead", "replay", QUEUE, "a", "--yes").exit_code == 0
    assert quire("dead", "discard", "preprocess-dlq", "--all", "--yes").exit_code == 0
    sent("d")
    assert quire("purge", QUEUE, "--yes").exit_code == 0
    by = {"actor": user_at_host(), "reason": "", "queue": QUEUE}
    assert trail() == [
        ("dead_letters_replayed", by | {"messages": 1}),
        ("dead_letters_discarded", by | {"messages": 2}),
        ("queue_purged", by | {"messages": 2}),
    ]


def test_looking_and_what_was_not_done_are_not_in_the_audit_trail(quire, buried, sent, trail):
    buried("a")
    sent("b")
    for arguments in (
        ("list",),
        ("peek", QUEUE),
        ("dead", "list", QUEUE),
        ("dead", "show", QUEUE, "a"),
        ("purge", QUEUE, "--dry-run"),
        ("dead", "replay", QUEUE, "--all", "--dry-run"),
    ):
        assert quire(*arguments).exit_code == 0
    for arguments in (("purge", QUEUE), ("dead", "discard", QUEUE, "--all"), ("purge", "nobody", "--yes")):
        assert quire(*arguments).exit_code == 1
    assert trail() == []
