"""What webhooks get: signed, in the form of CloudEvents, again and later each time until it is taken."""

import asyncio
import json
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError
from tests.standins.webhook_receiver import Reply, receiver
from tests.suites.ledger_situations import act

from quire.database.sqlite import SqliteDatabase
from quire.events.messages import new_secret
from quire.events.port import Webhook
from quire.events.sender import DELAYS_SECONDS, DeliveryPolicy, WebhookSender
from quire.events.sqlite import SqliteWebhookStore
from quire.ledger.sqlite import SqliteLedger
from quire.model.errors import Unavailable
from quire.system import LoopSignal
from quire.testing.factories import draft
from quire.testing.time import FakeClock
from quire.tools.outgoing_client import OutgoingClient

SECRET = new_secret(lambda size: b"s" * size)
NOW = 1_800_000_000.0


@pytest.fixture
async def ledger(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    yield ledger
    await database.close()


@pytest.fixture
def clock():
    return FakeClock(NOW)


def verified_at(clock, monkeypatch):
    """The library that verifies has no other way to be told the time."""
    moment = datetime.fromtimestamp(clock.now(), tz=UTC)

    class Then(datetime):
        @classmethod
        def now(cls, tz=None):  # noqa: ARG003
            return moment

    monkeypatch.setattr("standardwebhooks.webhooks.datetime", Then)


@pytest.fixture
def store(ledger):
    return SqliteWebhookStore(ledger._database)


@pytest.fixture
async def sender(store, clock):
    return made(store, clock)


def made(store, clock, *, outgoing=None, fraction=0.5, **policy):
    return WebhookSender(
        store=store,
        outgoing=outgoing or OutgoingClient(allow_private=True, timeout_seconds=10),
        clock=clock,
        signal=LoopSignal(),
        fraction=lambda: fraction,
        source="https://quire.example",
        policy=DeliveryPolicy(**policy),
    )


async def hooked(store, there, name="hook_1", **changes):
    await store.add_webhook(Webhook(id=name, url=there.url(f"/{name}"), secret=SECRET, **changes))


async def happen(ledger, clock, name="01B"):
    return await ledger.open_batch(draft(name, now=clock.now()))


async def only(store):
    (delivery,) = await store.list_deliveries(limit=9)
    return delivery


async def test_an_event_arrives_signed_and_in_the_form_of_cloudevents(
    ledger, store, clock, sender, monkeypatch
):
    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        assert await sender.send_due() == 1
        (got,) = there.received
    verified_at(clock, monkeypatch)
    event = Verifier(SECRET).verify(got.body, got.headers)
    delivery = await only(store)
    assert got.headers["content-type"] == "application/cloudevents+json"
    assert got.headers["webhook-id"] == delivery.id == event["id"]
    assert (event["specversion"], event["type"], event["subject"]) == ("1.0", "quire.batch_opened", "01B")
    assert event["source"] == "https://quire.example"
    assert event["time"].endswith("Z")
    assert event["data"] == {"pipeline": "plain", "batch_id": "01B", "event_no": delivery.event_no}
    assert (delivery.state, delivery.last_status, delivery.tries) == ("delivered", 204, 1)
    assert await sender.send_due() == 0


async def test_another_secret_or_another_body_does_not_verify(ledger, store, clock, sender, monkeypatch):
    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        (got,) = there.received
    verified_at(clock, monkeypatch)
    for secret, body in ((new_secret(lambda size: b"x" * size), got.body), (SECRET, got.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(body, got.headers)


async def test_a_repetition_has_the_old_name_and_bytes_and_a_new_moment(ledger, store, clock, sender):
    with receiver(Reply(500), Reply(200)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        clock.advance(5)
        await sender.send_due()
        first, second = there.received
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    moments = [int(one.headers["webhook-timestamp"]) for one in (first, second)]
    assert moments[1] - moments[0] == 5
    assert (await only(store)).state == "delivered"


async def test_tries_come_later_each_time_and_end(ledger, store, clock, sender):
    waits = []
    with receiver(Reply(500)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        while await sender.send_due():
            delivery = await only(store)
            if delivery.next_at is None:
                break
            assert delivery.last_error == "not accepted: the receiver answered 500"
            waits.append(round(delivery.next_at - clock.now()))
            clock.advance(waits[-1] - 1)
            assert await sender.send_due() == 0
            clock.advance(1)
        assert len(there.received) == 10
    assert waits == list(DELAYS_SECONDS)
    delivery = await only(store)
    assert (delivery.state, delivery.tries, delivery.last_status) == ("failed", 10, 500)
    clock.advance(10**6)
    assert await sender.send_due() == 0


@pytest.mark.parametrize(("fraction", "wait"), [(0.0, 4.5), (0.5, 5.0), (0.999999, 5.5)])
async def test_chance_spreads_the_waits(ledger, store, clock, fraction, wait):
    with receiver(Reply(500)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await made(store, clock, fraction=fraction).send_due()
    assert (await only(store)).next_at - clock.now() == pytest.approx(wait, abs=0.01)


async def test_the_number_of_tries_is_a_setting(ledger, store, clock):
    sender = made(store, clock, max_tries=1)
    with receiver(Reply(500)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
    assert (await only(store)).state == "failed"


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 422, 500, 502])
async def test_everything_but_a_success_is_tried_again(ledger, store, clock, sender, status):
    with receiver() as elsewhere, receiver(Reply(status, {"Location": elsewhere.url()})) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        assert elsewhere.received == []
    delivery = await only(store)
    assert (delivery.state, delivery.last_status) == ("waiting", status)
    assert str(status) in delivery.last_error


async def test_who_answers_gone_is_not_called_again(ledger, store, clock, sender):
    with receiver(Reply(410)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        await happen(ledger, clock, "01C")
        clock.advance(10**6)
        assert await sender.send_due() == 0
        assert len(there.received) == 1
    hook = await store.get_webhook("hook_1")
    assert hook.disabled_at is not None
    assert "410" in hook.disabled_reason
    delivery = await only(store)
    assert (delivery.state, delivery.last_status) == ("failed", 410)


@pytest.mark.parametrize(
    ("status", "told", "wait"),
    [
        (429, "60", 60),
        (503, "60", 60),
        (503, "1", 5),
        (429, "99999999999999999999", 86_400),
        (429, "soon", 5),
        (429, "-5", 5),
        (429, format_datetime(datetime.fromtimestamp(int(NOW) + 120, tz=UTC), usegmt=True), 120),
        (429, format_datetime(datetime.fromtimestamp(int(NOW) - 120, tz=UTC), usegmt=True), 5),
        (500, "60", 5),
    ],
)
async def test_who_asks_for_time_gets_it_within_bounds(ledger, store, clock, sender, status, told, wait):
    with receiver(Reply(status, {"Retry-After": told})) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
    assert (await only(store)).next_at - clock.now() == pytest.approx(wait, abs=1)


async def test_a_refusal_by_the_guard_is_final(ledger, store, clock):
    sender = made(store, clock, outgoing=OutgoingClient())
    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        assert there.received == []
    delivery = await only(store)
    assert (delivery.state, delivery.last_status) == ("failed", None)
    assert "allow_private" in delivery.last_error


async def test_where_nobody_listens_is_tried_again(ledger, store, clock, sender):
    with receiver() as there:
        await hooked(store, there)
    await happen(ledger, clock)
    await sender.send_due()
    delivery = await only(store)
    assert (delivery.state, delivery.last_status) == ("waiting", None)
    assert delivery.last_error.startswith("no connection")


async def test_a_hook_that_was_disabled_at_the_last_moment_is_not_called(ledger, store, clock):
    class Late:
        """Gives deliveries out, and only then is their hook disabled."""

        def __getattr__(self, name):
            return getattr(store, name)

        async def lease_deliveries(self, **asked):
            due = await store.lease_deliveries(**asked)
            await store.disable_webhook("hook_1", reason="moved", now=clock.now())
            return due

    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        assert await made(Late(), clock).send_due() == 1
        assert there.received == []
    assert (await only(store)).state == "failed"


async def test_a_try_that_could_not_be_told_is_made_again(ledger, store, clock):
    class Away:
        away = True

        def __getattr__(self, name):
            return getattr(store, name)

        async def record_try(self, no, **how):
            if self.away:
                self.away = False
                raise Unavailable("away")
            await store.record_try(no, **how)

    sender = made(Away(), clock)
    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        await sender.send_due()
        assert await sender.send_due() == 0
        clock.advance(75)
        await sender.send_due()
        assert len({one.headers["webhook-id"] for one in there.received}) == 1
        assert len(there.received) == 2
    assert (await only(store)).state == "delivered"


async def test_one_that_cannot_be_made_does_not_keep_the_others(ledger, store, clock, sender, caplog):
    with receiver() as there:
        await hooked(store, there)
        await store.add_webhook(Webhook(id="hook_2", url=there.url(), secret="whsec_!"))
        await happen(ledger, clock)
        assert await sender.send_due() == 2
        assert len(there.received) == 1
    states = {one.hook_id: one.state for one in await store.list_deliveries(limit=9)}
    assert states == {"hook_1": "delivered", "hook_2": "waiting"}
    assert "whsec_" not in caplog.text


async def test_no_more_go_at_once_than_set(ledger, store, clock):
    sender = made(store, clock, at_once=2)
    with receiver() as there:
        await hooked(store, there)
        for number in range(5):
            await happen(ledger, clock, f"01{number}")
        assert [await sender.send_due() for _ in range(4)] == [2, 2, 1, 0]
        assert len(there.received) == 5


class Overheard:
    """The store, with a signal for each try that is recorded."""

    def __init__(self, store):
        self._store = store
        self._told = asyncio.Semaphore(0)

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def record_try(self, no, **how):
        await self._store.record_try(no, **how)
        self._told.release()

    async def heard(self, number):
        async with asyncio.timeout(20):
            for _ in range(number):
                await self._told.acquire()


async def test_it_runs_until_it_is_stopped_and_a_slow_receiver_keeps_nobody(ledger, store, clock):
    overheard = Overheard(store)
    sender = made(overheard, clock, at_once=2)
    stop = asyncio.Event()
    with receiver(Reply(held=True)) as slow, receiver() as quick:
        await hooked(store, slow, "slow", kinds=("batch_opened",))
        await hooked(store, quick, "quick")
        await happen(ledger, clock)
        running = asyncio.ensure_future(sender.run(stop))
        await ledger.cancel(1, act(clock.now()))
        sender.wake()
        await quick.came(2)
        await overheard.heard(2)
        assert [one.state for one in await store.list_deliveries(hook_id="slow", limit=9)] == ["waiting"]
        slow.release()
        await overheard.heard(1)
        assert {one.state for one in await store.list_deliveries(limit=9)} == {"delivered"}
        stop.set()
        await running


async def test_what_is_being_sent_when_it_is_stopped_is_finished(ledger, store, clock):
    sender, stop = made(store, clock), asyncio.Event()
    with receiver(Reply(held=True)) as there:
        await hooked(store, there)
        await happen(ledger, clock)
        running = asyncio.ensure_future(sender.run(stop))
        await there.came(1)
        stop.set()
        there.release()
        await running
    assert (await only(store)).state == "delivered"


async def test_it_goes_on_when_the_ledger_was_away(ledger, store, clock):
    class Away(Overheard):
        times = 2

        async def lease_deliveries(self, **asked):
            if self.times:
                self.times -= 1
                sender.wake()  # or it would wait a while
                raise Unavailable("away")
            return await store.lease_deliveries(**asked)

    away = Away(store)
    sender, stop = made(away, clock), asyncio.Event()
    with receiver() as there:
        await hooked(store, there)
        await happen(ledger, clock)
        running = asyncio.ensure_future(sender.run(stop))
        await away.heard(1)
        stop.set()
        await running


async def test_stopped_before_it_began_it_ends_at_once(sender):
    stop = asyncio.Event()
    stop.set()
    await sender.run(stop)


async def test_the_events_data_are_plain_json(ledger, store, clock, sender):
    with receiver() as there:
        await happen(ledger, clock)
        await hooked(store, there, batch_id="01B")
        await ledger.cancel(1, act(clock.now()))
        await sender.send_due()
        event = json.loads(there.received[0].body)
    assert event["type"] == "quire.batch_cancelled"
    assert event["data"]["actor"] == "ann"
    assert event["data"]["reason"] == "because"
