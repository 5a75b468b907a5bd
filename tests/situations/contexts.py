"""Contexts of use cases on one ledger, for tests that need no engine."""

from typing import Any

from quire.assembly.components import Components
from quire.testing.memory_queues import MemoryQueues
from tests.suites.ledger_adapter import LedgerAdapter

PORTS = (
    "batches",
    "uploads",
    "submissions",
    "intake",
    "tasks",
    "flow",
    "outbox",
    "members",
    "control",
    "records",
)


def components_on(ledger: LedgerAdapter, **given: Any) -> Components:
    """`given`: blobs, clock, ids, pipelines, and whatever is to differ."""
    known: dict[str, Any] = dict.fromkeys(PORTS, ledger)
    known |= {"queues": MemoryQueues(), "api_keys": None, "webhooks": None, "recipes": None}
    return Components(**(known | given))
