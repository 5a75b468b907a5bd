"""The engine loop beside the API: runs until the server stops, and is restarted after an unforeseen error.

Promises: an error here does not end the API; an error that recurs does not spin; /health reports it. An error
that a person has to fix (Misconfigured) ends the server, as it does at the start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quire.batches.work import stop_on_event
from quire.engine.loop import EngineLoop
from quire.model.clock import Clock
from quire.model.errors import Misconfigured

GRACE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
CALM_SECONDS = 300.0  # after this long without an error the pauses start from the shortest again

_log = logging.getLogger("quire.serve")

Pause = Callable[[asyncio.Event, float], Awaitable[None]]  # until the event, at most so many seconds


async def run_engine_loop(
    loop: EngineLoop, stop: asyncio.Event, faltering: asyncio.Event, *, clock: Clock, pause: Pause
) -> None:
    """Run the loop until `stop`. `faltering` is set while it is down. Raises Misconfigured, and any error
    that occurs while stopping.
    """
    stopper = asyncio.ensure_future(stop_on_event(stop, loop))
    seconds = FIRST_PAUSE_SECONDS
    try:
        while True:
            began = clock.monotonic()
            try:
                await loop.run(None)
            except Misconfigured:
                raise
            except Exception:
                if stop.is_set():
                    raise
                _log.exception("conductor_failed")
            else:
                return
            faltering.set()
            await _abandon_work(loop)
            if clock.monotonic() - began >= CALM_SECONDS:
                seconds = FIRST_PAUSE_SECONDS
            await pause(stop, seconds)
            seconds = min(LONGEST_PAUSE_SECONDS, 2 * seconds)
            _log.warning("conductor_begins_again")
            faltering.clear()
    finally:
        stopper.cancel()
        await loop.shut_down(GRACE_SECONDS)


async def _abandon_work(loop: EngineLoop) -> None:
    try:
        await loop.abandon()
    except Exception:  # noqa: BLE001 - the loop completes it before it runs again
        _log.exception("conductor_fall_failed")
