"""Queue compute from settings: the side that sends tasks."""

import asyncio

from quire.assembly.components import Components
from quire.assembly.pipelines import build_retry_policy
from quire.assembly.secrets import load_signing_secret
from quire.batches.remote.queue_members import LedgerQueueMembers
from quire.compute.queue.compute import QueueCompute, QueueComputeOptions
from quire.compute.queue.envelopes import derive_ledger_id
from quire.model.signal import Signal
from quire.settings import Settings


def start_queue_compute(
    settings: Settings, components: Components, name: str, signal: Signal
) -> QueueCompute:
    """The caller stops it. `name` is that of this member of the ledger."""
    chosen = settings.compute
    ledger = settings.postgres.dsn.reveal() if settings.ledger == "postgres" else str(settings.home.resolve())
    compute = QueueCompute(
        components.queues,
        components.blobs,
        sender=f"{derive_ledger_id(load_signing_secret(settings), ledger)}-{name}",
        options=QueueComputeOptions(
            queue=chosen.queue,
            max_out=chosen.max_out,
            wait_seconds=chosen.wait_seconds,
            look_seconds=chosen.look_seconds,
        ),
        clock=components.clock,
        signal=signal,
        sleep=asyncio.sleep,
        members=LedgerQueueMembers(components.remote_context(), build_retry_policy(settings)),
    )
    compute.start()
    return compute
