"""The moves of a batch from stage to stage, as pure functions: it begins, it ends, it cannot go on.

Nothing here reads or writes; the ledger applies a move, all of it or nothing. What happens while its
documents flow is in `flow_moves`.
"""

from quire.engine.states import check_move
from quire.ledger.port import Move, OutboxMessage
from quire.model.batch import Batch, Position, Stage
from quire.model.former import read_former_plan
from quire.model.plan import Plan

UNTOUCHED = "no step of the pipeline “{pipeline}” accepts this file ({{type}}); it has no results"


def begin(batch: Batch, *, now: float) -> Move:
    """The message has arrived: the manifest's files are written next."""
    to = Position(Stage.FILLING)
    return _move(batch, to, status=first_status(batch), now=now, event=("batch_started", {}))


def end(batch: Batch, plan: Plan, *, now: float, message: OutboxMessage | None = None) -> Move:
    """The end of a batch that flows: nothing of it is open."""
    round_no = batch.position.round
    return _move(
        batch,
        Position(Stage.DONE, batch.position.phase, 0, round_no),
        status="DONE",
        now=now,
        skips=("not_handled", UNTOUCHED.format(pipeline=plan.name)),
        left_alone=plan.left_alone,
        message=message,
        event=("batch_done", {"round": round_no, **({"handed_over_to": message.queue} if message else {})}),
    )


def fail(batch: Batch, reason: str, *, now: float) -> Move:
    """The batch cannot go on; the reason names the cause."""
    at = batch.position
    to = Position(Stage.ERROR, at.phase, at.cursor, at.round)
    return _move(batch, to, status="ERROR", now=now, error=reason, event=("batch_failed", {"reason": reason}))


def first_status(batch: Batch) -> str:
    """The status of a batch that has just started: the name of its first phase, by its plan, which an earlier
    version may have stored.
    """
    phases = read_former_plan(batch).phases
    return phases[0].name if phases else "STARTED"


def _move(batch: Batch, to: Position, *, status: str, now: float, **changes: object) -> Move:
    check_move(batch.position, to)
    return Move(
        batch_no=batch.no,
        expect=batch.position,
        to=to,
        status=status,
        now=now,
        **changes,  # type: ignore[arg-type]  # the callers above name fields of Move
    )
