"""A wake-up signal between coroutines, passed in so that the engine does not depend on an event loop."""

from typing import Protocol


class Signal(Protocol):
    def set(self) -> None:
        """Wake the waiting coroutine; remembered until the next `wait` returns."""
        ...

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until set (True) or until the time has passed (False). Clears the signal."""
        ...
