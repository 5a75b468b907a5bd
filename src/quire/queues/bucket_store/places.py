"""Where the queues lie in a store, and what the names of hints tell.

Names of queues and ids of messages are text from outside: in keys stand a readable beginning, for people, and
a digest, which decides. Hints sort by priority, due time and order of sending, and tell enough that depths
and times are read from a listing alone. Pure.
"""

import hashlib
import re

from msgspec import Struct

ROOT = "queues"
NAMES = f"{ROOT}/names"
_LATEST_SECONDS = 9e10  # in microseconds 17 digits; the year 4821
_READABLE = re.compile(r"[^A-Za-z0-9_]+")
_HINT = re.compile(r"(\d{17})-([0-9A-Z]{26}\d{7})-([wl])(\d{1,9})-(\d{17})-([A-Za-z0-9_-]{41,81})")
_DONE = re.compile(r"(\d{17})-[0-9A-Z]{26}\d{7}-\d{1,9}-([A-Za-z0-9_-]{41,81})")


class Hint(Struct, frozen=True):
    """A message as its hint tells of it."""

    key: str
    tier: int
    due_at: float
    order: str
    leased: bool
    sent_at: float
    name: str  # of its state
    written_at: float = 0.0  # by the store's clock


def micros(moment: float) -> int:
    """Never later than the moment: what is due now is due now."""
    moment = max(0.0, min(moment, _LATEST_SECONDS))
    nearest = round(moment * 1e6)
    return nearest if nearest / 1e6 <= moment else nearest - 1


def rounded(moment: float) -> float:
    """As a hint can tell it, so that hint and state never disagree about what is due."""
    return micros(moment) / 1e6


def segment(text: str) -> str:
    """A safe part of a key: bounded, the same for the same text, never the same for two."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{_READABLE.sub('_', text[:40])}-{digest}"


class Places:
    """The keys of one queue."""

    def __init__(self, queue: str) -> None:
        self.name = f"{NAMES}/{segment(queue)}"
        self._at = f"{ROOT}/in/{segment(queue)}"
        self.due = f"{self._at}/due"
        self.dead = f"{self._at}/dead"
        self.done = f"{self._at}/done"
        self.sends = f"{self._at}/sends"
        self.counts = f"{self._at}/counts"
        self.total = f"{self._at}/total"
        self.bell = f"{self._at}/bell"

    def state(self, name: str) -> str:
        return f"{self._at}/state/{name}"

    def send(self, send: str) -> str:
        return f"{self.sends}/{send}"

    def tier(self, tier: int) -> str:
        return f"{self.due}/{tier}"

    def after(self, tier: int, moment: float) -> str:
        """Whatever is due later sorts behind this."""
        return f"{self.due}/{tier}/{micros(moment):017d}-~"

    def hint(
        self, *, tier: int, due_at: float, order: str, leased: bool, rev: int, sent_at: float, name: str
    ) -> str:
        kind = "l" if leased else "w"
        return f"{self.due}/{tier}/{micros(due_at):017d}-{order}-{kind}{rev}-{micros(sent_at):017d}-{name}"

    def tombstone(self, *, until: float, order: str, rev: int, name: str) -> str:
        return f"{self.done}/{micros(until):017d}-{order}-{rev}-{name}"

    def grave(self, no: int) -> str:
        return f"{self.dead}/{no:017d}"

    def count(self, name: str) -> str:
        return f"{self.counts}/{name}"


def hint_of(key: str, written_at: float = 0.0) -> Hint | None:
    """None: not one of ours."""
    folder, _, name = key.rpartition("/")
    found = _HINT.fullmatch(name)
    tier = folder.rpartition("/")[2]
    if found is None or tier not in {"1", "2", "3", "4", "5"}:
        return None
    due, order, kind, _, sent, whose = found.groups()
    return Hint(key, int(tier), int(due) / 1e6, order, kind == "l", int(sent) / 1e6, whose, written_at)


def tombstone_of(key: str) -> tuple[float, str] | None:
    """Until when an id is known, and the name of its state."""
    found = _DONE.fullmatch(key.rpartition("/")[2])
    return None if found is None else (int(found[1]) / 1e6, found[2])


def number_of(key: str) -> int | None:
    """Of a dead letter."""
    name = key.rpartition("/")[2]
    return int(name) if re.fullmatch(r"\d{17}", name) else None
