"""The shape of a step: a plain function that reads one local file and leaves files in a folder.

A step runs in a worker process and may crash it. It knows nothing of queues, stores or batches:
the worker brings the input and carries the products away.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from quire.model.asset import AssetDraft
from quire.model.cost import Money
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.work import Earlier


class Meter(Protocol):
    """Where a step says what it spends and that it is getting on. Both may be called from any thread of the
    step, as often as it likes; after the step has returned they do nothing.
    """

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        """Add to what this attempt cost; it counts also when the step fails afterwards. `money` is in
        currency units; amounts are summed as written and the sum is rounded to millionths. Raises
        ValueError or TypeError for what is no amount.
        """
        ...

    def progress(self, done: int = 0, total: int = 0) -> None:
        """A sign of life, for steps whose phase limits the time without one. The numbers are for people."""
        ...


class NoMeter:
    """For steps that are called without a worker."""

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        """Nobody counts."""

    def progress(self, done: int = 0, total: int = 0) -> None:
        """Nobody waits."""


def _no_store(file: File) -> Path:
    raise Misconfigured(f"there is no store to fetch {file.path!r} from; give StepInput a `fetch`")


class StepInput(Struct, frozen=True, kw_only=True):
    """What a step is given.

    `source` is a readable local copy of the file (read-only: it may be the store's own);
    `folder` is an empty scratch folder for products, removed afterwards.

    A step that works on a directory or a whole batch finds the files in `members`, and `source` is their
    list as JSON. `fetch` brings one file's bytes to a local path, read-only and gone after the step; the same
    path each time, from any thread.
    `earlier` is what the order's earlier tasks gave, by the path of their file.
    """

    file: File
    source: Path
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    members: tuple[File, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    fetch: Callable[[File], Path] = _no_store
    meter: Meter = NoMeter()


class Made(Struct, frozen=True, kw_only=True):
    """A file the step left in its scratch folder."""

    role: str
    path: Path
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)


class StepOutput(Struct, frozen=True, kw_only=True):
    """With `asset` the file is registered as one when its products are stored, if it is not yet."""

    made: tuple[Made, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    asset: AssetDraft | None = None


class Weight(Struct, frozen=True):
    """Bytes of memory for one input, beyond what a worker has anyway: what it will likely take, and without
    which it cannot work.
    """

    likely: int = 0
    least: int = 0


StepFunction = Callable[[StepInput], StepOutput]


class Step(Struct, frozen=True, kw_only=True):
    """A step as it stands in a registry.

    `version` is part of the cache key: raise it whenever the same input would give other output.
    `reads` names the fields of the file's record that the products depend on beside the bytes (a reference
    names its file): a phase with this step puts them in its `cache_by`.
    `weigh` says before the work what memory it takes, from the first bytes of the source; what it cannot
    judge it calls light, and leaves the refusing to `run`.
    """

    name: str
    version: int
    run: StepFunction
    needs_source: bool = True  # False: works from the record alone, no bytes are fetched
    reads: tuple[str, ...] = ()
    weigh: Callable[[StepInput], Weight] | None = None  # None: it takes little


NO_OUTPUT = StepOutput()
