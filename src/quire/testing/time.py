"""A clock that stands still until a test advances it, and ids that count."""


class FakeClock:
    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class CountingIds:
    """ULID-shaped ids in order; `fraction` is always the same number."""

    def __init__(self, fraction: float = 0.5) -> None:
        self._count = 0
        self._fraction = fraction

    def ulid(self) -> str:
        self._count += 1
        return f"{self._count:026d}"

    def fraction(self) -> float:
        return self._fraction
