"""The components that use cases on batches work with; built in `assembly` and handed in."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.ledger.intake import IntakeStore
from quire.ledger.port import BatchStore, ControlStore, OutboxStore, RecordStore, UploadStore
from quire.model.batch import Budget
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.plan import Plan

if TYPE_CHECKING:  # commands that only inspect batches do not load the engine
    from quire.engine.loop import EngineLoop


class Defaults(Struct, frozen=True, kw_only=True):
    """What a new batch gets unless the request says otherwise."""

    tier: int = 3
    tenant: str = ""
    budget: Budget = Budget()


class StartEngine(Protocol):
    """Starts workers when work begins and stops them when it ends. `workers` None: as many as the settings
    say; 0: none.
    """

    def __call__(
        self, *, schedules: bool = True, workers: int | None = None
    ) -> "AbstractAsyncContextManager[EngineLoop]": ...


class BatchContext(Struct, frozen=True, kw_only=True):
    """Enough to open, inspect and control batches: nothing runs here."""

    batches: BatchStore
    uploads: UploadStore
    intake: IntakeStore
    records: RecordStore
    control: ControlStore
    blobs: Blobs
    clock: Clock
    ids: Ids
    pipelines: Mapping[str, Plan]
    defaults: Defaults = Defaults()


class RunContext(BatchContext, frozen=True, kw_only=True):
    """A batch context with an engine. `claim_request` keeps a request to one process at a time: it raises
    Misconfigured while another process works on it.
    """

    outbox: OutboxStore
    start_engine: StartEngine
    claim_request: Callable[[str], AbstractContextManager[None]]
