"""Start messages follow the policy of their queue, and lose no delivery when the ledger is away."""

import pytest

from quire.engine.outbox import MAX_DELIVERIES, Outbox
from quire.ledger.port import OutboxMessage
from quire.model.errors import Missing, Unavailable
from quire.model.queues import QueuePolicy
from quire.queues.port import Message
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import FakeClock

BODY = b'{"batch_id": "01B", "manifest_r2_key": "m"}'


class Strangers:
    """A ledger that knows no batch; or that is away."""

    def __init__(self):
        self.away = False
        self.unsent = []

    async def list_unsent(self, limit, *, after=0):
        return [one for one in self.unsent if one.no > after][:limit]

    async def mark_sent(self, numbers):
        self.unsent = [one for one in self.unsent if one.no not in numbers]

    async def get_batch(self, batch_id):
        if self.away:
            raise Unavailable("the ledger restarts")
        raise Missing(f"no batch {batch_id}", code="unknown_batch")


class Post:
    def __init__(self):
        self.ledger, self.queues, self.clock = Strangers(), MemoryQueues(), FakeClock()

    def mail(self, **options):
        return Outbox(
            self.ledger,
            self.ledger,
            self.ledger,
            self.ledger,
            self.queues,
            MemoryBlobs(),
            self.clock,
            **options,
        )

    async def send(self, queue, *ids):
        await self.queues.send(queue, [Message(id=one, body=BODY) for one in ids], now=self.clock.now())

    async def peek(self, queue):
        return await self.queues.peek(queue, limit=9, now=self.clock.now())

    async def deliveries_until_dead(self, mail, queue):
        await self.send(queue, "m")
        for tried in range(1, 20):
            await mail.start_batches(queue)
            if await self.queues.count_dead_letters(queue):
                return tried
            self.clock.advance(3600)
        return None


@pytest.fixture
def post():
    return Post()


async def test_the_queue_s_own_policy_counts(post):
    policies = {"q": QueuePolicy(name="q", max_retries=5)}
    assert await post.deliveries_until_dead(post.mail(policies=policies), "q") == 6


async def test_a_known_queue_has_its_three_retries_and_any_other_three_deliveries(post):
    assert await post.deliveries_until_dead(post.mail(), "arke-preprocess-jobs") == 4
    assert await post.deliveries_until_dead(post.mail(), "any") == MAX_DELIVERIES == 3


async def test_delays_are_exact_where_the_policy_says_so_and_else_by_backoff_and_chance(post):
    exact = post.mail(policies={"q": QueuePolicy(name="q", delays_seconds=(60.0,))})
    await post.send("q", "m")
    await exact.start_batches("q")
    (waiting,) = await post.peek("q")
    assert waiting.due_at == post.clock.now() + 60
    await post.send("p", "m")
    await post.mail(policies={"p": QueuePolicy(name="p")}, fraction=lambda: 0.5).start_batches("p")
    (waiting,) = await post.peek("p")
    assert waiting.due_at == post.clock.now() + 1.5


async def test_the_dead_letter_has_the_class_and_every_error(post):
    await post.deliveries_until_dead(post.mail(), "any")
    (message,) = await post.queues.list_dead_letters("any", limit=9)
    assert message.error_class == "unknown_batch"
    assert [trial.error_class for trial in message.history] == ["unknown_batch"] * 3


async def test_a_ledger_that_is_away_uses_up_no_delivery_of_any_message(post):
    await post.send("q", "a", "b", "c")
    post.ledger.away = True
    for _ in range(10):
        with pytest.raises(Unavailable):
            await post.mail().start_batches("q")
    assert [(one.deliveries, one.leased_to) for one in await post.peek("q")] == [(0, None)] * 3


async def test_messages_under_a_former_name_are_read_too(post):
    post.ledger.unsent = [OutboxMessage(no=1, queue="preprocess", message_id="old", body=BODY)]
    await post.send("arke-preprocess-jobs", "new")
    await post.mail().start_batches("arke-preprocess-jobs")
    assert [one.deliveries for one in await post.peek("preprocess")] == [1]
    assert [one.deliveries for one in await post.peek("arke-preprocess-jobs")] == [1]
