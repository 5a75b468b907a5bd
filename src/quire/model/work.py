"""What travels between the engine and the place where steps run, and the seam between the two.

An `Order` is one attempt of one task on its way out; a `Report` is what came of it. A report names
its attempt: the ledger applies it only while that attempt is the current one.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field, structs

from quire.model.cost import LARGEST_AMOUNT, NO_COST, Cost, micros
from quire.model.files import File, Product


class StepCall(Struct, frozen=True, kw_only=True):
    """Which step to run, with which options and within which limits: the same for a whole phase."""

    step: str
    version: int
    options: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 120.0
    memory_mb: int = 2048
    stall_seconds: float = 0.0  # the longest time without a sign of progress; 0: no such limit
    # "file"; with "directory" or "batch" the order's file is a JSON array of the member files.
    unit: str = "file"
    compute: str = ""  # the name of the compute that the phase is to run on; empty: the only one


class StepResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a successful attempt gives back: products in the blob store, facts in the record."""

    products: tuple[Product, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


class Earlier(Struct, frozen=True, array_like=True):
    """What a task of a lower rank gave, handed to those that come after it."""

    path: str
    result: StepResult


class Order(Struct, frozen=True, array_like=True):
    """One attempt of one task."""

    batch_no: int
    task_no: int
    attempt: int
    file: File
    earlier: tuple[Earlier, ...] = ()


class Outcome(StrEnum):
    """How an attempt ended. Everything but `done` carries an error class and a reason."""

    DONE = "done"
    REJECTED = "rejected"  # the step says: this input will never work
    ERRED = "erred"  # the step raised; may work next time
    CRASHED = "crashed"  # the worker process died under it
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    INTERRUPTED = "interrupted"  # not the task's fault: the house stopped, the store was full


class Report(Struct, frozen=True, array_like=True):
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
    known: bool = False  # the ledger has its end already, from elsewhere: there is nothing to fold


def priced(report: Report, price_per_second: Decimal) -> Report:
    """With what its seconds have cost added."""
    amount = min(price_per_second * Decimal(report.seconds), Decimal(LARGEST_AMOUNT))
    return structs.replace(report, cost=report.cost + Cost(money_micros=micros(amount)))


class Compute(Protocol):
    """Where steps run, as the conductor sees it. Bounded: it says how much it takes.

    Promises: every order handed over gives exactly one report, comes back from `stop` or is revoked; a step
    that crashes, hangs or eats its memory costs its own attempt and nothing else.
    """

    def room(self, compute: str = "") -> int:
        """How many more orders it wants now of phases that run on the compute of this name; 0 means: wait for
        reports first. A compute that is the only one does not look at the name.
        """
        ...

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        """Take these orders. Raises nothing for a bad order: that becomes its report."""
        ...

    def reports(self) -> list[Report]:
        """All reports that have arrived since the last call; never waits."""
        ...

    def revoke(self, batch_no: int) -> None:
        """Stop everything of this batch now: what was not started is dropped, what is running is killed; no
        report comes for any of it, not even one that has arrived and was not yet taken. Other batches lose
        nothing, and orders of this one that are handed over afterwards, as other attempts, run as
        usual. Never waits; may be repeated.
        """
        ...

    async def stop(self, grace_seconds: float) -> list[Order]:
        """Finish what is running within the grace, then end; give back the orders never started.

        Reports that arrived meanwhile are still to be had from `reports`. May be repeated.
        """
        ...
