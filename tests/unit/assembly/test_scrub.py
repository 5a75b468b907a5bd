"""The scrub beside a server: when it begins, who does it, and who continues it."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from quire.assembly.components import open_components
from quire.assembly.scrub import DAY_SECONDS, ScrubRequest, load_scrub, scrub_regularly, scrub_store
from quire.blobs import content, keys
from quire.blobs.scrub_record import ScrubRecord, ScrubStore
from quire.settings import load
from quire.testing.time import FakeClock


@pytest.fixture
async def house(tmp_path):
    text = {"QUIRE_HOME": str(tmp_path / "home"), "QUIRE_SCRUB_EVERY_DAYS": "2"}
    settings = load(text | {"QUIRE_SCRUB_MEGABYTES_PER_SECOND": "0"}, tmp_path).settings
    async with open_components(settings, pipelines={}) as components:
        clock = FakeClock()
        yield settings, structs.replace(components, clock=clock), clock


@asynccontextmanager
async def scrubbing(settings, components, **options):
    """It runs; what it saves wakes whoever waits."""
    saved, stop = asyncio.Event(), asyncio.Event()
    put = components.blobs.put

    async def note(key, *given, **named):
        done = await put(key, *given, **named)
        if key == keys.SCRUB:
            saved.set()
        return done

    components.blobs.put = note
    task = asyncio.ensure_future(
        scrub_regularly(settings, components, stop, look_again_seconds=0.01, **options)
    )
    try:
        yield saved
    finally:
        stop.set()
        await task
        del components.blobs.put


async def finished_at(settings, saved):
    async with asyncio.timeout(30):
        while True:
            await saved.wait()
            saved.clear()
            record = await load_scrub(settings)
            if record.position is None:
                return record.last.finished_at


async def test_a_pass_begins_at_once_and_again_after_so_many_days(house):
    settings, components, clock = house
    await content.put_bytes(components.blobs, b"a blob")
    async with scrubbing(settings, components) as saved:
        first = await finished_at(settings, saved)
        assert first == clock.now()
        clock.advance(2 * DAY_SECONDS - 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await saved.wait()
        clock.advance(1)
        assert await finished_at(settings, saved) == first + 2 * DAY_SECONDS


async def test_a_pass_of_a_dead_member_is_continued_after_a_while(house):
    settings, components, clock = house
    await content.put_bytes(components.blobs, b"a blob")
    dead = ScrubRecord(owner="elsewhere", started_at=5.0, position="cas/ff/")
    dead.counts.blobs = 7
    await ScrubStore(components.blobs).save(dead)
    async with scrubbing(settings, components, taken_over_after_seconds=90) as saved:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await saved.wait()
        clock.advance(91)
        await finished_at(settings, saved)
    last = (await load_scrub(settings)).last
    assert (last.started_at, last.counts.blobs) == (5.0, 7), "what lies before the position is not read again"


async def test_a_pass_that_was_stopped_is_continued_at_once(house):
    settings, components, _ = house
    stopped = ScrubRecord(started_at=5.0, position="cas/ff/")
    await ScrubStore(components.blobs).save(stopped)
    async with scrubbing(settings, components) as saved:
        await finished_at(settings, saved)
    assert (await load_scrub(settings)).last.started_at == 5.0


async def test_a_pass_that_is_at_work_elsewhere_is_left_alone(house):
    settings, components, clock = house
    other = ScrubStore(components.blobs)
    record = ScrubRecord(owner="elsewhere", started_at=5.0, position="cas/0")
    await other.save(record)
    async with scrubbing(settings, components, taken_over_after_seconds=90) as saved:
        for number in range(4):
            saved.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await saved.wait()
            clock.advance(60)
            record.position = f"cas/{number}"
            await other.save(record)
            # It has to see this one before more time goes by.
            await asyncio.sleep(0.1)


async def test_without_the_setting_nothing_is_read(house):
    settings, components, _ = house
    off = structs.replace(settings, scrub=structs.replace(settings.scrub, every_days=0.0))
    await scrub_regularly(off, components, asyncio.Event())
    assert (await load_scrub(settings)).last is None


async def test_a_command_takes_a_pass_over(house):
    settings, components, _ = house
    await ScrubStore(components.blobs).save(ScrubRecord(owner="serve", started_at=5.0, position="cas/ff/"))
    request = ScrubRequest(megabytes_per_second=0)
    result = await scrub_store(settings, components, request, asyncio.Event())
    assert (result.finished, result.started_at) == (True, 5.0)


async def test_from_the_start_means_everything(house):
    settings, components, clock = house
    await content.put_bytes(components.blobs, b"a blob")
    await ScrubStore(components.blobs).save(ScrubRecord(owner="serve", started_at=5.0, position="cas/ff/"))
    request = ScrubRequest(megabytes_per_second=0, from_start=True)
    result = await scrub_store(settings, components, request, asyncio.Event())
    assert (result.started_at, result.counts.blobs) == (clock.now(), 1)
