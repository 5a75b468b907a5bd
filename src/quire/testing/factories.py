"""Builds valid values; a test names only the fields it is about."""

from typing import Any

from quire.ledger.port import BatchDraft, OutboxMessage
from quire.model.batch import Batch, Position, Stage
from quire.model.files import File, Product
from quire.model.ids import BatchId
from quire.model.plan import Plan, PlanPhase, PlanStep
from quire.model.work import Outcome, Report

_PHASE_FIELDS = ("steps", "unit", "task_prefix", "pace")


def file(path: str = "a/b.tif", **changes: Any) -> File:
    known: dict[str, Any] = {
        "key": f"cas/{path}",
        "path": path,
        "name": path.rpartition("/")[2],
        "size": 10,
        "content_type": "image/tiff",
        "digest": "d" * 64,
    }
    return File(**(known | changes))


def product(role: str = "jpeg", **changes: Any) -> Product:
    known: dict[str, Any] = {
        "role": role,
        "key": f"cas/{role}",
        "size": 5,
        "content_type": "image/jpeg",
        "digest": "e" * 64,
    }
    return Product(**(known | changes))


def batch(
    stage: Stage = Stage.FLOWING, phase: int = 1, cursor: int = 0, *, round_no: int = 1, **changes: Any
) -> Batch:
    known: dict[str, Any] = {
        "no": 1,
        "id": BatchId("01B"),
        "pipeline": "plain",
        "pipeline_version": 1,
        "plan": "{}",
        "position": Position(stage, phase, cursor, round_no),
        "status": "X",
        "manifest_key": None,
        "total_files": 0,
        "last_file": 0,
        "created_at": 0.0,
        "updated_at": 0.0,
    }
    return Batch(**(known | changes))


def phase(name: str = "ONE", **changes: Any) -> PlanPhase:
    """A phase of one step, which takes every document. `changes` are fields of the phase or of its step."""
    known: dict[str, Any] = {"name": name.lower(), "step": "noop", "version": 1}
    own = {field: changes.pop(field) for field in _PHASE_FIELDS if field in changes}
    return PlanPhase(**({"name": name, "task_prefix": "t", "steps": (PlanStep(**(known | changes)),)} | own))


def pipeline(*phases: PlanPhase, **changes: Any) -> Plan:
    known: dict[str, Any] = {"name": "plain", "version": 1, "queue": "plain", "phases": phases or (phase(),)}
    return Plan(**(known | changes))


def draft(batch_id: str = "01B", **changes: Any) -> BatchDraft:
    known: dict[str, Any] = {
        "id": batch_id,
        "run_key": None,
        "pipeline": "plain",
        "pipeline_version": 1,
        "plan": "{}",
        "now": 1.0,
    }
    return BatchDraft(**(known | changes))


def outbox_message(batch_id: str = "01B") -> OutboxMessage:
    body = f'{{"batch_id": "{batch_id}", "manifest_r2_key": "m"}}'.encode()
    return OutboxMessage(queue="plain", message_id=f"start-{batch_id}", body=body)


def report(
    task_no: int = 1, attempt: int = 1, outcome: Outcome = Outcome.DONE, *, batch_no: int = 1, **changes: Any
) -> Report:
    return Report(batch_no, task_no, attempt, outcome, 1.0, 0.1, "w", **changes)
