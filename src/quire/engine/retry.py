"""Retry arithmetic: what becomes of a task after an attempt. Pure: time and chance are handed in."""

from msgspec import Struct

from quire.model.batch import TaskState
from quire.model.work import Outcome


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """`max_failures` counts attempts that ended by the task's own fault. Attempts that went down with the
    whole house, or met a full disk, are nobody's fault and have a limit of their own, so that a machine that
    is switched off again and again does not fail innocent files, and a file that takes the machine down ends.
    """

    max_failures: int = 3
    max_interruptions: int = 100
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 30.0


class Ruling(Struct, frozen=True):
    state: TaskState
    due_at: float | None = None
    blame: bool = False


def backoff(failures: int, policy: RetryPolicy, fraction: float) -> float:
    """Doubling from the first delay up to the longest, the upper half of it by chance."""
    exponent = min(failures - 1, 32)  # 2**32 seconds is beyond any cap; larger powers only overflow
    delay = min(policy.longest_delay_seconds, policy.first_delay_seconds * 2.0**exponent)
    return delay * (0.5 + fraction / 2)


def rule(
    outcome: Outcome,
    failures: int,
    interruptions: int,
    policy: RetryPolicy,
    *,
    now: float,
    fraction: float,
    delay_seconds: float = 0.0,
) -> Ruling:
    """`failures` and `interruptions` are those before this attempt; `delay_seconds` is the least that whoever
    failed asked for.
    """
    match outcome:
        case Outcome.DONE:
            return Ruling(TaskState.DONE)
        case Outcome.REJECTED:
            return Ruling(TaskState.FAILED, blame=True)
        case Outcome.INTERRUPTED:
            if interruptions >= policy.max_interruptions:
                return Ruling(TaskState.FAILED)
            # At once means at once, also when the clock is set back before we look again.
            return Ruling(TaskState.WAITING, due_at=now + delay_seconds if delay_seconds else 0.0)
        case Outcome.ERRED | Outcome.CRASHED | Outcome.TIMED_OUT | Outcome.OUT_OF_MEMORY:
            if failures + 1 >= policy.max_failures:
                return Ruling(TaskState.FAILED, blame=True)
            wait = max(delay_seconds, backoff(failures + 1, policy, fraction))
            return Ruling(TaskState.WAITING, due_at=now + wait, blame=True)


class PhasePolicy(Struct, frozen=True, kw_only=True):
    """Moves that fail (the store is away, rules of a pipeline throw) are retried after 2, 4, 8, 16, 30 s."""

    max_retries: int = 5
    first_delay_seconds: float = 2.0
    longest_delay_seconds: float = 30.0


def phase_delay(retries: int, policy: PhasePolicy) -> float | None:
    """How long to wait before the next try, after so many; None: give the batch up."""
    if retries >= policy.max_retries:
        return None
    return min(policy.longest_delay_seconds, policy.first_delay_seconds * 2.0 ** min(retries, 32))
