"""How long to wait before the next try: one formula for everything that is tried again.

Pure: chance is handed in. Which failures are tried again, and how often, is the caller's rule.
"""

# 2**32 seconds is beyond any limit; larger powers only overflow.
_MAX_EXPONENT = 32


def backoff_seconds(
    tries: int, *, first: float, longest: float, factor: float = 2.0, fraction: float | None = None
) -> float:
    """The delay after `tries` failed tries: `first`, then `factor` times as long each time, up to `longest`.
    With a `fraction` (0 to 1, from chance) between half of the delay and all of it, so that many who failed
    at once do not come back at once.
    """
    delay = min(longest, first * factor ** min(max(tries, 1) - 1, _MAX_EXPONENT))
    return delay if fraction is None else delay * (0.5 + fraction / 2)
