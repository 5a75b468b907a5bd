"""Orders and reports, which travel between the engine and the place where steps run, and the port between
them.

An `Order` is one attempt of one task to be run; a `Report` is how the attempt ended. A report names its
attempt: the ledger applies it only while that attempt is the current one.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field, structs

from quire.model.cost import LARGEST_AMOUNT, NO_COST, Cost, to_micros
from quire.model.files import File, Product

AttemptKey = tuple[int, int, int]  # batch, task, number of the attempt
LONGEST_WAIT_SECONDS = 366 * 86_400.0  # for an answer from outside


LONGEST_PAGED_SECONDS = 86_400.0  # that pages can make a time limit; one that was set longer stays as it is
_LEAST_PAGE_BYTES = 8  # of a file, however it is packed

MAX_VALUE_BYTES = 16 << 20  # of a value, as JSON


class StepCall(Struct, frozen=True, kw_only=True):
    """Which step to run, with which options and within which limits: the same for a whole phase."""

    step: str
    version: int
    options: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 120.0
    memory_mb: int = 2048
    stall_seconds: float = 0.0  # the longest time without a sign of progress; 0: no such limit
    # "file"; with "folder" or "batch" the order's file is a JSON array of the member files.
    unit: str = "file"
    compute: str = ""  # the name of the compute that the phase is to run on; empty: the only one
    asynchronous: bool = False  # the step is a coroutine: many of them run at once in one process
    at_once: int = 0  # how many at the same time in one process; 0: as many as there is room for
    resource: str = ""  # the name of a limit that several steps share
    page_seconds: float = 0.0  # added to the timeout for each page after the first

    def limit_seconds(self, pages: int) -> float:
        """The time limit for so many pages: as many as the step has said to have before it decodes any."""
        return _limit_seconds(self.timeout_seconds, self.page_seconds, pages)

    def longest_seconds(self, size: int) -> float:
        """The longest time limit that a file of so many bytes can have: for places that do not hear how many
        pages it has.
        """
        return longest_seconds(self.timeout_seconds, self.page_seconds, size)


def longest_seconds(timeout_seconds: float, page_seconds: float, size: int) -> float:
    """See `StepCall.longest_seconds`."""
    return _limit_seconds(timeout_seconds, page_seconds, size // _LEAST_PAGE_BYTES)


def _limit_seconds(timeout_seconds: float, page_seconds: float, pages: int) -> float:
    if pages <= 1 or not page_seconds:
        return timeout_seconds
    longest = max(timeout_seconds, LONGEST_PAGED_SECONDS)
    return min(longest, timeout_seconds + page_seconds * (pages - 1))


class Value(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a step gives to the steps after it: JSON in `data`, or, when it is large, in a blob."""

    data: Any = None
    key: str = ""
    size: int = 0
    digest: str = ""  # of the blob; empty: it is in `data`


class StepResult(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a successful attempt gives back: products in the blob store, facts in the record."""

    products: tuple[Product, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    value: Value | None = None
    tags: tuple[str, ...] = ()  # what its document is tagged with from now on, beside the tags it has


class MemberFile(File, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A document of a folder or a batch, with the values that earlier steps gave for it."""

    values: dict[str, Value] = field(default_factory=dict)


class EarlierResult(Struct, frozen=True, gc=False, array_like=True):
    """The result of the task on a folder right below, given to the task on the folder above it."""

    path: str
    result: StepResult


class Order(Struct, frozen=True, gc=False, array_like=True):
    """One attempt of one task."""

    batch_no: int
    task_no: int
    attempt: int
    file: File
    earlier: tuple[EarlierResult, ...] = ()
    values: dict[str, Value] = {}  # of earlier steps, by their names in the plan
    task: str = ""  # by which somebody outside may complete it; only of steps that return External

    @property
    def attempt_key(self) -> AttemptKey:
        return self.batch_no, self.task_no, self.attempt


class ExternalRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that somebody outside completes. With `queue`, `body` is sent there when the ledger has noted
    that an answer may come; without one the step has sent its request itself.
    """

    queue: str = ""
    body: bytes = b""
    within_seconds: float = 3600.0


class Outcome(StrEnum):
    """How an attempt ended. Everything but `done` carries an error class and a reason."""

    DONE = "done"
    REJECTED = "rejected"  # the step says: this input will never work
    ERRED = "erred"  # the step raised; may work next time
    CRASHED = "crashed"  # the worker process died under it
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    INTERRUPTED = "interrupted"  # not the task's fault: the process stopped, the store was full
    EXTERNAL = "external"  # not an end: somebody outside will answer


class Report(Struct, frozen=True, gc=False, array_like=True):
    """The end of one attempt."""

    batch_no: int
    task_no: int
    attempt: int
    outcome: Outcome
    started_at: float
    seconds: float
    worker: str
    result: StepResult | None = None
    error_class: str = ""
    error: str = ""
    delay_seconds: float = 0.0  # not before this much time has passed
    cost: Cost = NO_COST  # of this attempt, however it ended, as far as it is known
    known: bool = False  # the ledger has settled the attempt already: there is nothing left to settle
    request: ExternalRequest | None = None  # of an attempt that waits for an answer from outside
    warning: str = ""  # what the author of the step should know, however the attempt ended

    @property
    def attempt_key(self) -> AttemptKey:
        return self.batch_no, self.task_no, self.attempt


def add_price(report: Report, price_per_second: Decimal) -> Report:
    """The report with the price of its seconds added to its cost."""
    amount = min(price_per_second * Decimal(report.seconds), Decimal(LARGEST_AMOUNT))
    return structs.replace(report, cost=report.cost + Cost(money_micros=to_micros(amount)))


class Compute(Protocol):
    """Where steps run, as the dispatcher sees it. Bounded: a compute says how many orders it takes.

    Promises: every submitted order gives exactly one report, comes back from `stop` or is revoked; a step
    that crashes, hangs or exceeds its memory limit costs its own attempt and nothing else.
    """

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:
        """How many more orders to submit now, for phases that run on the compute of this name; 0 means: wait
        for reports first. A compute that is the only one ignores the name. With `call`, how many orders of
        this call: many coroutines run at once, and a call may have limits of its own.
        """
        ...

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        """Accept these orders. Raises nothing for a bad order: the failure becomes its report."""
        ...

    def take_reports(self) -> list[Report]:
        """Remove and return all reports that have arrived since the last call. Never waits."""
        ...

    def revoke(self, batch_no: int) -> None:
        """Stop everything of this batch now: orders that were not started are dropped, running ones are
        killed, and none of them is reported, not even one whose report has arrived and was not yet taken.
        Other batches lose nothing; orders of this batch that are submitted afterwards, as other attempts, run
        as usual. Never waits; may be repeated.
        """
        ...

    async def stop(self, grace_seconds: float) -> list[Order]:
        """Let running orders finish within the grace, then end. Returns the orders that were never started.

        Reports that arrived meanwhile are still returned by `take_reports`. May be repeated.
        """
        ...
