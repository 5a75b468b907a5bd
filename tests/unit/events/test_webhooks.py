"""Webhooks for people: URLs and kinds that cannot work are refused, secrets are shown once."""

import re
from pathlib import Path

import msgspec
import pytest

import quire
from quire.database.sqlite import SqliteDatabase
from quire.events import webhooks
from quire.events.sqlite import SqliteWebhookStore
from quire.events.webhooks import KINDS, WebhookContext
from quire.ledger.sqlite import SqliteLedger
from quire.model.errors import Missing, Reject
from quire.testing.factories import draft
from quire.testing.time import CountingIds, FakeClock
from quire.tools.outgoing_client import OutgoingClient

URL = "https://hooks.example/in"


@pytest.fixture
async def ledger(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    yield ledger
    await database.close()


@pytest.fixture
def context(ledger):
    store = SqliteWebhookStore(ledger._database)
    return WebhookContext(store=store, outgoing=OutgoingClient(), clock=FakeClock(), ids=CountingIds())


async def test_a_secret_is_random_and_shown_once(context):
    one = await webhooks.add_webhook(context, url=URL)
    two = await webhooks.add_webhook(
        context, url=URL, kinds=["quire.batch_done", "batch_done", "batch_failed"]
    )
    assert one.secret.startswith("whsec_")
    assert one.secret != two.secret
    lines = await webhooks.list_webhooks(context)
    assert lines == [one.hook, two.hook]
    assert (two.hook.kinds, two.hook.batch_id) == (["batch_done", "batch_failed"], None)
    shown = msgspec.json.encode(lines).decode()
    assert one.secret.removeprefix("whsec_") not in shown


async def test_a_hook_may_be_of_one_batch(context, ledger):
    await ledger.open_batch(draft("01B"))
    one = await webhooks.add_webhook(context, url=URL, batch_id="01B")
    assert await webhooks.list_webhooks(context, batch_id="01B") == [one.hook]
    assert await webhooks.list_webhooks(context, batch_id="") == []
    with pytest.raises(Missing):
        await webhooks.add_webhook(context, url=URL, batch_id="nobody")


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://localhost/", "ftp://hooks.example", "x"])
async def test_a_url_that_would_never_be_called_is_refused(context, url):
    with pytest.raises(Reject):
        await webhooks.add_webhook(context, url=url)
    assert await webhooks.list_webhooks(context) == []


async def test_an_unknown_kind_is_refused_with_the_nearest_one(context):
    with pytest.raises(Reject, match="batch_done"):
        await webhooks.add_webhook(context, url=URL, kinds=["batch_don"])
    with pytest.raises(Reject) as caught:
        await webhooks.add_webhook(context, url=URL, kinds=["*"])
    assert caught.value.code == "unknown_event"


async def test_there_are_so_many_and_no_more(context, ledger, monkeypatch):
    monkeypatch.setattr(webhooks, "MAX_WEBHOOKS", 2)
    await ledger.open_batch(draft("01B"))
    for batch_id in ("", "01B"):
        one, _ = [await webhooks.add_webhook(context, url=URL, batch_id=batch_id) for _ in range(2)]
        with pytest.raises(Reject, match="remove one first"):
            await webhooks.add_webhook(context, url=URL, batch_id=batch_id)
        await webhooks.disable_webhook(context, one.hook.id)
        await webhooks.add_webhook(context, url=URL, batch_id=batch_id)


async def test_a_hook_is_disabled_for_good(context):
    hook_id = (await webhooks.add_webhook(context, url=URL)).hook.id
    line = await webhooks.disable_webhook(context, hook_id, reason="moved")
    assert (line.disabled_reason, bool(line.disabled_at)) == ("moved", True)
    assert await webhooks.disable_webhook(context, hook_id) == line


async def test_the_log_is_told_and_sent_again(context, ledger):
    hook_id = (await webhooks.add_webhook(context, url=URL)).hook.id
    await ledger.open_batch(draft("01B", now=5.0))
    (line,) = await webhooks.list_deliveries(context, hook_id=hook_id)
    assert (line.type, line.batch_id, line.state, line.tries) == ("quire.batch_opened", "01B", "waiting", 0)
    assert (line.happened_at, line.last_error) == ("1970-01-01T00:00:05.000Z", None)
    assert await webhooks.redeliver(context, [line.no]) == 1
    assert await webhooks.redeliver(context, [999]) == 0
    with pytest.raises(Reject):
        await webhooks.redeliver(context, range(1001))


def test_the_kinds_are_those_that_the_code_writes():
    source = Path(quire.__file__).parent
    modules = [*(source / "engine").glob("*.py"), *(source / "ledger" / "sqlite").glob("*.py")]
    written = set()
    for module in modules:
        written |= set(re.findall(r'"((?:batch|phase|staging)_[a-z_]+)"', module.read_text("utf-8")))
    assert {kind for kind in written if kind in KINDS} == set(KINDS)
    # What looks like one and is none: statements.
    assert written - set(KINDS) <= OTHERS


OTHERS = {"batch_by_no", "batch_by_id", "batch_events", "phase_counts", "batch_no_by_id"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_documented(kind):
    page = Path(__file__).parents[3] / "docs" / "how-to" / "webhooks.md"
    assert f"`{kind}`" in page.read_text("utf-8")
