"""Twenty workers on one queue, in turns by chance, each request a turn: what they cost each other."""

import asyncio
import hashlib
import random

import pytest
from msgspec import structs
from tests.situations.libraries import CountingObjects, list_keys, memory_library

from quire.library.protocol import layout, lifecycle
from quire.library.worker.picker import JobPicker
from quire.testing.time import CountingIds, FakeClock

WORKERS = 20


class Chancy(CountingIds):
    def __init__(self, chance):
        super().__init__()
        self._chance = chance

    def fraction(self):
        return self._chance.random()


class TurnByTurn(CountingObjects):
    """Others may do something between any two requests."""

    def __init__(self, objects, chance):
        super().__init__(objects)
        self._chance = chance

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in {"read", "head", "create", "create_file", "swap", "put", "delete"}:
            return found

        async def in_turn(*given, **named):
            for _ in range(self._chance.randrange(1, 5)):
                await asyncio.sleep(0)
            return await found(*given, **named)

        return in_turn


@pytest.mark.parametrize(("jobs", "most"), [(200, 10), pytest.param(1500, 8, marks=pytest.mark.slow)])
async def test_workers_stay_out_of_each_others_way(tmp_path, jobs, most):
    chance = random.Random(20261116)
    context = memory_library(clock=FakeClock(), ids=CountingIds())
    objects = TurnByTurn(context.objects, chance)
    context = structs.replace(context, objects=objects)
    result = tmp_path / "result.zip"
    result.write_bytes(b"zip")
    for number in range(jobs):
        ident = hashlib.sha256(str(number).encode()).hexdigest()
        context.blobs.store(layout.todo("3_normal", ident), b"")
    done = []

    async def worker(name):
        picker = JobPicker(objects, context.clock, Chancy(chance), salt=name)
        while (candidate := await picker.pick()) is not None:
            held = await context.perform(lifecycle.claim(candidate, context.actor(name)))
            if held is None:
                picker.skip(candidate)
                continue
            picker.reset_misses()
            for _ in range(chance.randrange(100)):
                await asyncio.sleep(0)
            if await context.perform(lifecycle.finish(held), result=result):
                done.append(candidate.id)

    await asyncio.gather(*(worker(f"w{number}") for number in range(WORKERS)))
    assert len(done) == len(set(done)) == jobs
    assert await list_keys(context) == []
    # Alone it would be five: the source is not fetched here.
    assert objects.counts.total() / jobs <= most
