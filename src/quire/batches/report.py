"""`report.json`: every input file exactly once, with its end. Written as it comes, whatever its length."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from quire.batches.lines import sum_costs
from quire.ledger.port import InputRecord
from quire.model.batch import Batch, PhaseCounts
from quire.model.clock import timestamp

NAME = "report.json"
_encoder = msgspec.json.Encoder()


class ReportWriter:
    """The files go to a part file first: the counts that stand before them are known only at the end."""

    def __init__(self, out: Path, batch_id: str, pipeline: str) -> None:
        self.path = out / NAME
        self._head = {"batch_id": batch_id, "pipeline": pipeline}
        self._part = out / ".report.json.part"
        self._files = out / ".report.files.part"

    def __enter__(self) -> Self:
        self._out = self._files.open("wb")
        self._separator = b""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._files.unlink(missing_ok=True)
        self._part.unlink(missing_ok=True)

    def add(self, record: InputRecord, outputs: Sequence[str]) -> None:
        value = {
            "path": record.path,
            "status": record.outcome,
            "reason": record.reason or None,
            "error_class": record.error_class or None,
            "outputs": outputs,
            "attempts": record.attempts,
            "size": record.size,
        }
        self._out.write(self._separator + _encoder.encode(value))
        self._separator = b",\n    "

    def finish(
        self, counts: dict[str, int], batch: Batch, phases: Sequence[PhaseCounts], seconds: float
    ) -> None:
        self._out.close()
        head = self._head | {
            "status": batch.status,
            "error": batch.error,
            "counts": counts,
            "started_at": timestamp(batch.created_at),
            "completed_at": timestamp(batch.completed_at) if batch.completed_at else None,
            "seconds": round(seconds, 3),
            "spent": sum_costs([phase.spent for phase in phases]),
            # Last, as it ends with a bracket: the files are written where the closing brace would stand.
            "phases": [
                {"name": phase.name, "total": phase.total, "done": phase.done, "failed": phase.failed}
                | {"from_cache": phase.cached}
                for phase in phases
            ],
        }
        with self._part.open("wb") as part:
            part.write(msgspec.json.format(_encoder.encode(head), indent=2).rstrip(b"\n}"))
            part.write(b',\n  "files": [\n    ')
            with self._files.open("rb") as files:
                while piece := files.read(1 << 20):
                    part.write(piece)
            part.write(b"\n  ]\n}\n")
            part.flush()
            os.fsync(part.fileno())
        self._part.replace(self.path)
