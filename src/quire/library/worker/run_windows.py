"""Run windows: the hours of the day in which a worker works. Pure; times are seconds of the local day.

Promise: a window may cross midnight; without windows a worker may always work. Must not know: clocks.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from quire.model.errors import Reject

DAY = 24 * 3600
_WINDOW = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]|24):([0-5][0-9])", re.ASCII)


class RunWindow(Struct, frozen=True):
    """From `opens` until `closes`, in seconds of the day. The two differ; a smaller `closes` is after
    midnight.
    """

    opens: int
    closes: int

    @property
    def seconds(self) -> int:
        return (self.closes - self.opens) % DAY or DAY

    def seconds_since_opening(self, moment: float) -> float:
        """How long ago the window last opened."""
        return (moment - self.opens) % DAY

    def contains(self, moment: float) -> bool:
        return self.seconds_since_opening(moment) < self.seconds


def parse_window(text: str) -> RunWindow:
    """`22:00-06:30`; `00:00-24:00` is the whole day. Raises Reject with code `bad_window`."""
    found = _WINDOW.fullmatch(text.strip())
    if found is not None:
        hour, minute, last_hour, last_minute = (int(number) for number in found.groups())
        opens, closes = hour * 3600 + minute * 60, last_hour * 3600 + last_minute * 60
        if closes <= DAY and opens != closes:
            return RunWindow(opens, closes)
    raise Reject(
        f"{text[:40]!r} is not a run window: write HH:MM-HH:MM, such as 22:00-06:00; it must not be empty.",
        code="bad_window",
    )


def is_open(windows: Sequence[RunWindow], moment: float) -> bool:
    return not windows or any(window.contains(moment) for window in windows)


def seconds_until_open(windows: Sequence[RunWindow], moment: float) -> float:
    """Seconds until a window opens; 0 when one is open."""
    if is_open(windows, moment):
        return 0.0
    return min(DAY - window.seconds_since_opening(moment) for window in windows)


def seconds_until_closed(windows: Sequence[RunWindow], moment: float) -> float | None:
    """Seconds until no window is open, counting windows that overlap or touch as one; 0 when none is open.
    None if they never close.
    """
    if not windows:
        return None
    passed = 0.0
    while passed < DAY:
        now = (moment + passed) % DAY
        left = max(
            (
                window.seconds - window.seconds_since_opening(now)
                for window in windows
                if window.contains(now)
            ),
            default=0.0,
        )
        if left <= 0:
            return passed
        passed += left
    return None
