"""Steps: plain functions that read one local file and write files into a folder.

A step runs in a worker process and may crash it. It knows nothing of queues, stores or batches: the worker
fetches the input and stores the products.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from quire.model.asset import AssetDraft
from quire.model.cost import Money
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.work import EarlierResult


class Meter(Protocol):
    """Lets a step report its costs and its progress. Both methods may be called from any thread of the step,
    at any rate; after the step has returned they do nothing.
    """

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        """Add to the cost of this attempt, which counts even when the step fails afterwards. `money` is in
        currency units; amounts are summed as written and the sum is rounded to millionths. Raises
        ValueError or TypeError for an invalid amount.
        """
        ...

    def progress(self, done: int = 0, total: int = 0) -> None:
        """Show progress, for steps whose phase limits the time without it. The numbers are for people."""
        ...


class NoMeter:
    """Ignores everything; for steps that are called without a worker."""

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        """Ignored."""

    def progress(self, done: int = 0, total: int = 0) -> None:
        """Ignored."""


def _no_store(file: File) -> Path:
    raise Misconfigured(f"there is no store to fetch {file.path!r} from; give StepInput a `fetch`")


class StepInput(Struct, frozen=True, kw_only=True):
    """The input of a step.

    `source` is a readable local copy of the file (read-only: it may be the store's own);
    `folder` is an empty scratch folder for products, removed afterwards.

    A step that works on a directory or a whole batch finds the files in `members`, and `source` is their
    list as JSON. `fetch` copies one file to a local path, read-only and removed after the step; the same path
    each time, from any thread.
    `earlier` holds the results of earlier tasks, with the path of their file.
    """

    file: File
    source: Path
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    members: tuple[File, ...] = ()
    earlier: tuple[EarlierResult, ...] = ()
    fetch: Callable[[File], Path] = _no_store
    meter: Meter = NoMeter()


class OutputFile(Struct, frozen=True, kw_only=True):
    """A file that the step wrote into its scratch folder."""

    role: str
    path: Path
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)


class StepOutput(Struct, frozen=True, kw_only=True):
    """With `asset`, the input file is registered as an asset when its products are stored."""

    files: tuple[OutputFile, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    asset: AssetDraft | None = None


class MemoryEstimate(Struct, frozen=True):
    """Bytes of memory for one input, beyond those of an idle worker: `likely` is what the step will probably
    use, `least` what it cannot work without.
    """

    likely: int = 0
    least: int = 0


StepFunction = Callable[[StepInput], StepOutput]


class Step(Struct, frozen=True, kw_only=True):
    """A step as listed in a registry.

    `version` is part of the cache key: raise it whenever the same input would give other output.
    `reads` names the fields of the file's record that the products depend on beside the bytes (a reference
    names its file): a phase with this step puts them in its `cache_by`.
    `estimate_memory` says before the work how much memory it takes, from the first bytes of the source. An
    input that it cannot judge counts as light; refusing is left to `run`.
    """

    name: str
    version: int
    run: StepFunction
    needs_source: bool = True  # False: works from the record alone, no bytes are fetched
    reads: tuple[str, ...] = ()
    estimate_memory: Callable[[StepInput], MemoryEstimate] | None = None  # None: the step takes little


NO_OUTPUT = StepOutput()
