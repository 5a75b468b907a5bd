"""Small portions, so that every loop of the engine goes round."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from quire.engine import dispatcher, handover, outbox, scheduler

Sizes = Sequence[tuple[Any, str, int]]  # a module, the name of a constant, its size


def engine_sizes(chance: Random) -> Sizes:
    """Of loops that every batch goes through."""
    return [
        (scheduler, "BATCHES_AT_ONCE", chance.choice((1, 2))),
        (outbox, "MESSAGES_AT_ONCE", chance.choice((1, 2))),
        (dispatcher, "FREE_AT_ONCE", chance.choice((2, 10))),
        (handover, "ROWS_AT_ONCE", 3),
        (handover, "FILES_HELD", 6),
    ]


@contextmanager
def set_sizes(sizes: Sizes) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in sizes]
    for module, name, size in sizes:
        setattr(module, name, size)
    try:
        yield
    finally:
        for module, name, size in before:
            setattr(module, name, size)
