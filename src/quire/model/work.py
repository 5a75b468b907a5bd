"""What travels between the engine and the place where steps run, and the seam between the two.

An `Order` is one attempt of one task on its way out; a `Report` is what came of it. A report names
its attempt: the ledger applies it only while that attempt is the current one.
"""

from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

from quire.model.files import File, Product


class StepCall(Struct, frozen=True, kw_only=True):
    """Which step to run, with which options and within which limits: the same for a whole phase."""

    step: str
    version: int
    options: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 120.0
    memory_mb: int = 2048


class Order(Struct, frozen=True, array_like=True):
    """One attempt of one task."""

    batch_no: int
    task_no: int
    attempt: int
    file: File


class Outcome(StrEnum):
    """How an attempt ended. Everything but `done` carries an error class and a reason."""

    DONE = "done"
    REJECTED = "rejected"  # the step says: this input will never work
    ERRED = "erred"  # the step raised; may work next time
    CRASHED = "crashed"  # the worker process died under it
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    INTERRUPTED = "interrupted"  # not the task's fault: the house stopped, the store was full


class StepResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a successful attempt gives back: products in the blob store, facts in the record."""

    products: tuple[Product, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


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


class Compute(Protocol):
    """Where steps run, as the conductor sees it. Bounded: it says how much it takes.

    Promises: every order handed over gives exactly one report or comes back from `stop`; a step that
    crashes, hangs or eats its memory costs its own attempt and nothing else.
    """

    def room(self) -> int:
        """How many more orders it wants now; 0 means: wait for reports first."""
        ...

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        """Take these orders. Raises nothing for a bad order: that becomes its report."""
        ...

    def reports(self) -> list[Report]:
        """All reports that have arrived since the last call; never waits."""
        ...

    async def stop(self, grace_seconds: float) -> list[Order]:
        """Finish what is running within the grace, then end; give back the orders never started.

        Reports that arrived meanwhile are still to be had from `reports`. May be repeated.
        """
        ...
