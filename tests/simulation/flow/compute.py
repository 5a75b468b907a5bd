"""What simulated steps of plans do: the same results as in the model, with failures that need not be, and
answers from outside that come late, twice, or only when they are asked for again.
"""

from collections.abc import Callable

import msgspec

from quire.engine import cache
from quire.model.plan import PlanStep, PlanUnit
from quire.model.work import ExternalRequest, MemberFile, Order, Outcome, Report, StepCall
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.flow.steps import Given, Nature, shape_of
from tests.simulation.flow.worlds import FlowWorld
from tests.simulation.shared.chaos import Chaos
from tests.simulation.shared.compute import FAILURES, Execution
from tests.simulation.shared.kernel import Kernel, run_alone

ANSWER_SECONDS = (0.1, 2.0, 20.0)
WITHIN_SECONDS = 60.0


class FlowSteps:
    """The same for all processes; remembers what ran. `answer` brings a report from outside to any process."""

    def __init__(self, world: FlowWorld, blobs: MemoryBlobs, chaos: Chaos, kernel: Kernel) -> None:
        self._world = world
        self._blobs = blobs
        self._chaos = chaos
        self._kernel = kernel
        self._chance = kernel.chance
        self.answer: Callable[[Report], bool] = lambda _report: True
        self.shaken: dict[tuple[int, int], int] = {}  # tasks that failed though they need not, how often
        self.ran: list[Execution] = []
        self.begun: set[tuple[int, int, int]] = set()

    def key(self, call: StepCall, order: Order) -> str | None:
        step = self._step(call)
        return cache.cache_key_of(cache.cache_key_prefix(step), step, order)

    def execute(self, call: StepCall, order: Order, seconds: float, worker: str, now: float) -> Report:
        outcome = self._outcome(call, order)
        self.ran.append(
            Execution(order.batch_no, order.task_no, order.attempt, self.key(call, order), outcome)
        )
        if outcome is Outcome.EXTERNAL:
            self._answer_later(self.report(call, order, Outcome.DONE, seconds, "outside", now))
        return self.report(call, order, outcome, seconds, worker, now)

    def report(
        self, call: StepCall, order: Order, outcome: Outcome, seconds: float, worker: str, now: float
    ) -> Report:
        place = (order.batch_no, order.task_no, order.attempt)
        if outcome is Outcome.EXTERNAL:
            request = ExternalRequest(within_seconds=WITHIN_SECONDS)
            return Report(*place, outcome, now, seconds, worker, request=request)
        if outcome is not Outcome.DONE:
            words = (outcome.value, f"simulated: {outcome.value}")
            return Report(*place, outcome, now, seconds, worker, None, *words)
        result, bodies = self._world.world_of(call.step).result_of(self._given(call, order))
        for product, body in zip(result.products, bodies, strict=True):
            self._blobs.store(product.key, body)
        return Report(*place, outcome, now, seconds, worker, result)

    def _outcome(self, call: StepCall, order: Order) -> Outcome:
        world, given = self._world.world_of(call.step), self._given(call, order)
        nature = world.nature_of(given)
        if nature not in {Nature.GOOD, Nature.SHAKY}:
            return Outcome(nature.value)
        if self._chaos.happens(self._chaos.rates.failing / 4):
            return Outcome.INTERRUPTED
        task = (order.batch_no, order.task_no)
        # One failure less than the limit: what would succeed without faults must succeed with them. An answer
        # from outside may be given up as too late, so waiting for one counts as a failure too.
        blamed = self.shaken.get(task, 0)
        if blamed >= self._step(call).max_attempts - 1:
            return Outcome.DONE
        shaky = nature is Nature.SHAKY and self._chance.random() < 0.6
        if shaky or self._chaos.happens(self._chaos.rates.failing):
            self.shaken[task] = blamed + 1
            return self._chance.choice(FAILURES)
        if world.is_external(given):
            self.shaken[task] = blamed + 1
            return Outcome.EXTERNAL
        return Outcome.DONE

    def _answer_later(self, report: Report) -> None:
        """Until a process has taken it; perhaps more often."""

        def tell() -> None:
            if not self.answer(report) or self._chaos.happens(self._chaos.rates.echoes):
                self._answer_later(report)

        self._kernel.after(self._chance.choice(ANSWER_SECONDS) * self._chance.random(), tell)

    def _step(self, call: StepCall) -> PlanStep:
        return self._world.step_of(call.step, str(call.options.get("branch", "")))[1]

    def _given(self, call: StepCall, order: Order) -> Given:
        unit = PlanUnit(call.unit)
        members: tuple[MemberFile, ...] = ()
        if unit is not PlanUnit.FILE:
            listed = run_alone(self._blobs.get(order.file.key))
            members = tuple(msgspec.json.decode(listed, type=list[MemberFile]))
        return Given(
            step=call.step,
            version=call.version,
            shape=shape_of(call.options),
            unit=unit,
            file=order.file,
            values=order.values,
            members=members,
            earlier=order.earlier,
        )
