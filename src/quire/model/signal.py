"""A wake-up call between coroutines, handed in so that the engine need not know an event loop."""

from typing import Protocol


class Signal(Protocol):
    def set(self) -> None:
        """Wake whoever waits; remembered until the next `wait` returns."""
        ...

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until set (True) or until the time has passed (False). Clears the signal."""
        ...
