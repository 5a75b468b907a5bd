"""Steps: plain functions that read one local file and write files into a folder.

A step runs in a worker process and may crash it. It knows nothing of queues, stores or batches: the worker
fetches the input and stores the products.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from quire.model.asset import AssetDraft
from quire.model.cost import Money
from quire.model.errors import Misconfigured
from quire.model.files import Change, File
from quire.model.work import EarlierResult, ExternalRequest, MemberFile, Value

# The setting `sandbox`: in one where the kernel allows it; always, or refuse to start; never.
SandboxMode = Literal["auto", "on", "off"]


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


def _read_inline(value: Value) -> Any:
    if value.digest:
        raise Misconfigured("there is no store to read a large value from; give StepInput a `resolve`")
    return value.data


class StepInput(Struct, frozen=True, kw_only=True):
    """The input of a step.

    `source` is a readable local copy of the file (read-only: it may be the store's own);
    `folder` is an empty scratch folder for products, removed afterwards.

    A step that works on a directory or a whole batch finds the files in `members`, and `source` is their
    list as JSON. `fetch` copies one file to a local path, read-only and removed after the step; the same path
    each time, from any thread.
    `earlier` holds the results of earlier tasks, with the path of their file; `values` what earlier steps
    gave for this document, by their names, as JSON decodes it. `resolve` gives the values of members in the
    same form and reads large ones from the store each time. It waits, and so does `fetch`: a coroutine calls
    them in a thread. `task` is the token by which somebody outside may complete the task.
    """

    file: File
    source: Path
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    members: tuple[MemberFile, ...] = ()
    earlier: tuple[EarlierResult, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    fetch: Callable[[File], Path] = _no_store
    resolve: Callable[[Value], Any] = _read_inline
    meter: Meter = NoMeter()
    task: str = ""


class OutputFile(Struct, frozen=True, kw_only=True):
    """A file that the step wrote into its scratch folder. For the last four fields see `Product`."""

    role: str
    path: Path
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    preferred: str = ""
    change: Change = Change.HANG
    tags: tuple[str, ...] = ()


class StepOutput(Struct, frozen=True, kw_only=True):
    """With `asset`, the input file is registered as an asset when its products are stored. `value` is all
    that JSON can say, for the steps that come after; None is no value. `tags` are added to the document's.
    With `external` the task is not done: somebody outside will answer.
    """

    files: tuple[OutputFile, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    asset: AssetDraft | None = None
    value: Any = None
    tags: tuple[str, ...] = ()
    external: ExternalRequest | None = None


class MemoryEstimate(Struct, frozen=True):
    """Bytes of memory for one input, beyond those of an idle worker: `likely` is what the step will probably
    use, `least` what it cannot work without.
    """

    likely: int = 0
    least: int = 0


StepFunction = Callable[[StepInput], StepOutput]
# For steps that run in a sandbox: what they read beside their input and the libraries, by their options.
# None: with these options they need what no sandbox gives.
SandboxPlaces = Callable[[Mapping[str, Any]], tuple[str, ...] | None]
AsyncStepFunction = Callable[[StepInput], Awaitable[StepOutput]]


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
    run_async: AsyncStepFunction | None = None  # of a step that is a coroutine; `run` is not called then
    external: bool = False  # it may leave its tasks to somebody outside
    sandbox: SandboxPlaces | None = None  # None: it runs with all that its process may do


NO_OUTPUT = StepOutput()


def find_step(steps: Mapping[str, Step], name: str, version: int) -> Step | None:
    """The step of this name and version. A registry has steps by name; where it has several versions of one,
    the others as `name@version`.
    """
    found = steps.get(f"{name}@{version}") or steps.get(name)
    return found if found is not None and found.version == version else None
