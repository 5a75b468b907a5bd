"""Attempts that went down with their house end as interrupted, and whoever has room tries them again."""

from collections.abc import Iterable

from quire.engine.retry import RetryPolicy, rule
from quire.ledger.port import Claim, Settlement
from quire.model.work import Outcome, Report


def settlements(claims: Iterable[Claim], policy: RetryPolicy, *, now: float) -> dict[int, list[Settlement]]:
    """By batch. Nobody is to blame, so nothing is left to chance: there is no delay to spread."""
    found: dict[int, list[Settlement]] = {}
    for claim in claims:
        ruling = rule(Outcome.INTERRUPTED, claim.failures, claim.interruptions, policy, now=now, fraction=0.0)
        settlement = Settlement(
            report=_interrupted(claim, now), state=ruling.state, due_at=ruling.due_at, blame=ruling.blame
        )
        found.setdefault(claim.order.batch_no, []).append(settlement)
    return found


def _interrupted(claim: Claim, now: float) -> Report:
    order = claim.order
    return Report(
        *(order.batch_no, order.task_no, order.attempt, Outcome.INTERRUPTED),
        *(claim.started_at, max(0.0, now - claim.started_at), "unknown", None),
        error_class="interrupted",
        error="quire stopped while this attempt was running",
    )
