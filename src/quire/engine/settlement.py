"""From the report of an attempt to its settlement: the same for reports of compute and for callbacks.

Pure: time and chance are handed in. Must not know: how the report arrived.
"""

from quire.engine.retry import RetryPolicy, decide_task
from quire.ledger.port import Claim, Settlement
from quire.model.plan import PlanStep
from quire.model.work import Outcome, Report


def decide_settlement(
    report: Report, claim: Claim | None, policy: RetryPolicy, *, now: float, fraction: float
) -> Settlement:
    """`claim` is that of the attempt, when it is known: how often the task has failed before."""
    failures, interruptions = (claim.failures, claim.interruptions) if claim else (0, 0)
    decision = decide_task(
        report.outcome,
        failures,
        interruptions,
        policy,
        now=now,
        fraction=fraction,
        delay_seconds=_delay_seconds(report),
    )
    return Settlement(report=report, state=decision.state, due_at=decision.due_at, blame=decision.blame)


def _delay_seconds(report: Report) -> float:
    """The least delay: what the attempt asked for, or how long an answer from outside may take."""
    if report.outcome is Outcome.EXTERNAL:
        return report.request.within_seconds if report.request is not None else 0.0
    return report.delay_seconds


def step_retry_policy(step: PlanStep, policy: RetryPolicy) -> RetryPolicy:
    """The configured policy with the step's own limit of attempts and its own delays."""
    return RetryPolicy(
        max_failures=step.max_attempts,
        max_interruptions=policy.max_interruptions,
        first_delay_seconds=policy.first_delay_seconds,
        longest_delay_seconds=policy.longest_delay_seconds,
        delays=step.delays,
    )
