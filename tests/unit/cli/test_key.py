"""`quire key`: the key on standard output and nowhere else, the shapes of JSON, exit codes."""

import asyncio
import json
import os

import pytest
from typer.testing import CliRunner

from quire.assembly.components import open_components
from quire.cli.app import app
from quire.settings import Settings


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("QUIRE_")]:
        monkeypatch.delenv(name)
    return tmp_path / "home"


@pytest.fixture
def quire(home):
    def run(*arguments):
        return CliRunner().invoke(app, ["key", *arguments, "--home", str(home)])

    return run


@pytest.fixture
def created(quire):
    def create(*options):
        ran = quire("create", *(options or ("--scope", "submit")), "--json")
        assert ran.exit_code == 0
        return json.loads(ran.stdout)

    return create


def test_a_key_is_made_in_a_home_that_is_not_there_yet(quire, home):
    ran = quire("create", "--scope", "admin", "--label", "me")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("qk_")
    assert len(ran.stdout.strip()) == 46
    assert ran.stdout.strip() not in ran.stderr
    assert home.is_dir()


def test_a_key_has_what_it_was_made_with(created, home):
    new = created(
        *("--scope", "operate", "--label", "x", "--tenant", "t", "--expires", "90d"),
        *("--requests-per-minute", "60", "--max-batches", "3", "--max-bytes", "1000"),
    )
    key = new["key"]
    assert (key["scope"], key["label"], key["tenant"], key["state"]) == ("operate", "x", "t", "active")
    assert (key["requests_per_minute"], key["max_batches"], key["max_bytes"]) == (60, 3, 1000)

    async def kept():
        async with open_components(Settings(home=home)) as components:
            return await components.api_keys.get_key(key["id"])

    stored = asyncio.run(kept())
    assert stored.expires_at - stored.created_at == 90 * 86_400
    assert new["text"].startswith(key["hint"])


def test_nothing_but_the_first_answer_has_the_key(quire, created):
    new = created()
    for arguments in (("list",), ("list", "--json"), ("revoke", new["key"]["id"], "--json")):
        ran = quire(*arguments)
        assert ran.exit_code == 0
        assert new["text"] not in ran.output
        assert new["key"]["hint"] in ran.output


def test_keys_are_listed_newest_first(quire, created):
    one, two = created(), created("--scope", "read", "--label", "\x1b[31mred")
    assert [key["id"] for key in json.loads(quire("list", "--json").stdout)["keys"]] == [
        two["key"]["id"],
        one["key"]["id"],
    ]
    shown = quire("list").stdout
    assert "\x1b" not in shown
    assert shown.index(two["key"]["id"]) < shown.index(one["key"]["id"])


def test_without_keys_the_list_says_how_to_make_one(quire, home):
    home.mkdir()
    assert "quire key create" in quire("list").stdout
    assert json.loads(quire("list", "--json").stdout) == {"keys": []}


def test_a_key_is_revoked(quire, created):
    key_id = created()["key"]["id"]
    assert key_id in quire("revoke", key_id).stdout
    again = quire("revoke", key_id, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["state"] == "revoked"


def test_a_key_is_rotated(quire, created):
    key_id = created()["key"]["id"]
    ran = quire("rotate", key_id)
    assert ran.stdout.startswith("qk_")
    assert f"{key_id}-2" in ran.stderr
    ran = quire("rotate", key_id, "--overlap", "0s", "--json")
    assert json.loads(ran.stdout)["key"]["id"] == f"{key_id}-3"
    states = {key["id"]: key["state"] for key in json.loads(quire("list", "--json").stdout)["keys"]}
    assert states == {key_id: "expired", f"{key_id}-2": "active", f"{key_id}-3": "active"}


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_an_unknown_key_is_told(quire, created, command):
    created()
    ran = quire(command, "key_nobody", "--json")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"]["class"] == "unknown_key"


@pytest.mark.parametrize("command", [("list",), ("revoke", "x"), ("rotate", "x")])
def test_looking_makes_no_home(quire, home, command):
    assert quire(*command).exit_code == 1
    assert not home.exists()


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--scope", "all"),
        ("--scope", "read", "--expires", "soon"),
        ("--scope", "read", "--expires", "-1d"),
        ("--scope", "read", "--expires", "999999999w"),
        ("--scope", "read", "--max-batches", "-1"),
    ],
)
def test_a_wrong_option_is_usage(quire, options):
    assert quire("create", *options).exit_code == 2
