"""Time, handed in. The real clock is in `quire.system`, the fake one in `quire.testing`."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970, UTC: for what is written down."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back: for durations."""
        ...


def timestamp(seconds: float) -> str:
    """The wire form of a moment: RFC 3339, UTC, milliseconds."""
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
