"""`quire serve` put together: the API, and in the same process a conductor and workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec import Struct

from quire.access.api_keys import KeyChecker
from quire.api.app import build_app
from quire.api.authentication import Gate
from quire.api.server import listening, serve
from quire.api.tables import ROUTES
from quire.assembly.api import (
    anonymous_allowed,
    build_desk,
    build_messenger,
    own_hosts,
)
from quire.assembly.batches import open_house, open_office
from quire.assembly.engine_task import conduct
from quire.assembly.presigned import cleaning_terms, open_landing
from quire.assembly.queues import queue_policies
from quire.assembly.remote import Pushing
from quire.batches.context import BatchContext
from quire.blobs.presigned import PresignedUploads
from quire.engine.loop import EngineLoop
from quire.engine.outbox import Outbox
from quire.ingest.cleanup import clean
from quire.model.errors import Retry, Stale
from quire.settings import Settings
from quire.system import LoopSignal

AGAIN_SECONDS = 5.0
RELAY_SECONDS = 2.0  # the net: whoever puts something into the outbox wakes us

_log = logging.getLogger("quire.serve")

Trouble = Callable[[str | None], None]


class Plan(Struct, frozen=True, kw_only=True):
    """What this process does. `workers` None: as many as the settings say."""

    api_only: bool = False
    workers: int | None = None


class Started(Struct, frozen=True, kw_only=True):
    url: str
    anonymous: bool
    warnings: tuple[str, ...]


async def run_server(
    settings: Settings,
    plan: Plan,
    stop: asyncio.Event,
    *,
    started: Callable[[Started], None],
    trouble: Trouble,
) -> None:
    """Until `stop`. Raises Misconfigured when it cannot or must not start."""
    host = settings.serve.host
    sock = listening(host, settings.serve.port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{sock.getsockname()[1]}"
    pushing = Pushing(settings, settings.serve.public_url or _reached(url))
    try:
        async with _opened(settings, plan, trouble, pushing) as (office, wheel):
            anonymous = await anonymous_allowed(settings, office)
            landing = open_landing(settings, office)
            signal, messenger = LoopSignal(), build_messenger(settings, office)

            def wake() -> None:
                messenger.wake()
                signal.set() if wheel is None else wheel.wake()

            desk = build_desk(settings, office, landing, stopping=stop, wake=wake, delivered=pushing.deliver)
            doorkeeper = KeyChecker(office.ledger, office.clock)
            gate = Gate(
                doorkeeper.identify, desk.front.origin, anonymous=anonymous, hosts=own_hosts(settings)
            )
            told = Started(url=url, anonymous=anonymous, warnings=office.warnings)
            answering = asyncio.Event()
            beside = [
                serve(build_app(desk, gate, ROUTES), sock, stop, answering),
                _once(answering, stop, lambda: started(told)),
                conduct(wheel, stop, desk.faltering, clock=office.clock, pause=_pause)
                if wheel is not None
                else _persistently(lambda: _relay(settings, office, signal, stop, trouble), stop),
                _persistently(lambda: _clean(settings, office, landing, stop), stop),
                _persistently(lambda: messenger.run(stop), stop),
            ]
            try:
                await _together(beside, stop)
            finally:
                await doorkeeper.note_used()
                await landing.close()
    finally:
        await pushing.close()
        sock.close()


def _reached(url: str) -> str:
    """Where a process of this machine finds a server that listens everywhere."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


async def _together(parts: Sequence[Awaitable[None]], stop: asyncio.Event) -> None:
    """All of them until `stop`; when one fails, all stop and its error is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def _persistently(part: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """What goes wrong beside the API must not end it: it is told to the operator and begun again."""
    while not stop.is_set():
        try:
            await part()
        except Exception:  # noqa: BLE001 whatever it is
            _log.exception("background_work_failed")
            await _pause(stop, AGAIN_SECONDS)
        else:
            return


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def _once(answering: asyncio.Event, stop: asyncio.Event, told: Callable[[], None]) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in (answering, stop)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()
    if answering.is_set():
        told()


async def _relay(
    settings: Settings, office: BatchContext, signal: LoopSignal, stop: asyncio.Event, trouble: Trouble
) -> None:
    """Without a conductor here, messages still go out by themselves: whoever takes them may be no quire."""
    mail = Outbox(office.ledger, office.queues, office.blobs, office.clock, policies=queue_policies(settings))
    while not stop.is_set():
        try:
            await mail.relay()
            trouble(None)
        except Retry as error:
            trouble(str(error))
        await signal.wait(RELAY_SECONDS)


async def _clean(
    settings: Settings, office: BatchContext, landing: PresignedUploads, stop: asyncio.Event
) -> None:
    if not settings.cleaning.every_seconds:
        return
    while not stop.is_set():
        with suppress(Retry, Stale):  # the next time
            await clean(office, landing, cleaning_terms(settings))
        await _pause(stop, settings.cleaning.every_seconds)


@asynccontextmanager
async def _opened(
    settings: Settings, plan: Plan, trouble: Trouble, pushing: Pushing
) -> AsyncIterator[tuple[BatchContext, EngineLoop | None]]:
    async with AsyncExitStack() as stack:
        if plan.api_only:
            yield await stack.enter_async_context(open_office(settings)), None
            return
        house = await stack.enter_async_context(
            open_house(settings, kind="serve", trouble=trouble, hire=pushing.hire)
        )
        wheel = await stack.enter_async_context(house.conducting(conducts=True, workers=plan.workers))
        yield house, wheel
