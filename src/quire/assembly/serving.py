"""`quire serve` put together: the API, and in the same process a conductor and workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct

from quire import __version__
from quire.api.app import build_app
from quire.api.desk import Caller, Desk
from quire.api.gate import Gate, is_loopback
from quire.api.routing import Scope
from quire.api.server import listening, serve
from quire.api.tables import ROUTES
from quire.assembly.house import open_house, open_office
from quire.assembly.queues import queue_policies
from quire.assembly.secrets import signing_secret
from quire.blobs.landing import Landing
from quire.blobs.local import LocalBlobs
from quire.engine.wheel import Wheel
from quire.model.errors import Misconfigured
from quire.service import queue_desk
from quire.service.house import House, Office
from quire.service.ingest.front import PART_SIZE, Front, Limits
from quire.settings import Settings

PIPELINE = "preprocess"
GRACE_SECONDS = 10.0


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
    trouble: Callable[[str | None], None],
) -> None:
    """Until `stop`. Raises Misconfigured when it cannot or must not start."""
    host = settings.serve.host
    sock = listening(host, settings.serve.port)
    try:
        async with _opened(settings, plan, trouble) as (office, wheel):
            anonymous = await _anonymous(settings, office)
            landing = open_landing(settings, office)
            front = Front(
                office,
                landing,
                limits(settings),
                pipeline=PIPELINE,
                hands_over_to=settings.ingest.hand_over_to,
            )
            desk = Desk(
                front=front,
                queue_desk=queue_desk.Desk(
                    queues=office.queues, policies=queue_policies(settings), clock=office.clock
                ),
                stopping=stop,
                public_url=settings.serve.public_url,
                wake=wheel.wake if wheel is not None else lambda: None,
                version=__version__,
                routes=ROUTES,
            )
            gate = Gate(_identify(office), front.owner, anonymous=anonymous, hosts=_hosts(settings))
            app = build_app(desk, gate, ROUTES)
            port = sock.getsockname()[1]
            shown = f"[{host}]" if ":" in host else host
            told = Started(url=f"http://{shown}:{port}", anonymous=anonymous, warnings=office.warnings)
            await _run(app, sock, stop, wheel, lambda: started(told))
    finally:
        sock.close()


async def _run(
    app: Any, sock: Any, stop: asyncio.Event, wheel: Wheel | None, started: Callable[[], None]
) -> None:
    answering = asyncio.Event()
    tasks = [asyncio.ensure_future(serve(app, sock, stop, answering))]
    if wheel is not None:
        tasks.append(asyncio.ensure_future(_conduct(wheel, stop)))
    waiting = asyncio.ensure_future(answering.wait())
    await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if answering.is_set():
        started()
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
    for task in tasks:
        await task


async def _conduct(wheel: Wheel, stop: asyncio.Event) -> None:
    stopper = asyncio.ensure_future(_stop_when(stop, wheel))
    try:
        await wheel.serve(None)
    finally:
        stopper.cancel()
        await wheel.wind_down(GRACE_SECONDS)


async def _stop_when(stop: asyncio.Event, wheel: Wheel) -> None:
    await stop.wait()
    wheel.stop()


@asynccontextmanager
async def _opened(
    settings: Settings, plan: Plan, trouble: Callable[[str | None], None]
) -> AsyncIterator[tuple[Office, Wheel | None]]:
    async with AsyncExitStack() as stack:
        if plan.api_only:
            yield await stack.enter_async_context(open_office(settings)), None
            return
        house: House = await stack.enter_async_context(open_house(settings, kind="serve", trouble=trouble))
        wheel = await stack.enter_async_context(house.conducting(conducts=True, workers=plan.workers))
        yield house, wheel


def open_landing(settings: Settings, office: Office) -> Landing:
    if isinstance(office.blobs, LocalBlobs):
        from quire.blobs.local_landing import LocalLanding

        return LocalLanding(
            settings.home / "blobs",
            secret=signing_secret(settings),
            clock=office.clock,
            max_blob_bytes=settings.ingest.max_file_bytes,
            # Clients choose the size of parts: at least one URL for each 10 MiB, so that none is larger.
            max_part_bytes=2 * PART_SIZE,
        )
    from quire.blobs.s3_landing import S3Landing

    s3 = settings.s3
    return S3Landing(
        clock=office.clock,
        bucket=s3.bucket,
        endpoint=s3.endpoint or None,
        public_endpoint=s3.public_endpoint or None,
        region=s3.region,
        access_key_id=s3.access_key_id.reveal(),
        secret_access_key=s3.secret_access_key.reveal(),
        prefix=s3.prefix,
        allow_http=s3.allow_http,
    )


def limits(settings: Settings) -> Limits:
    chosen = settings.ingest
    return Limits(
        max_batch_bytes=chosen.max_batch_bytes,
        max_file_bytes=chosen.max_file_bytes,
        max_files=chosen.max_files,
        prompt_characters=chosen.prompt_characters,
        prompts_characters=chosen.prompts_characters,
        allowed_extensions=tuple(chosen.allowed_extensions.lower().split()),
        url_seconds=chosen.url_seconds,
        verify_cid_bytes=chosen.verify_cid_bytes,
    )


async def _anonymous(settings: Settings, office: Office) -> bool:
    """Off loopback nothing is open by default."""
    wanted = settings.serve.anonymous
    loopback = is_loopback(settings.serve.host)
    anonymous = wanted == "always" or (wanted == "loopback" and loopback)
    if not anonymous and not await office.ledger.keys():
        raise Misconfigured(
            f"nobody could use a server on {settings.serve.host}: it asks for API keys and there are none; "
            "make one with `quire key create --scope admin`, or listen on 127.0.0.1",
            code="no_keys",
        )
    return anonymous


def _hosts(settings: Settings) -> frozenset[str]:
    from urllib.parse import urlsplit

    public = urlsplit(settings.serve.public_url).hostname if settings.serve.public_url else None
    return frozenset({name.lower() for name in (public, settings.serve.host) if name})


def _identify(office: Office) -> Any:
    async def identify(key: str) -> tuple[Caller, float] | None:
        return None

    return identify


__all__ = ["Plan", "Scope", "Started", "run_server"]
