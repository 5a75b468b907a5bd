"""The conductor beside the API: turned until the server stops, and begun again after a fault nobody foresaw.

Promises: what fails here does not end the API; a fault that comes back does not spin; whoever asks after the
server's health is told. What a person has to put right (Misconfigured) ends the server, as at its start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quire.engine.loop import EngineLoop
from quire.model.clock import Clock
from quire.model.errors import Misconfigured

GRACE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
CALM_SECONDS = 300.0  # after this long without a fault the next one is a first one again

_log = logging.getLogger("quire.serve")

Pause = Callable[[asyncio.Event, float], Awaitable[None]]  # until the event, at most so many seconds


async def run_engine_loop(
    wheel: EngineLoop, stop: asyncio.Event, faltering: asyncio.Event, *, clock: Clock, pause: Pause
) -> None:
    """Until `stop`. `faltering` is set while the conductor is down. Raises Misconfigured, and whatever goes
    wrong while stopping.
    """
    stopper = asyncio.ensure_future(_stop_when(stop, wheel))
    seconds = FIRST_PAUSE_SECONDS
    try:
        while True:
            began = clock.monotonic()
            try:
                await wheel.run(None)
            except Misconfigured:
                raise
            except Exception:
                if stop.is_set():
                    raise
                _log.exception("conductor_failed")
            else:
                return
            faltering.set()
            await _release_claims(wheel)
            if clock.monotonic() - began >= CALM_SECONDS:
                seconds = FIRST_PAUSE_SECONDS
            await pause(stop, seconds)
            seconds = min(LONGEST_PAUSE_SECONDS, 2 * seconds)
            _log.warning("conductor_begins_again")
            faltering.clear()
    finally:
        stopper.cancel()
        await wheel.shut_down(GRACE_SECONDS)


async def _release_claims(wheel: EngineLoop) -> None:
    try:
        await wheel.abandon()
    except Exception:  # noqa: BLE001 - the wheel tries it again before it turns
        _log.exception("conductor_fall_failed")


async def _stop_when(stop: asyncio.Event, wheel: EngineLoop) -> None:
    await stop.wait()
    wheel.stop()
