"""Whether and when a message is tried again: one rule for webhooks, consumers and start messages.

Pure: chance is handed in. What counts as a failure, and which failures are permanent, is the caller's rule.
"""

import math

from msgspec import Struct

from quire.model.backoff import backoff_seconds


class RedeliveryPolicy(Struct, frozen=True, kw_only=True):
    """`delays_seconds`: one for each retry, the last of them for all that follow. Chance shifts each by up to
    half of `jitter`, a part of the delay, either way. Without them the delay doubles from the first to the
    longest.
    """

    max_tries: int
    delays_seconds: tuple[float, ...] = ()
    jitter: float = 0.0
    first_delay_seconds: float = 2.0
    longest_delay_seconds: float = 300.0
    longest_requested_seconds: float = math.inf  # a receiver cannot ask for a longer delay

    def delay_seconds(self, tries: int, fraction: float) -> float:
        """The delay after this many failed tries."""
        if self.delays_seconds:
            delay = self.delays_seconds[min(tries, len(self.delays_seconds)) - 1]
            return delay * (1 + self.jitter * (fraction - 0.5))
        return backoff_seconds(
            tries, first=self.first_delay_seconds, longest=self.longest_delay_seconds, fraction=fraction
        )

    def next_delay_seconds(
        self, tries: int, fraction: float, *, is_permanent: bool = False, requested_seconds: float = 0.0
    ) -> float | None:
        """The delay before the next try; None: give up. `requested_seconds` is the delay that the receiver or
        the error asks for.
        """
        if is_permanent or tries >= self.max_tries:
            return None
        requested = min(requested_seconds, self.longest_requested_seconds)
        return max(self.delay_seconds(tries, fraction), requested)
