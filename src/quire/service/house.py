"""The components a use case works with, built in `assembly` and handed in."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.engine.wheel import Wheel
from quire.ledger.port import Ledger
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.pipeline import Pipeline


class Office(Struct, frozen=True, kw_only=True):
    """Enough to look at batches and to intervene: nothing runs here."""

    ledger: Ledger
    blobs: Blobs
    clock: Clock
    ids: Ids
    pipelines: Mapping[str, Pipeline]


class House(Office, frozen=True, kw_only=True):
    """An office with a wheel: hires the workers when work begins and lets them go when it ends."""

    conducting: Callable[[], AbstractAsyncContextManager[Wheel]]
