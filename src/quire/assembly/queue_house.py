"""Queue compute out of settings: the half of it that a house has."""

import asyncio
from functools import partial

from quire.assembly.pipelines import retry_policy
from quire.assembly.secrets import signing_secret
from quire.compute.envelopes import estate
from quire.compute.queue import QueueCompute, Terms
from quire.model.signal import Signal
from quire.service.house import Office
from quire.service.queue_reports import fold
from quire.settings import Settings


def hire_on_queue(settings: Settings, office: Office, signal: Signal) -> QueueCompute:
    """Started; whoever takes it stops it."""
    chosen = settings.compute
    compute = QueueCompute(
        office.queues,
        office.blobs,
        house=f"{estate(signing_secret(settings))}-{office.ids.ulid()}",
        terms=Terms(
            queue=chosen.queue,
            max_out=chosen.max_out,
            wait_seconds=chosen.wait_seconds,
            look_seconds=chosen.look_seconds,
        ),
        clock=office.clock,
        signal=signal,
        sleep=asyncio.sleep,
        fold=partial(fold, office, retry_policy(settings)),
    )
    compute.start()
    return compute
