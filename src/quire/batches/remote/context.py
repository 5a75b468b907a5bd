"""The components that use cases on remote tasks work with."""

from collections.abc import Mapping

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.ledger.port import BatchStore, FlowStore, MemberStore, RecordStore, TaskStore
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.plan import Plan


class RemoteContext(Struct, frozen=True, kw_only=True):
    batches: BatchStore
    tasks: TaskStore
    flow: FlowStore
    records: RecordStore
    members: MemberStore
    blobs: Blobs
    clock: Clock
    ids: Ids
    pipelines: Mapping[str, Plan]
