"""The components a use case works with, built in `assembly` and handed in."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.engine.conductor import Conductor
from quire.ledger.port import Ledger
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.pipeline import Pipeline


class House(Struct, frozen=True, kw_only=True):
    ledger: Ledger
    blobs: Blobs
    clock: Clock
    ids: Ids
    pipelines: Mapping[str, Pipeline]
    # Hires the workers when work begins and lets them go when it ends.
    conducting: Callable[[], AbstractAsyncContextManager[Conductor]]
