"""The settings that a bucket has for all: read with care, written by kind, weighed against one's own."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs.objects import BlobObjects
from quire.library import shared_config
from quire.library.context import LibraryContext, LibraryRules
from quire.library.protocol import layout
from quire.model.errors import Reject
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock


@pytest.fixture
def context():
    return new_room()


def new_room():
    blobs, ids = MemoryBlobs(), CountingIds()
    return LibraryContext(objects=BlobObjects(blobs, ids), blobs=blobs, clock=FakeClock(), ids=ids)


async def test_what_is_not_there_says_nothing(context):
    shared = await shared_config.read_config(context)
    assert (shared.values, shared.problems) == ({}, ())
    assert shared_config.merge_rules(LibraryRules(), shared, frozenset()) == LibraryRules()


async def test_the_bucket_counts_unless_this_machine_says_otherwise(context):
    said = {
        "max_retries": 7,
        "stale_timeout_minutes": 30,
        "conversion_timeout": 86400,
        "heartbeat_interval": 20,
    }
    await context.objects.put(layout.CONFIG, json.dumps(said).encode())
    shared = await shared_config.read_config(context)
    rules = shared_config.merge_rules(LibraryRules(), shared, frozenset())
    assert (rules.max_retries, rules.stale_seconds) == (7, 1800)
    assert (rules.conversion_seconds, rules.heartbeat_seconds) == (86400, 20)
    own = shared_config.merge_rules(LibraryRules(max_retries=1), shared, frozenset({"max_retries"}))
    assert (own.max_retries, own.stale_seconds) == (1, 1800)


async def test_a_worker_beats_often_enough_whatever_the_bucket_says(context):
    await context.objects.put(layout.CONFIG, b'{"stale_timeout_minutes": 1, "heartbeat_interval": 3600}')
    rules = shared_config.merge_rules(LibraryRules(), await shared_config.read_config(context), frozenset())
    assert rules.heartbeat_seconds == 20


async def test_nonsense_is_told_and_not_obeyed(context):
    await context.objects.put(layout.CONFIG, b'{"max_retries": -1, "conversion_timeout": "long", "x": 1}')
    shared = await shared_config.read_config(context)
    assert shared.values == {}
    assert len(shared.problems) == 2
    await context.objects.put(layout.CONFIG, b"no json")
    assert "cannot be read" in (await shared_config.read_config(context)).problems[0]


async def test_one_that_was_stored_as_true_counts_as_one(context):
    await context.objects.put(layout.CONFIG, b'{"max_retries": true}')
    assert (await shared_config.read_config(context)).values == {"max_retries": 1}


async def test_a_number_is_stored_as_a_number_and_what_is_unknown_is_kept(context):
    await context.objects.put(layout.CONFIG, b'{"theirs": [1]}')
    await shared_config.change_config(context, {"max_retries": "1", "s3_supports_conditional_writes": "1"})
    found = await context.objects.read(layout.CONFIG)
    assert found.body == b'{"theirs":[1],"max_retries":1,"s3_supports_conditional_writes":true}'


@pytest.mark.parametrize("pair", [("max_retries", "true"), ("max_retries", "1.5"), ("max_retries", "-1")])
async def test_what_a_key_cannot_be_is_refused(context, pair):
    with pytest.raises(Reject, match=r"max_retries must be a whole number from 0 to 1000"):
        await shared_config.change_config(context, dict([pair]))
    assert await context.objects.read(layout.CONFIG) is None


async def test_an_unknown_key_is_refused_with_those_there_are(context):
    with pytest.raises(Reject, match="max_retries, heartbeat_interval"):
        await shared_config.change_config(context, {"max_retry": "1"})


async def test_two_who_set_at_once_both_succeed(context):
    await asyncio.gather(
        shared_config.change_config(context, {"max_retries": "2"}),
        shared_config.change_config(context, {"conversion_timeout": "60"}),
    )
    assert (await shared_config.read_config(context)).values == {"max_retries": 2, "conversion_timeout": 60}


@given(
    st.binary(max_size=200)
    | st.dictionaries(
        st.sampled_from([*shared_config.SHARED_KEYS]),
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    ).map(lambda said: json.dumps(said).encode())
)
async def test_whatever_lies_there_gives_rules_within_their_limits(body):
    context = new_room()
    await context.objects.put(layout.CONFIG, body)
    rules = shared_config.merge_rules(LibraryRules(), await shared_config.read_config(context), frozenset())
    assert 0 <= rules.max_retries <= 1000
    assert isinstance(rules.max_retries, int)
    assert 1 <= rules.heartbeat_seconds <= max(1, rules.stale_seconds / 3)
    assert 0 < rules.conversion_seconds <= 604_800
