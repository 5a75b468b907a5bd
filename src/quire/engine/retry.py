"""Retry rules: what becomes of a task after an attempt. Pure: time and chance are handed in."""

from msgspec import Struct

from quire.model.backoff import backoff_seconds
from quire.model.batch import TaskState
from quire.model.work import Outcome


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """`max_failures` counts attempts that failed by the task's own fault. Attempts that ended with their
    process, or met a full disk, are nobody's fault and have a limit of their own: a machine that is switched
    off again and again does not fail innocent files, and a file that takes the machine down ends.
    """

    max_failures: int = 3
    max_interruptions: int = 100
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 30.0
    delays: tuple[float, ...] = ()  # before the second, third … try; the last one goes on. Empty: doubling


class TaskDecision(Struct, frozen=True):
    state: TaskState
    due_at: float | None = None
    blame: bool = False


def retry_delay_seconds(failures: int, policy: RetryPolicy, fraction: float) -> float:
    """The step's own delays, or doubling from the first delay up to the longest, the upper half by chance."""
    if policy.delays:
        return policy.delays[min(failures, len(policy.delays)) - 1]
    return backoff_seconds(
        failures, first=policy.first_delay_seconds, longest=policy.longest_delay_seconds, fraction=fraction
    )


def decide_task(
    outcome: Outcome,
    failures: int,
    interruptions: int,
    policy: RetryPolicy,
    *,
    now: float,
    fraction: float,
    delay_seconds: float = 0.0,
) -> TaskDecision:
    """`failures` and `interruptions` are those before this attempt; `delay_seconds` is the least delay that
    the failed attempt asked for.
    """
    if outcome is Outcome.DONE:
        return TaskDecision(TaskState.DONE)
    if outcome is Outcome.EXTERNAL:
        return TaskDecision(TaskState.EXTERNAL, due_at=now + delay_seconds)
    if outcome is Outcome.INTERRUPTED:
        # At once means at once, also when the clock is set back before we look again.
        due_at = now + delay_seconds if delay_seconds else 0.0
        ends = interruptions >= policy.max_interruptions
        return TaskDecision(TaskState.FAILED) if ends else TaskDecision(TaskState.WAITING, due_at=due_at)
    if outcome is Outcome.REJECTED or failures + 1 >= policy.max_failures:
        return TaskDecision(TaskState.FAILED, blame=True)
    wait = max(delay_seconds, retry_delay_seconds(failures + 1, policy, fraction))
    return TaskDecision(TaskState.WAITING, due_at=now + wait, blame=True)


class PhasePolicy(Struct, frozen=True, kw_only=True):
    """Moves that fail (the store is away, rules of a pipeline throw) are retried after 2, 4, 8, 16, 30 s."""

    max_retries: int = 5
    first_delay_seconds: float = 2.0
    longest_delay_seconds: float = 30.0


def phase_delay_seconds(retries: int, policy: PhasePolicy) -> float | None:
    """How long to wait before the next try of a move after `retries` tries; None: the batch ends in error."""
    if retries >= policy.max_retries:
        return None
    return backoff_seconds(
        retries + 1, first=policy.first_delay_seconds, longest=policy.longest_delay_seconds
    )
