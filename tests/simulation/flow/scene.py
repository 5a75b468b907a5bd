"""A simulated world of batches that flow, on the processes, clocks and faults of the engine's simulator."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from quire.batches.submission import close_batch, freeze_pipeline
from quire.ledger.port import BatchDraft, Upload
from quire.model.batch import Batch, Stage
from quire.model.errors import Retry, Stale
from quire.model.plan import digest_of
from quire.model.work import Report
from tests.simulation.flow import checks
from tests.simulation.flow.compute import FlowSteps
from tests.simulation.flow.plans import body_of
from tests.simulation.flow.worlds import FlowBatch, FlowWorld
from tests.simulation.shared.chaos import Chaos, Rates
from tests.simulation.shared.kernel import Kernel, pause
from tests.simulation.shared.processes import Outside
from tests.simulation.shared.scene import ChaosMade, Simulation, Violation

CHECK_EVERY = 32


async def hand_in(spec: FlowBatch, outside: Outside, kernel: Kernel) -> None:
    """Hands in a batch, again and again until it is accepted; its successor goes on where it was killed."""
    await pause(kernel, spec.at)
    while True:
        with suppress(Retry, Stale, sqlite3.IntegrityError):  # the last: another client of it was faster
            batch = await outside.ledger.find_run(spec.id)
            if batch is None:
                batch = await outside.ledger.open_batch(_draft(spec, outside.clock.now()))
            if batch.position.stage is Stage.OPEN:
                await _close(spec, batch, outside)
            return
        await pause(kernel, 0.5)


def _draft(spec: FlowBatch, now: float) -> BatchDraft:
    return BatchDraft(
        id=spec.id,
        run_key=spec.id,
        pipeline=spec.pipeline.name,
        pipeline_version=spec.pipeline.version,
        plan=freeze_pipeline(spec.pipeline),
        plan_digest=digest_of(spec.pipeline),
        now=now,
        tier=spec.tier,
        tenant=spec.tenant,
        budget=spec.budget,
        hands_over_to=spec.hands_over_to,
    )


async def _close(spec: FlowBatch, batch: Batch, outside: Outside) -> None:
    for file in spec.case.inputs:
        await outside.blobs.put(file.key, body_of(file))
    await outside.ledger.record_uploads(batch.no, spec.uploads)
    await close_batch(
        batch,
        spec.pipeline,
        uploads=outside.ledger,
        blobs=outside.blobs,
        clock=outside.clock,
        pages=_pages(spec.uploads),  # the ledger's own pages lack the configuration of files
    )


async def _pages(uploads: Sequence[Upload]) -> AsyncIterator[Sequence[Upload]]:
    yield uploads


class FlowSimulation(Simulation):
    """The engine's simulation with plans."""

    rest_steps = 40_000
    make_steps = FlowSteps
    make_client = staticmethod(hand_in)
    find_problems = staticmethod(checks.problems)

    def __init__(
        self, world: FlowWorld, chance: Random, chosen: Rates, *, houses: int = 1, chaos: ChaosMade = Chaos
    ) -> None:
        super().__init__(world, chance, chosen, houses=houses, chaos=chaos)
        self.steps.answer = self._bring_answer
        self._checked = 0

    def compare(self) -> int:
        """With the model; how many batches have come to their end."""
        compared = 0
        for batch, spec in zip(self.batches(), self.world.batches, strict=True):
            if batch.position.stage is not Stage.DONE:
                if not (self.chaos.rates.acts or self.chaos.blob_faults):
                    raise Violation(f"batch {batch.no} is {batch.status}: {batch.error}")
                continue
            compared += 1
            found = checks.differences(self.database, self.blobs, batch, spec)
            if found:
                raise Violation(f"batch {batch.no}: " + "\n".join(found[:6]))
        return compared

    def _look(self) -> None:
        super()._look()
        if self.kernel.steps >= self._checked + CHECK_EVERY:
            self._checked = self.kernel.steps
            found = checks.wrong_counters(self.database)
            if found:
                raise Violation("\n".join(found))

    def _bring_answer(self, report: Report) -> bool:
        """False: nobody has taken it, or the one who did has not settled it yet."""
        waits = self.database.rows(
            "SELECT 1 FROM tasks WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state IN ('running', 'external')",
            *(report.batch_no, report.task_no, report.attempt),
        )
        if waits:
            self._deliver_anywhere(report)
        return not waits

    def show(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """For those who look for a fault."""
        return self.database.rows(query, *values)
