"""Letters go out once as seen by the consumer; a batch is started once, or its dead letter says why."""

import msgspec
import pytest

from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.engine.outbox import LEASE_SECONDS, MAX_DELIVERIES, MESSAGES_AT_ONCE, Outbox, StartMessage
from quire.ledger.port import OperatorAction, OutboxMessage
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Stage
from quire.model.errors import Unavailable
from quire.queues.port import DAMAGED, Message
from quire.queues.routed import RoutedQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.factories import draft, outbox_message
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import CountingIds, FakeClock


class Post:
    def __init__(self, database, tmp_path):
        self.ledger = SqliteLedger(database)
        self.queues = SqliteQueues(database, CountingIds())
        self.blobs = LocalBlobs(tmp_path / "blobs")
        self.clock = FakeClock()
        self.mail = Outbox(
            self.ledger, self.ledger, self.ledger, self.ledger, self.queues, self.blobs, self.clock
        )

    async def finalized(self):
        batch = await self.ledger.open_batch(draft())
        return await self.ledger.close_batch(
            batch.no, manifest_key="m", total_files=0, message=outbox_message(), now=self.clock.now()
        )

    async def stage(self):
        return (await self.ledger.get_batch("01B")).position.stage


@pytest.fixture
async def post(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    post = Post(database, tmp_path)
    await post.ledger.prepare()
    await post.queues.prepare()
    yield post
    await database.close()


async def test_a_finalized_batch_is_started_through_outbox_and_queue(post):
    await post.blobs.put("m", b"{}")
    await post.finalized()
    assert await post.mail.start_batches("plain") == 1
    assert await post.stage() is Stage.FILLING
    assert await post.ledger.list_unsent(10) == []
    assert await post.mail.start_batches("plain") == 0


async def test_a_letter_sent_twice_is_one_message(post):
    await post.blobs.put("m", b"{}")
    await post.finalized()
    (waiting,) = await post.ledger.list_unsent(10)
    # The crash after sending and before noting it.
    await post.queues.send("plain", [Message(id=waiting.message_id, body=waiting.body)], now=post.clock.now())
    assert await post.mail.start_batches("plain") == 1
    post.clock.advance(10 * LEASE_SECONDS)
    assert await post.mail.start_batches("plain") == 0


async def test_a_conductor_that_died_before_acknowledging_starts_nothing_twice(post):
    await post.blobs.put("m", b"{}")
    await post.finalized()
    await post.mail.send()
    (leased,) = await post.queues.lease("plain", limit=1, seconds=LEASE_SECONDS, now=post.clock.now())
    await post.mail._begin(msgspec.json.decode(leased.body, type=StartMessage), original=True)
    post.clock.advance(LEASE_SECONDS)
    assert await post.mail.start_batches("plain") == 1  # delivered again, acknowledged, changes nothing
    kinds = [kind for _, _, kind, _ in await post.ledger.list_events(1, limit=99)]
    assert kinds.count("batch_started") == 1


async def test_a_missing_manifest_is_waited_for_and_then_given_up_with_the_reason(post):
    await post.finalized()
    for _ in range(MAX_DELIVERIES):
        assert await post.stage() is Stage.QUEUED
        await post.mail.start_batches("plain")
        post.clock.advance(60)
    assert await post.stage() is Stage.ERROR
    assert "could not start" in (await post.ledger.get_batch("01B")).error
    assert (await post.queues.depth("plain", now=post.clock.now())).dead == 1


async def test_a_manifest_that_comes_late_is_found(post):
    await post.finalized()
    await post.mail.start_batches("plain")
    await post.blobs.put("m", b"{}")
    post.clock.advance(60)
    assert await post.mail.start_batches("plain") == 1
    assert await post.stage() is Stage.FILLING


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"batch_id": 7}'])
async def test_poison_is_buried_at_once_and_the_others_go_on(post, body):
    await post.queues.send("plain", [Message(id="poison", body=body)], now=post.clock.now())
    await post.blobs.put("m", b"{}")
    await post.finalized()
    assert await post.mail.start_batches("plain") == 1
    assert (await post.queues.depth("plain", now=post.clock.now())).dead == 1


async def test_a_batch_in_error_is_taken_up_again_by_its_message(post):
    await post.blobs.put("m", b"{}")
    batch = await post.finalized()
    await post.mail.start_batches("plain")
    await post.ledger.reset(batch.no, OperatorAction(actor="operator", reason="stuck", now=post.clock.now()))
    assert await post.stage() is Stage.ERROR
    await post.queues.send(
        "plain", [Message(id="once more", body=outbox_message().body)], now=post.clock.now()
    )
    await post.mail.start_batches("plain")
    assert await post.stage() is Stage.FILLING
    acts = [data.get("actor") for _, _, _, data in await post.ledger.list_events(1, limit=99)]
    assert acts[-2:] == ["operator", "queue"]


