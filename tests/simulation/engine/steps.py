"""What simulated steps of pipelines that go from phase to phase do."""

from quire.engine import cache
from quire.model.work import Order, Outcome, Report, StepCall
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.engine.worlds import Nature, World, result_of
from tests.simulation.shared.chaos import Chaos
from tests.simulation.shared.compute import FAILURES, Execution
from tests.simulation.shared.kernel import Kernel


class Steps:
    """What steps do, the same for all processes; remembers what ran."""

    def __init__(self, world: World, blobs: MemoryBlobs, chaos: Chaos, kernel: Kernel) -> None:
        self._world = world
        self._blobs = blobs
        self._chaos = chaos
        self._chance = kernel.chance
        self.shaken: dict[tuple[int, int], int] = {}  # tasks that failed though they need not, how often
        self.ran: list[Execution] = []
        self.begun: set[tuple[int, int, int]] = set()

    def key(self, call: StepCall, order: Order) -> str | None:
        phase = self._world.phase_of(call.step)
        return cache.cache_key_of(cache.cache_key_prefix(phase), phase, order)

    def execute(self, call: StepCall, order: Order, seconds: float, worker: str, now: float) -> Report:
        outcome = self._outcome(call, order)
        self.ran.append(
            Execution(order.batch_no, order.task_no, order.attempt, self.key(call, order), outcome)
        )
        return self.report(call, order, outcome, seconds, worker, now)

    def report(
        self, call: StepCall, order: Order, outcome: Outcome, seconds: float, worker: str, now: float
    ) -> Report:
        place = (order.batch_no, order.task_no, order.attempt)
        if outcome is not Outcome.DONE:
            words = (outcome.value, f"simulated: {outcome.value}")
            return Report(*place, outcome, now, seconds, worker, None, *words)
        result, bodies = result_of(self._world.phase_of(call.step), order.file, order.earlier)
        for product, body in zip(result.products, bodies, strict=True):
            self._blobs.store(product.key, body)
        return Report(*place, outcome, now, seconds, worker, result)

    def may_be_late(self, report: Report) -> bool:
        return report.outcome is Outcome.TIMED_OUT and (report.batch_no, report.task_no) in self.shaken

    def _outcome(self, call: StepCall, order: Order) -> Outcome:
        phase = self._world.phase_of(call.step)
        nature = self._world.nature(phase, order.file)
        if nature not in {Nature.GOOD, Nature.SHAKY}:
            return Outcome(nature.value)
        if self._chaos.happens(self._chaos.rates.failing / 4):
            return Outcome.INTERRUPTED
        task = (order.batch_no, order.task_no)
        # One failure less than the limit: what would succeed without faults must succeed with them.
        blamed = self.shaken.get(task, 0)
        shaky = nature is Nature.SHAKY and self._chance.random() < 0.6
        if (shaky or self._chaos.happens(self._chaos.rates.failing)) and blamed < phase.max_attempts - 1:
            self.shaken[task] = blamed + 1
            return self._chance.choice(FAILURES)
        return Outcome.DONE
