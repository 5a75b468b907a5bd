"""Attempts of a process that died end as interrupted; another process with room tries them again."""

from collections.abc import Iterable

from quire.engine.retry import RetryPolicy, decide_task
from quire.ledger.port import Claim, Settlement
from quire.model.work import Outcome, Report


def interrupt_claims(
    claims: Iterable[Claim], policy: RetryPolicy, *, now: float
) -> dict[int, list[Settlement]]:
    """Settlements by batch number. Interruptions are not failures: no delay, hence no jitter."""
    found: dict[int, list[Settlement]] = {}
    for claim in claims:
        decision = decide_task(
            Outcome.INTERRUPTED, claim.failures, claim.interruptions, policy, now=now, fraction=0.0
        )
        settlement = Settlement(
            report=_build_report(claim, now),
            state=decision.state,
            due_at=decision.due_at,
            blame=decision.blame,
        )
        found.setdefault(claim.order.batch_no, []).append(settlement)
    return found


def _build_report(claim: Claim, now: float) -> Report:
    order = claim.order
    return Report(
        *(order.batch_no, order.task_no, order.attempt, Outcome.INTERRUPTED),
        *(claim.started_at, max(0.0, now - claim.started_at), "unknown", None),
        error_class="interrupted",
        error="quire stopped while this attempt was running",
    )
