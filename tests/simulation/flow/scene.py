"""A simulated world of batches that flow, on the processes, clocks and faults of the engine's simulator."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import structs

from quire.batches.submission import close_batch
from quire.ledger.port import BatchDraft, Upload
from quire.model.batch import Batch, Stage
from quire.model.errors import Retry, Stale
from quire.model.plan import Plan, digest_of, encode_plan
from quire.model.work import Report
from tests.simulation.flow import checks
from tests.simulation.flow.compute import FlowSteps
from tests.simulation.flow.invariants import broken_invariants
from tests.simulation.flow.plans import body_of
from tests.simulation.flow.worlds import FlowBatch, FlowWorld
from tests.simulation.shared.chaos import Chaos, Rates
from tests.simulation.shared.kernel import Kernel, SimProcess, pause, run_alone
from tests.simulation.shared.processes import Outside, intervene
from tests.simulation.shared.scene import ChaosMade, Simulation, Violation

PARTLY = 0.15  # how often a process does not know all pipelines


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
        plan=encode_plan(spec.pipeline),
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


def _alter(plan: Plan) -> Plan:
    """Another pipeline of the same name and version: one of its steps is another."""
    phase = plan.phases[0]
    other = structs.replace(phase.steps[0], version=phase.steps[0].version + 10)
    changed = structs.replace(phase, steps=(other, *phase.steps[1:]))
    return structs.replace(plan, phases=(changed, *plan.phases[1:]))


class FlowSimulation(Simulation):
    """The engine's simulation with plans."""

    rest_steps = 40_000
    make_steps = FlowSteps
    make_client = staticmethod(hand_in)
    find_problems = staticmethod(checks.problems)

    def __init__(
        self, world: FlowWorld, chance: Random, chosen: Rates, *, houses: int = 1, chaos: ChaosMade = Chaos
    ) -> None:
        self._knowing: set[str] = set()
        super().__init__(world, chance, chosen, houses=houses, chaos=chaos)
        self.steps.answer = self._bring_answer
        self._changes = 0
        self._ask_outside()

    def _ask_outside(self) -> None:
        self.kernel.spawn("outside", self.steps.answer_requests(self._plain()))

    def _replace(self, process: SimProcess) -> None:
        super()._replace(process)
        if process.name == "outside":
            self._ask_outside()

    def _outside(self, who: str) -> Outside:
        """Some processes know only some of the pipelines, or other rules under the same name."""
        outside = super()._outside(who)
        partly = self.chaos.rates != Rates() and self.chaos.happens(PARTLY)
        if not who.startswith("house ") or not partly:
            self._knowing.add(who)
            return outside
        known = {name: _alter(plan) for name, plan in self.world.pipelines.items()}
        first = next(iter(known))
        if len(known) > 1:
            known[first] = self.world.pipelines[first]
        return structs.replace(outside, pipelines=known)

    def calm(self) -> None:
        super().calm()
        if not any(
            house.conducts and house.works and house.name in self._knowing
            for house in self.houses
            if house.alive and not house.stopping
        ):
            self._found(conducts=True, works=True)

    def heal(self) -> None:
        """From now on everything can be done; whoever failed before is tried again."""
        self.steps.healed = True

    def disturb_again(self, steps: int) -> None:
        """Faults in a later round, too."""
        self.chaos.active = True
        if self.chaos.rates.acts:
            self._hire_operator()
        self.noise(self.kernel.steps + steps)

    def retry_failed(self) -> None:
        for batch in self.batches():
            run_alone(intervene(self._plain(), batch.id, "again"))
        for house in self.houses:
            if house.alive:
                house.wheel.wake()

    def compare(self) -> int:
        """With the model; how many batches have come to their end."""
        compared = 0
        for batch, spec in zip(self.batches(), self.world.batches, strict=True):
            if batch.position.stage is not Stage.DONE:
                if not (self.chaos.rates.acts or self.chaos.blob_faults):
                    raise Violation(f"batch {batch.no} is {batch.status}: {batch.error}")
                continue
            compared += 1
            found = checks.differences(self.database, self.blobs, batch, spec, healed=self.steps.healed)
            if found:
                raise Violation(f"batch {batch.no}: " + "\n".join(found[:6]))
        return compared

    def _look(self) -> None:
        super()._look()
        changes = self.database.connection.total_changes
        if changes != self._changes:
            self._changes = changes
            found = broken_invariants(self.database, self.world)
            if found:
                raise Violation("\n".join(found))

    def _watch(self, who: str, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        super()._watch(who, name, arguments, answer)
        if name == "take_batches" and answer and self.chaos.happens(self.chaos.rates.meets):
            self.kernel.note(who, "LOSES WHAT IT HAS TAKEN")
            for batch in answer:
                self.database.rows("UPDATE batches SET mover = NULL WHERE no = ?", batch.no)

    def _bring_answer(self, report: Report) -> bool:
        """False: nobody has taken it, or the one who did has not settled it yet."""
        waits = self.database.rows(
            "SELECT 1 FROM tasks WHERE batch_no = ? AND task_no = ? AND attempt = ? "
            "AND state IN ('running', 'external')",
            *(report.batch_no, report.task_no, report.attempt),
        )
        if waits:
            self._deliver_anywhere(report)
        return not waits