async def test_the_message_that_was_on_its_way_does_not_undo_a_reset(post):
    await post.blobs.put("m", b"{}")
    batch = await post.finalized()
    await post.ledger.reset(batch.no, OperatorAction(actor="operator", reason="no", now=post.clock.now()))
    await post.mail.start_batches("plain")
    assert await post.stage() is Stage.ERROR
    assert (await post.queues.depth("plain", now=post.clock.now())).waiting == 0


async def spoil(post, column="body"):
    """A bit of every waiting start message changes on the disk."""

    def work(connection):
        for no, value in connection.execute(f"SELECT no, {column} FROM messages").fetchall():  # noqa: S608
            changed = bytearray(value)
            changed[3] ^= 1
            connection.execute(f"UPDATE messages SET {column} = ? WHERE no = ?", (bytes(changed), no))  # noqa: S608

    await post.queues._database.write(work)


async def test_a_batch_whose_start_message_was_damaged_is_started_from_the_ledger(post):
    await post.blobs.put("m", b"{}")
    await post.finalized()
    await post.mail.send()
    await spoil(post)
    assert await post.mail.start_batches("plain") == 1
    assert await post.stage() is Stage.FILLING
    assert await post.queues.count_dead_letters("plain") == {DAMAGED: 1}
    assert await post.mail.start_batches("plain") == 0


async def test_a_damaged_message_of_an_unknown_batch_stays_a_dead_letter(post):
    await post.queues.send(
        "plain", [Message(id=name, body=b"body") for name in ("start-other", "x", "start-")], now=0
    )
    await spoil(post)
    assert await post.mail.start_batches("plain") == 0
    assert await post.queues.count_dead_letters("plain") == {DAMAGED: 3}


async def test_a_damaged_start_message_replayed_after_the_batch_began_changes_nothing(post):
    await post.blobs.put("m", b"{}")
    await post.finalized()
    await post.mail.send()
    await spoil(post)
    await post.mail.start_batches("plain")
    await post.queues.replay("plain", now=post.clock.now(), limit=9)
    assert await post.mail.start_batches("plain") == 0
    kinds = [kind for _, _, kind, _ in await post.ledger.list_events(1, limit=99)]
    assert kinds.count("batch_started") == 1


class TestElsewhere:
    """Messages for a server of their own, which is away."""

    @pytest.fixture
    def far(self, post):
        other = MemoryQueues()
        queues = RoutedQueues(post.queues, other, lambda name: name == "far", post.clock)
        stores = (post.ledger, post.ledger, post.ledger, post.ledger)
        post.mail = Outbox(*stores, queues, post.blobs, post.clock, is_elsewhere=lambda name: name == "far")
        return other

    async def to_send(self, post, number, queue="far"):
        batch = await post.ledger.open_batch(draft(f"B{number}"))
        message = OutboxMessage(queue=queue, message_id=f"m{number}", body=b"{}")
        await post.ledger.close_batch(
            batch.no, manifest_key="m", total_files=0, message=message, now=post.clock.now()
        )

    async def test_they_stay_and_hold_up_nothing_else(self, post, far):
        far.away = True
        for number in range(MESSAGES_AT_ONCE + 5):
            await self.to_send(post, number)
        await post.blobs.put("m", b"{}")
        await post.finalized()
        assert await post.mail.start_batches("plain") == 1
        assert len(await post.ledger.list_unsent(999)) == MESSAGES_AT_ONCE + 5

    async def test_they_are_sent_each_once_when_it_is_back(self, post, far):
        far.away = True
        for number in range(3):
            await self.to_send(post, number)
        await post.mail.send()
        far.away = False
        await post.mail.send()  # too early: it was away a moment ago
        assert len(await post.ledger.list_unsent(9)) == 3
        post.clock.advance(60)
        await post.mail.send()
        await post.mail.send()
        assert await post.ledger.list_unsent(9) == []
        leased = await far.lease("far", limit=9, seconds=9, now=post.clock.now())
        assert [one.id for one in leased] == ["m0", "m1", "m2"]

    async def test_without_such_a_server_an_outage_is_told(self, post, far):
        far.away = True
        stores = (post.ledger, post.ledger, post.ledger, post.ledger)
        post.mail = Outbox(*stores, far, post.blobs, post.clock)
        await self.to_send(post, 1)
        with pytest.raises(Unavailable):
            await post.mail.send()
