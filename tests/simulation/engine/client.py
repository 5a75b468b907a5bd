"""Who hands in the batches of a simulated world."""

import sqlite3
from contextlib import suppress

from quire.batches.submission import close_batch
from quire.ledger.port import BatchDraft
from quire.model.batch import Stage
from quire.model.errors import Retry, Stale
from tests.simulation.engine.worlds import BatchSpec
from tests.simulation.shared.kernel import Kernel, pause
from tests.simulation.shared.processes import Outside


async def client(spec: BatchSpec, outside: Outside, kernel: Kernel) -> None:
    """Hands in a batch, again and again until it is accepted; its successor goes on where it was killed."""
    await pause(kernel, spec.at)
    while True:
        with suppress(Retry, Stale, sqlite3.IntegrityError):  # the last: another client of it was faster
            batch = await outside.ledger.find_run(spec.id)
            if batch is None:
                batch = await outside.ledger.open_batch(
                    BatchDraft(
                        id=spec.id,
                        run_key=spec.id,
                        pipeline=spec.pipeline.name,
                        pipeline_version=spec.pipeline.version,
                        plan="{}",
                        now=outside.clock.now(),
                        tier=spec.tier,
                        tenant=spec.tenant,
                        budget=spec.budget,
                        hands_over_to=spec.hands_over_to,
                    )
                )
            if batch.position.stage is not Stage.OPEN:
                return
            await outside.ledger.record_uploads(batch.no, spec.uploads)
            await close_batch(
                batch, spec.pipeline, uploads=outside.ledger, blobs=outside.blobs, clock=outside.clock
            )
            return
        await pause(kernel, 0.5)
