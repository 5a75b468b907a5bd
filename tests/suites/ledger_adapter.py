"""The ledger under test: every port of the ledger, kept by one object on one database."""

from typing import Protocol

from quire.ledger.port import (
    BatchStore,
    ControlStore,
    FlowStore,
    MemberStore,
    OutboxStore,
    RecordStore,
    SubmissionStore,
    TaskStore,
    UploadStore,
)


class LedgerAdapter(
    BatchStore,
    UploadStore,
    SubmissionStore,
    TaskStore,
    FlowStore,
    OutboxStore,
    MemberStore,
    ControlStore,
    RecordStore,
    Protocol,
):
    """What the suites of the ledger are given. Use cases take the ports they need."""
