"""The components a use case works with, built in `assembly` and handed in."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.engine.loop import EngineLoop
from quire.ledger.port import Ledger
from quire.model.batch import Budget
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.pipeline import Pipeline
from quire.queues.port import QueueStore


class Defaults(Struct, frozen=True, kw_only=True):
    """What new batches get when nobody says otherwise."""

    tier: int = 3
    tenant: str = ""
    budget: Budget = Budget()


class StartEngine(Protocol):
    """Hires workers when work begins and lets them go when it ends. None workers: as many as set; 0: none."""

    def __call__(
        self, *, conducts: bool = True, workers: int | None = None
    ) -> AbstractAsyncContextManager[EngineLoop]: ...


class BatchContext(Struct, frozen=True, kw_only=True):
    """Enough to look at batches and to intervene: nothing runs here."""

    ledger: Ledger
    queues: QueueStore
    blobs: Blobs
    clock: Clock
    ids: Ids
    pipelines: Mapping[str, Pipeline]
    defaults: Defaults = Defaults()
    warnings: tuple[str, ...] = ()  # what the backends may lose, for people to know


class RunContext(BatchContext, frozen=True, kw_only=True):
    """An office with workers. `claiming` keeps a request to one process at a time: it raises Misconfigured
    while another is at it.
    """

    conducting: StartEngine
    claiming: Callable[[str], AbstractContextManager[None]]
