"""`quire webhook` in a home of its own: secrets are shown once, and nothing private is called."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from quire.assembly.components import open_components
from quire.cli.app import app
from quire.ledger.port import NO_BATCH
from quire.settings import Settings
from quire.system import user_at_host

HOOK = "https://example.org/in"


@pytest.fixture
def quire(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments: str):
        return runner.invoke(app, [*arguments, "--home", str(tmp_path / "home")])

    assert run("key", "create", "--scope", "read").exit_code == 0  # makes the home
    return run


def test_a_webhook_is_added_listed_and_ended(quire):
    made = json.loads(quire("webhook", "add", HOOK, "--kind", "batch_done", "--json").stdout)
    assert made["secret"].startswith("whsec_")
    listed = quire("webhook", "list")
    assert made["webhook"]["id"] in listed.stdout
    assert "batch_done" in listed.stdout
    assert made["secret"] not in listed.stdout
    assert quire("webhook", "remove", made["webhook"]["id"]).exit_code == 0
    assert "disabled" in quire("webhook", "list").stdout


def test_the_secret_stands_alone_on_standard_output(quire):
    answer = quire("webhook", "add", HOOK)
    assert answer.stdout.strip().startswith("whsec_")
    assert len(answer.stdout.split()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "http://127.0.0.1/x"),
        ("add", "ftp://example.org/x"),
        ("add", HOOK, "--kind", "no_such_event"),
        ("add", HOOK, "--batch", "01NOBODY"),
        ("remove", "hook_nobody"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_1(quire, arguments):
    answer = quire("webhook", *arguments)
    assert answer.exit_code == 1
    assert answer.stderr.startswith("quire: ")
    assert quire("webhook", "list", "--json").stdout.strip().endswith("}")


def test_deliveries_are_listed_and_sent_again(quire):
    assert json.loads(quire("webhook", "deliveries", "--json").stdout) == {"deliveries": []}
    assert json.loads(quire("webhook", "redeliver", "17", "--json").stdout) == {"deliveries": 0}


def test_acts_are_in_the_audit_trail_and_addresses_are_not(quire, tmp_path):
    made = json.loads(quire("webhook", "add", f"{HOOK}?token=secret", "--json").stdout)["webhook"]["id"]
    quire("webhook", "list")
    quire("webhook", "deliveries")
    assert quire("webhook", "remove", "hook_nobody").exit_code == 1
    assert quire("webhook", "redeliver", "17").exit_code == 0
    assert quire("webhook", "remove", made).exit_code == 0

    async def trail():
        async with open_components(Settings(home=tmp_path / "home")) as components:
            return [
                (kind, data)
                for _, _, kind, data in await components.records.list_events(NO_BATCH, after=0, limit=9)
            ]

    by = {"actor": user_at_host(), "reason": ""}
    assert asyncio.run(trail())[1:] == [
        ("webhook_added", by | {"webhook": made, "batch_id": ""}),
        ("webhooks_redelivered", by | {"deliveries": 0}),
        ("webhook_disabled", by | {"webhook": made}),
    ]
