"""Ctrl-C and SIGTERM: asked once, finish what is running; asked twice, end at once."""

import asyncio
import signal
from collections.abc import Callable


def stop_on_signals(say: Callable[[str], None]) -> asyncio.Event:
    """Set by the first signal. Nothing is lost by the second: the ledger is on disk."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if stop.is_set():
            loop.remove_signal_handler(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        say("Stopping: finishing what is running … (Ctrl-C again to stop at once)")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    return stop
