"""Queues on Redis lists, plain and as RQ jobs: the suite, as far as a list that others share can keep it."""

from typing import ClassVar

import pytest
from msgspec import structs
from redis.asyncio import Redis

from quire.queues.port import MAX_MESSAGE_BYTES
from quire.queues.redis_lists import RedisListQueues
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service


class NamedByBody(RedisListQueues):
    """Plain lists have no ids; the messages of the suite say theirs, alone or at the end."""

    async def lease(self, queue, **options):
        return [renamed(one) for one in await super().lease(queue, **options)]

    async def peek(self, queue, **options):
        return [renamed(one) for one in await super().peek(queue, **options)]

    def _to_dead_letter(self, queue, name, stored, told):
        return renamed(super()._to_dead_letter(queue, name, stored, told))

    async def _run(self, script, queue, *values):
        if script == "resolve":
            values = [*values[:4], *(self._hashes.get(one, one) for one in values[4:])]
        return await super()._run(script, queue, *values)

    _hashes: ClassVar = {}


def renamed(one):
    name = one.body.decode("utf-8", "replace").rpartition(" ")[2]
    NamedByBody._hashes[name] = one.id
    return structs.replace(one, id=name)


class ListSuite(QueuesSuite):
    # A list is first in, first out.
    test_what_is_more_urgent_comes_first = None
    test_an_urgent_message_that_became_due_overtakes_what_waits = None
    test_looking_shows_the_order_of_delivery_and_changes_nothing = None
    # The sender's moment and priority are not in the list.
    test_a_message_is_delivered_and_once_acknowledged_never_again = None
    test_depth_tells_waiting_delayed_leased_and_dead_apart = None
    test_the_oldest_is_one_that_waits_or_is_out = None
    test_a_dead_letter_has_payload_and_history = None
    test_a_replayed_message_starts_again_and_keeps_its_history = None
    # An id is known for a day after it was sent, whatever became of its message.
    test_an_id_is_known_while_its_message_waits_or_is_out = None
    test_an_acknowledged_id_is_known_until_its_window_is_over = None
    test_what_is_discarded_is_gone_and_its_id_known_for_a_while = None
    test_a_dead_letter_stays_dead_and_its_id_is_known = None
    test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else = None
    test_purging_leaves_what_is_out_and_what_is_dead = None
    # Names of all lists of a server are not searched for.
    test_names_are_those_of_queues_with_messages = None


@pytest.fixture
async def url(redis_server):
    """An empty database of its own: lists have the names that everybody knows."""
    address = redis_server.removesuffix("/0") + "/7"
    async with Redis.from_url(address) as client:
        await client.flushdb()
    return address


class TestPlainLists(ListSuite):
    # Here the id is the hash of the body, which these messages share or do not show.
    test_of_one_id_the_first_message_counts = None
    test_a_body_may_hold_any_byte = None
    test_an_id_may_be_any_text = None
    test_what_went_wrong_may_be_any_text = None
    test_text_is_found_beside_bodies_that_are_none = None
    test_replayed_together_they_come_in_the_order_of_their_numbers = None

    @pytest.fixture
    async def queues(self, url):
        queues = NamedByBody(url, ids=CountingIds(), max_bytes=MAX_MESSAGE_BYTES)
        yield queues
        await queues.close()


class TestRqJobs(ListSuite):
    # Jobs of all queues share their ids.
    test_queues_do_not_mix = None
    # A job carries text.
    test_a_body_may_hold_any_byte = None
    test_text_is_found_beside_bodies_that_are_none = None

    @pytest.fixture
    async def queues(self, url):
        queues = RedisListQueues(url, ids=CountingIds(), max_bytes=MAX_MESSAGE_BYTES, rq_queues=("q", "p"))
        yield queues
        await queues.close()
