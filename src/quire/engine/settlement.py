"""What becomes of a task by the report of an attempt: the same whether it comes from compute or from outside.

Pure: time and chance are handed in. Must not know: how the report came.
"""

from quire.engine.retry import RetryPolicy, rule
from quire.ledger.port import Claim, Settlement
from quire.model.pipeline import Phase
from quire.model.work import Report


def judged(
    report: Report, claim: Claim | None, policy: RetryPolicy, *, now: float, fraction: float
) -> Settlement:
    """`claim` is that of the attempt, when it is known: how often the task has failed before."""
    failures, interruptions = (claim.failures, claim.interruptions) if claim else (0, 0)
    ruling = rule(
        report.outcome,
        failures,
        interruptions,
        policy,
        now=now,
        fraction=fraction,
        delay_seconds=report.delay_seconds,
    )
    return Settlement(report=report, state=ruling.state, due_at=ruling.due_at, blame=ruling.blame)


def policy_of(phase: Phase, policy: RetryPolicy) -> RetryPolicy:
    """The house's policy with the phase's own limit of attempts."""
    return RetryPolicy(
        max_failures=phase.max_attempts,
        max_interruptions=policy.max_interruptions,
        first_delay_seconds=policy.first_delay_seconds,
        longest_delay_seconds=policy.longest_delay_seconds,
    )
