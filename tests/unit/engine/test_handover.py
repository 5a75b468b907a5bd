"""A batch that another pipeline goes on with: its manifest and its message at the end."""

import json

import pytest
from msgspec import structs
from tests.situations.plans import phase, plan, product, step

from quire.engine import flow_moves, handover, manifest
from quire.ledger.port import TaskSelection
from quire.model.batch import Stage
from quire.model.errors import Retry, Stale
from quire.model.files import Change, folder_of
from quire.model.manifest import check, files
from quire.model.work import Outcome, StepResult
from quire.testing.factories import batch as some_batch

ID = "0" * 26
NEXT = "arke-batch-jobs"
NAMES = ["b/y.tif", "a/x.tif", "a/bad.tif", "top.txt", "a/c/z.tif"]


async def ignore(_batch):
    return None


async def nobody_asks():
    return None


TWO = plan(
    phase(step("one", "*.tif", cached=False, tags=("source",))), phase(step("two", "*.jpg", cached=False))
)


def making(*bad):
    def judge(order):
        if order.file.path in bad:
            return Outcome.REJECTED, None
        made = product("jpg", Change.JOIN, tags=("made",))
        if order.file.name.endswith(".jpg"):
            made = product("ref", Change.REPLACE, tags=("ref",))
        return Outcome.DONE, StepResult(products=(structs.replace(made, key=f"cas/{order.task_no}"),))

    return judge


async def told(small):
    """The bodies of the messages to the next pipeline."""
    leased = await small.queues.lease(NEXT, limit=9, seconds=1.0, now=small.clock.now())
    assert all(one.id == f"handover-{ID}" for one in leased)
    return [json.loads(one.body) for one in leased]


