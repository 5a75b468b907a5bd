"""Ctrl-C and SIGTERM: the first finishes the tasks that are running, the second stops immediately."""

import asyncio
import signal
from collections.abc import Callable


def stop_on_signals(say: Callable[[str], None]) -> asyncio.Event:
    """Set by the first signal. The second loses nothing: the ledger is on disk."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle_signal() -> None:
        if stop.is_set():
            loop.remove_signal_handler(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        say("Stopping: finishing running tasks … (press Ctrl-C again to stop immediately)")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle_signal)
    return stop
