"""What the suites of the ledger share: who acts, and batches that are closed and not begun."""

from collections.abc import Collection
from typing import Any

from quire.ledger.port import OperatorAction, Upload
from quire.model.batch import Batch
from quire.testing.factories import draft, outbox_message
from tests.suites.ledger_adapter import LedgerAdapter

ME = 1


def act(now: float = 50.0) -> OperatorAction:
    return OperatorAction(actor="ann", reason="because", now=now)


async def finalized(
    ledger: LedgerAdapter, paths: Collection[str] = (), batch_id: str = "01B", **drafted: Any
) -> Batch:
    """Closed, its message in the outbox."""
    batch = await ledger.open_batch(draft(batch_id, **drafted))
    await ledger.record_uploads(batch.no, [Upload(path=path, state="taken", size=10) for path in paths])
    return await ledger.close_batch(
        batch.no, manifest_key="m", total_files=len(paths), message=outbox_message(batch_id), now=2.0
    )
