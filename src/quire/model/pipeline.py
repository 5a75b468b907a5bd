"""Pipelines and phases: which files a step takes, and how its results change the file list.

The functions in a phase are pure: the engine calls them inside a transaction and may call them again.
"""

from collections.abc import Callable, Container
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from quire.model.files import File, Product
from quire.model.work import StepCall, StepResult


class KeptFile(Struct, frozen=True):
    """The file stays in the list, perhaps with other tags."""

    tags: tuple[str, ...]


class AddedFile(Struct, frozen=True):
    """A file that is added to the list (`listed`), or is an asset of its source outside the list."""

    file: File
    role: str
    listed: bool = True


class ListChange(Struct, frozen=True):
    """What a settled task does to its file: `kept` None removes it from the list (`added` replaces it)."""

    kept: KeptFile | None
    added: tuple[AddedFile, ...] = ()


class Unit(StrEnum):
    """What one task of a phase is about."""

    FILE = "file"
    DIRECTORY = "directory"  # all files of a folder that the phase finds, not those of folders below it
    BATCH = "batch"  # all files that the phase finds


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a phase dispatches tasks, for compute that must not be flooded. 0: no delay."""

    first_seconds: float = 0.0  # from the beginning (of the batch, if it flows) to the phase's first dispatch
    between_seconds: float = 0.0  # from one dispatch to the next
    at_once: int = 0  # orders per dispatch; 0: as many as compute has room for


class Phase(Struct, frozen=True, kw_only=True):
    """One phase of a pipeline.

    finds:    does this file need the step? With units: does it belong to its directory's, the batch's task?
    unit:     what one task is about; a directory's or the batch's task is given a file that stands for it
    rank:     order inside the phase, by the task's file: lower ranks settle before higher ones start. A
              directory's task is given the results of the directories directly below it.
    rivals:   paths that must be free for the names this phase would give; the engine looks them up
    becomes:  what the file list turns into after success. `taken` holds those rivals (case-folded) that
              exist. After failure the file always passes unchanged.
    cache_by: fields of the file's record (beside its bytes) that the step's result depends on; of a table
              one key will do: `processing_config.pdf_pages`
    """

    name: str
    task_prefix: str
    step: str
    step_version: int
    finds: Callable[[File], bool]
    becomes: Callable[[File, StepResult, Container[str]], ListChange]
    rivals: Callable[[File, StepResult], tuple[str, ...]] = lambda _file, _result: ()
    options: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 120.0
    stall_seconds: float = 0.0  # longest time without progress, for steps that report it; 0: no limit
    memory_mb: int = 2048
    max_attempts: int = 3
    cached: bool = True
    cache_by: tuple[str, ...] = ()
    unit: Unit = Unit.FILE
    rank: Callable[[File], int] | None = None
    pace: Pace = Pace()
    compute: str = ""  # where it runs, by name; empty: wherever there is only one

    def call(self) -> StepCall:
        return StepCall(
            step=self.step,
            version=self.step_version,
            options=self.options,
            timeout_seconds=self.timeout_seconds,
            stall_seconds=self.stall_seconds,
            memory_mb=self.memory_mb,
            unit=self.unit.value,
            compute=self.compute,
        )


class Pipeline(Struct, frozen=True, kw_only=True):
    """`left_alone`: by content type, why the pipeline skips files of a kind that it could process, and what
    to do about it. Files of all other kinds are reported as handled by no phase.
    """

    name: str
    version: int
    queue: str
    phases: tuple[Phase, ...]
    left_alone: dict[str, str] = field(default_factory=dict)


def from_product(product: Product, *, path: str, source: File, tags: tuple[str, ...]) -> File:
    """The list entry of a file that a step made out of `source`."""
    return File(
        key=product.key,
        path=path,
        name=path.rpartition("/")[2],
        size=product.size,
        content_type=product.content_type,
        digest=product.digest,
        cid=product.facts.get("cid"),
        source_file=source.name,
        tags=tags,
        processing_config=source.processing_config,
    )
