"""What a server left behind, read with the product's own adapters: messages, manifests, bytes, events."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.acceptance.ingest.conftest import Server

from quire.assembly.components import Components, open_components
from quire.engine.outbox import Outbox
from quire.queues.port import QueueCounter
from quire.settings import Settings, load

PREPROCESS, BATCH = "arke-preprocess-jobs", "arke-batch-jobs"


def settings_of(server: Server) -> Settings:
    return load({**server.environment, "QUIRE_HOME": str(server.home)}, server.folder).settings


def at_home(server: Server, work: Callable[[Components], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        async with open_components(settings_of(server)) as office:
            return await work(office)

    return asyncio.run(opened())


async def _relay(office: Components) -> None:
    await Outbox(
        office.outbox,
        office.batches,
        office.records,
        office.control,
        office.queues,
        office.blobs,
        office.clock,
    ).send()


def messages(server: Server, queue: str, batch: str) -> list[dict[str, Any]]:
    """Those about the batch that lie in the queue. What waits in the outbox is sent first."""

    async def look(office: Components) -> list[dict[str, Any]]:
        await _relay(office)
        lying = await office.queues.peek(queue, limit=10_000, now=office.clock.now())
        bodies = [json.loads(one.body) for one in lying]
        return [body for body in bodies if body["batch_id"] == batch]

    return at_home(server, look)


def ever_sent(server: Server, queue: str) -> int:
    async def look(office: Components) -> int:
        await _relay(office)
        return (await office.queues.counters(queue)).get(QueueCounter.SENT, 0)

    return at_home(server, look)


def blob(server: Server, key: str) -> bytes:
    return at_home(server, lambda office: office.blobs.get(key))


def blobs(server: Server, keys: list[str]) -> list[bytes]:
    async def read(office: Components) -> list[bytes]:
        return [await office.blobs.get(key) for key in keys]

    return at_home(server, read)


def keys_below(server: Server, prefix: str) -> list[str]:
    async def walk(office: Components) -> list[str]:
        return [stored.key async for stored in office.blobs.list(prefix)]

    return at_home(server, walk)


def manifest(server: Server, batch: str, name: str = "_manifest.json") -> dict[str, Any]:
    return json.loads(blob(server, f"staging/{batch}/{name}"))
