"""Runs `quire serve`: the API and, in the same process, the engine loop and its workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec import Struct

from quire.access.api_keys import KeyChecker
from quire.api.app import ROUTES, build_app
from quire.api.server import open_socket, serve
from quire.assembly.api import anonymous_allowed, build_api_context, build_authenticator, build_webhook_sender
from quire.assembly.cleaning import clean_all
from quire.assembly.components import Components, open_components
from quire.assembly.engine import open_engine
from quire.assembly.engine_task import run_engine_loop
from quire.assembly.left_alone import Notice
from quire.assembly.member_pipelines import find_own_pipelines
from quire.assembly.ocr_service import open_ocr_service
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.assembly.queues import queue_policies
from quire.assembly.recipes import build_recipe_context, run_recipe_import
from quire.assembly.redis_lists import elsewhere
from quire.assembly.remote import RemoteComputes
from quire.assembly.scrub import scrub_regularly
from quire.blobs.presigned_uploads import PresignedUploads
from quire.engine.loop import EngineLoop
from quire.engine.outbox import Outbox
from quire.model.errors import Retry, Stale
from quire.settings import Settings
from quire.system import LoopSignal

AGAIN_SECONDS = 5.0
RELAY_SECONDS = 2.0  # a safety net: writing to the outbox wakes the relay

_log = logging.getLogger("quire.serve")

Trouble = Callable[[str | None], None]


class ServeOptions(Struct, frozen=True, kw_only=True):
    """What this process does. `workers` None: as many as the settings say. `pipelines` are references that it
    uses beside those of the settings.
    """

    api_only: bool = False
    workers: int | None = None
    pipelines: tuple[str, ...] = ()


class ServerInfo(Struct, frozen=True, kw_only=True):
    url: str
    anonymous: bool
    warnings: tuple[str, ...]


async def run_server(
    settings: Settings,
    options: ServeOptions,
    stop: asyncio.Event,
    *,
    started: Callable[[ServerInfo], None],
    trouble: Trouble,
    notice: Notice | None = None,
) -> None:
    """Serve until `stop`. Raises Misconfigured when the server cannot or must not start."""
    host = settings.serve.host
    sock = open_socket(host, settings.serve.port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{sock.getsockname()[1]}"
    remote = RemoteComputes(settings, settings.serve.public_url or _to_local_url(url))
    try:
        async with (
            _open_contexts(settings, options, trouble, notice, remote) as (components, loop),
            open_ocr_service(settings, components) as ocr,
        ):
            anonymous = await anonymous_allowed(settings, components)
            presigned = open_presigned_uploads(settings, components)
            signal, sender = LoopSignal(), build_webhook_sender(settings, components)

            def wake() -> None:
                sender.wake()
                signal.set() if loop is None else loop.wake()

            recipes = build_recipe_context(settings, components, wake=wake)
            context = build_api_context(
                settings,
                components,
                presigned,
                recipes=recipes,
                stopping=stop,
                wake=wake,
                delivered=remote.note_callback,
                ocr=ocr,
            )
            key_checker = KeyChecker(components.api_keys, components.clock)
            authenticator = build_authenticator(
                settings, key_checker, context.ingest.get_origin, anonymous=anonymous
            )
            info = ServerInfo(url=url, anonymous=anonymous, warnings=components.warnings)
            answering = asyncio.Event()
            parts = [
                serve(build_app(context, authenticator, ROUTES), sock, stop, answering),
                _report_start(answering, stop, lambda: started(info)),
                run_engine_loop(loop, stop, context.faltering, clock=components.clock, pause=_pause)
                if loop is not None
                else _keep_running(lambda: _relay_outbox(settings, components, signal, stop, trouble), stop),
                _keep_running(lambda: _clean_regularly(settings, components, presigned, stop), stop),
                _keep_running(lambda: scrub_regularly(settings, components, stop), stop),
                _keep_running(lambda: sender.run(stop), stop),
                _keep_running(lambda: run_recipe_import(settings, components, recipes, stop, trouble), stop),
            ]
            try:
                await _run_together(parts, stop)
            finally:
                await key_checker.record_uses()
                await presigned.close()
    finally:
        await remote.close()
        sock.close()


def _to_local_url(url: str) -> str:
    """The address at which a process on this machine reaches a server that listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


async def _run_together(parts: Sequence[Awaitable[None]], stop: asyncio.Event) -> None:
    """Run all parts until `stop`; when one fails, all stop and its error is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def _keep_running(part: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """What goes wrong parts the API must not end it: it is info to the operator and begun again."""
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


async def _report_start(answering: asyncio.Event, stop: asyncio.Event, report: Callable[[], None]) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in (answering, stop)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()
    if answering.is_set():
        report()


async def _relay_outbox(
    settings: Settings, components: Components, signal: LoopSignal, stop: asyncio.Event, trouble: Trouble
) -> None:
    """Send the outbox where no engine loop runs: the consumer may be another program than quire."""
    outbox = Outbox(
        components.outbox,
        components.batches,
        components.records,
        components.control,
        components.queues,
        components.blobs,
        components.clock,
        policies=queue_policies(settings),
        is_elsewhere=elsewhere(settings),
    )
    while not stop.is_set():
        try:
            await outbox.send()
            trouble(None)
        except Retry as error:
            trouble(str(error))
        await signal.wait(RELAY_SECONDS)


async def _clean_regularly(
    settings: Settings, components: Components, presigned: PresignedUploads, stop: asyncio.Event
) -> None:
    if not settings.cleaning.every_seconds:
        return
    while not stop.is_set():
        with suppress(Retry, Stale):  # the next time
            await clean_all(settings, components, presigned)
        await _pause(stop, settings.cleaning.every_seconds)


@asynccontextmanager
async def _open_contexts(
    settings: Settings, options: ServeOptions, trouble: Trouble, notice: Notice | None, remote: RemoteComputes
) -> AsyncIterator[tuple[Components, EngineLoop | None]]:
    pipelines = find_own_pipelines(settings, options.pipelines)
    async with AsyncExitStack() as stack:
        if options.api_only:
            yield await stack.enter_async_context(open_components(settings, pipelines=pipelines)), None
            return
        components = await stack.enter_async_context(
            open_engine(
                settings,
                pipelines=pipelines,
                kind="serve",
                trouble=trouble,
                notice=notice,
                start_remote=remote.start,
            )
        )
        loop = await stack.enter_async_context(
            components.start_engine(schedules=True, workers=options.workers)
        )
        yield components, loop