async def listed(small, batch, key=None):
    return list(files(check(await small.blobs.get(key or batch.manifest_key), batch.id)))


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr(flow_moves, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(handover, "ROWS_AT_ONCE", 2)


async def test_the_final_list_takes_the_place_of_the_first_and_the_message_has_its_totals(small):
    batch = await small.submit(TWO, NAMES, hands_over_to=NEXT)
    first = await small.blobs.get(batch.manifest_key)
    batch = await small.loop(TWO, making("a/bad.tif")).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE, batch.error
    await small.loop(TWO)._scheduler._outbox.send()

    found = await listed(small, batch)
    assert [(one.path, one.tags, one.source_file) for one in found] == [
        ("top.txt", (), None),
        ("a/bad.tif", (), None),  # what failed passes unchanged
        ("a/x.tif", ("source",), None),
        ("a/x.tif.jpg.ref", ("ref",), "x.tif.jpg"),
        ("a/c/z.tif", ("source",), None),
        ("a/c/z.tif.jpg.ref", ("ref",), "z.tif.jpg"),
        ("b/y.tif", ("source",), None),
        ("b/y.tif.jpg.ref", ("ref",), "y.tif.jpg"),
    ]
    plain = json.loads(await small.blobs.get(batch.manifest_key))
    assert [one["directory_path"] for one in plain["directories"]] == ["/", "/a", "/a/c", "/b"]
    assert await small.blobs.get(handover.original_key(batch.manifest_key)) == first

    original = json.loads(await small.ledger.get_start_message(batch.no))
    (message,) = await told(small)
    assert message == original | {"total_files": len(found), "total_bytes": sum(file.size for file in found)}
    assert list(message) == list(original)
    events = [
        data
        for _, _, kind, data in await small.ledger.list_events(batch.no, limit=99)
        if kind == "batch_done"
    ]
    assert events == [{"round": 1, "handed_over_to": NEXT}]


async def test_a_later_round_brings_the_manifest_up_to_date_and_sends_nothing(small):
    batch = await small.submit(TWO, NAMES, hands_over_to=NEXT)
    first = await small.blobs.get(batch.manifest_key)
    batch = await small.loop(TWO, making("a/bad.tif")).run_batch(ID, ignore)
    await small.ledger.retry_flow(batch, TaskSelection(), small.act(), waiting=[], names=["ONE", "TWO"])
    batch = await small.loop(TWO, making(), name="second").run_batch(ID, ignore)
    assert (batch.position.stage, batch.position.round) == (Stage.DONE, 2)
    found = {one.path for one in await listed(small, batch)}
    assert {"a/bad.tif", "a/bad.tif.jpg.ref", "a/x.tif.jpg.ref"} <= found
    await small.loop(TWO)._scheduler._outbox.send()
    assert len(await told(small)) == 1
    assert await small.blobs.get(handover.original_key(batch.manifest_key)) == first


async def test_a_pipeline_that_takes_nothing_hands_over_what_it_was_given(small):
    nothing = plan(phase(step("one", "*.none")))
    batch = await small.submit(nothing, NAMES, hands_over_to=NEXT)
    batch = await small.loop(nothing).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE, batch.error
    assert sorted(one.path for one in await listed(small, batch)) == sorted(NAMES)


async def test_a_batch_that_is_not_handed_over_keeps_its_manifest(small):
    batch = await small.submit(TWO, NAMES)
    first = await small.blobs.get(batch.manifest_key)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert await small.blobs.get(batch.manifest_key) == first
    assert [one.key async for one in small.blobs.list(f"batches/{ID}")] == [batch.manifest_key]


async def test_a_message_too_large_ends_the_batch_with_the_advice_and_sends_nothing(small, monkeypatch):
    monkeypatch.setattr(handover, "MAX_MESSAGE_BYTES", 100)
    await small.submit(TWO, NAMES, hands_over_to=NEXT)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.ERROR
    assert "the limit is 100: submit the batch again with shorter prompts" in batch.error
    await small.loop(TWO)._scheduler._outbox.send()
    assert await told(small) == []
    # With room for it, it goes on where it stood.
    monkeypatch.undo()
    await small.ledger.reopen(batch.no, small.act(), status="TWO")
    batch = await small.loop(TWO, making(), name="second").run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE
    await small.loop(TWO)._scheduler._outbox.send()
    assert len(await told(small)) == 1


async def test_what_is_in_the_message_beside_the_totals_is_not_touched():
    original = '{"total_files":1,"x":1.50,"y":"\\u00e9","z":{"b":1,"a":[]},"total_bytes":9}'
    writer = handover.ManifestWriter(ID)
    writer.total_files, writer.total_bytes = 12, 345
    said = handover._message(some_batch(hands_over_to=NEXT), original, writer)
    assert said.decode() == '{"total_files":12,"x":1.50,"y":"\\u00e9","z":{"b":1,"a":[]},"total_bytes":345}'


@pytest.mark.parametrize("held", [10, 10**9])
async def test_large_manifests_are_written_all_the_same(small, monkeypatch, held):
    monkeypatch.setattr(handover, "HELD_BYTES", held)
    await small.submit(TWO, NAMES, hands_over_to=NEXT)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE
    found = [folder_of(one.path) for one in await listed(small, batch)]
    assert found == sorted(found)
    kept = await listed(small, batch, handover.original_key(batch.manifest_key))
    assert sorted(one.path for one in kept) == sorted(NAMES)


@pytest.mark.parametrize("held", [10, 10**9])
async def test_who_was_overtaken_writes_over_nothing(small, monkeypatch, held):
    """It goes on after others have ended the round, and even another round."""
    monkeypatch.setattr(handover, "HELD_BYTES", held)
    await small.submit(TWO, NAMES, hands_over_to=NEXT)
    stands = []

    async def overtaken(batches, files, blobs, batch, known, alive):
        stands.append(batch)
        return await hand_over(batches, files, blobs, batch, known, alive)

    hand_over = handover.hand_over
    monkeypatch.setattr(handover, "hand_over", overtaken)
    batch = await small.loop(TWO, making("a/bad.tif")).run_batch(ID, ignore)
    before = await small.blobs.get(batch.manifest_key)
    with pytest.raises(Stale):
        await hand_over(small.ledger, small.ledger, small.blobs, stands[0], len(TWO.phases), nobody_asks)
    assert await small.blobs.get(batch.manifest_key) == before


async def test_a_manifest_written_by_somebody_else_meanwhile_is_not_overwritten(small, monkeypatch):
    batch = await small.submit(TWO, NAMES, hands_over_to=NEXT)
    standing = small.ledger.get_positions
    seen = []

    async def meanwhile(numbers):
        if not seen:
            seen.append(True)
            await small.blobs.put(batch.manifest_key, b"another list")
        return await standing(numbers)

    small.ledger.get_positions = meanwhile
    written = []

    async def refused(*arguments):
        try:
            return await hand_over(*arguments)
        except Stale:
            written.append(await small.blobs.get(batch.manifest_key))
            raise

    hand_over = handover.hand_over
    monkeypatch.setattr(handover, "hand_over", refused)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE
    assert written == [b"another list"]
    assert len(await listed(small, batch)) == 9


@pytest.fixture
def slowly(small, monkeypatch):
    """Reading the final list takes three seconds a page."""
    page = handover._Listing.page

    async def slow(self, after, limit):
        small.clock.advance(3.0)
        return await page(self, after, limit)

    monkeypatch.setattr(handover._Listing, "page", slow)


async def test_who_hands_over_a_long_list_shows_that_it_lives(small, monkeypatch, slowly):
    await small.submit(TWO, NAMES, hands_over_to=NEXT)
    beats = []
    beat, hand_over = small.ledger.record_heartbeat, handover.hand_over

    async def counted(member, *, now):
        beats.append(now)
        return await beat(member, now=now)

    async def watched(*arguments):
        before = len(beats)
        message = await hand_over(*arguments)
        assert len(beats) > before + 2
        return message

    monkeypatch.setattr(small.ledger, "record_heartbeat", counted)
    monkeypatch.setattr(handover, "hand_over", watched)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE, batch.error


async def test_who_is_taken_for_dead_meanwhile_leaves_it_to_others(small, monkeypatch, slowly):
    await small.submit(TWO, NAMES, hands_over_to=NEXT)
    hand_over = handover.hand_over
    tries = []

    async def dismissed(*arguments):
        if not tries:
            for member in await small.ledger.list_members():
                await small.ledger.remove_member(member.no)
        try:
            message = await hand_over(*arguments)
        except Stale as error:
            tries.append(str(error))
            raise
        tries.append("handed over")
        return message

    monkeypatch.setattr(handover, "hand_over", dismissed)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE, batch.error
    assert tries == ["another process moves this batch by now", "handed over"]
    await small.loop(TWO)._scheduler._outbox.send()
    assert len(await told(small)) == 1


async def test_a_store_that_is_away_puts_the_end_off(small, monkeypatch):
    batch = await small.submit(TWO, NAMES, hands_over_to=NEXT)
    put = small.blobs.put
    faults = []

    async def torn(key, *arguments, **named):
        if len(faults) < 2:
            faults.append(key)
            raise Retry("the store is away")
        return await put(key, *arguments, **named)

    monkeypatch.setattr(small.blobs, "put", torn)
    batch = await small.loop(TWO, making()).run_batch(ID, ignore)
    assert batch.position.stage is Stage.DONE
    assert faults == [handover.original_key(batch.manifest_key)] * 2


async def test_filling_reads_the_first_manifest_wherever_the_batch_stood(small):
    batch = await small.submit(TWO, NAMES, hands_over_to=NEXT)
    first = await small.blobs.get(batch.manifest_key)
    await small.blobs.put(handover.original_key(batch.manifest_key), first)
    await small.blobs.put(batch.manifest_key, b'{"half')
    assert (await manifest.read_manifest(small.blobs, batch)).total_files == len(NAMES)
