"""Runs a pipeline over files that exist in name only, in a real embedded house with real workers."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from quire.assembly.engine import open_engine
from quire.batches.context import BatchContext, RunContext
from quire.batches.submission import close_batch
from quire.ledger.port import InputRecord, Upload
from quire.model.batch import Batch, PhaseCounts
from quire.model.plan import Plan, digest_of, encode_plan
from quire.settings import RetrySettings, Settings
from quire.testing.factories import draft

TEST_STEPS = ("quire.testing.steps",)
FAST_RETRIES = RetrySettings(first_delay_seconds=0.01, longest_delay_seconds=0.05)


class Outcome:
    def __init__(self, batch: Batch, records: list[InputRecord], counts: list[PhaseCounts]) -> None:
        self.batch = batch
        self.files = {record.path: record for record in records}
        self.counts = counts


async def _ignore(_: Batch) -> None:
    return None


async def submitted(
    house: BatchContext, pipeline: Plan, names: Sequence[str], batch_id: str = "0" * 26
) -> Batch:
    """A finalized batch of files that have no bytes: for steps that need none."""
    stored = {"plan": encode_plan(pipeline), "plan_digest": digest_of(pipeline)}
    batch = await house.uploads.open_batch(
        draft(batch_id, pipeline=pipeline.name, pipeline_version=pipeline.version, **stored)
    )
    uploads = [
        Upload(path=name, state="taken", size=1, key=f"cas/{name}", content_type="text/plain")
        for name in names
    ]
    await house.uploads.record_uploads(batch.no, uploads)
    return await close_batch(batch, pipeline, uploads=house.uploads, blobs=house.blobs, clock=house.clock)


async def run_names(
    home: Path,
    pipeline: Plan,
    names: Sequence[str],
    *,
    workers: int = 2,
    observe: Callable[[Batch], Awaitable[None]] = _ignore,
) -> Outcome:
    settings = Settings(home=home, workers=workers, retry=FAST_RETRIES)
    async with open_engine(settings, pipelines={pipeline.name: pipeline}, step_modules=TEST_STEPS) as house:
        batch = await submitted(house, pipeline, names)
        async with house.start_engine() as wheel:
            batch = await wheel.run_batch(batch.id, observe)
        return await outcome_of(house, batch)


async def outcome_of(house: RunContext, batch: Batch) -> Outcome:
    records: list[InputRecord] = []
    while page := await house.records.list_inputs(
        batch.no, after=records[-1].path if records else "", limit=1000
    ):
        records += page
    return Outcome(batch, records, await house.records.count_tasks(batch.no))
