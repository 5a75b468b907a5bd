"""What simulated steps of plans do: the same results as in the model, with failures that need not be, and
answers from outside that come late, twice, or only when they are asked for again.
"""

from collections.abc import Callable

import msgspec

from quire.engine import cache
from quire.model.plan import PlanStep, PlanUnit
from quire.model.work import ExternalRequest, MemberFile, Order, Outcome, Report, StepCall
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.flow.steps import Given, Nature, World, shape_of
from tests.simulation.flow.worlds import FlowWorld
from tests.simulation.shared.chaos import Chaos
from tests.simulation.shared.compute import FAILURES, Execution
from tests.simulation.shared.kernel import Kernel, pause, run_alone
from tests.simulation.shared.processes import Outside

ANSWER_SECONDS = (0.1, 2.0, 20.0)
WITHIN_SECONDS = 60.0
OUTSIDE = "outside"  # the queue to those who answer
LOOK_SECONDS = 0.5
LEASE_SECONDS = 60.0

Place = tuple[int, int, int]  # batch, task, attempt


class FlowSteps:
    """The same for all processes; remembers what ran. `answer` brings a report from outside to any process;
    `healed`: what never got done is done from now on.
    """

    def __init__(self, world: FlowWorld, blobs: MemoryBlobs, chaos: Chaos, kernel: Kernel) -> None:
        self._world = world
        self._blobs = blobs
        self._chaos = chaos
        self._kernel = kernel
        self._chance = kernel.chance
        self._asked: dict[Place, Report] = {}  # what somebody outside will answer
        self.healed = False
        self.answer: Callable[[Report], bool] = lambda _report: True
        self.shaken: dict[tuple[int, int], int] = {}  # tasks that failed though they need not, how often
        self.ran: list[Execution] = []
        self.begun: set[Place] = set()

    def key(self, call: StepCall, order: Order) -> str | None:
        step = self._step(call)
        return cache.cache_key_of(cache.cache_key_prefix(step), step, order)

    def execute(self, call: StepCall, order: Order, seconds: float, worker: str, now: float) -> Report:
        outcome, answer = self._outcomes(call, order)
        self.ran.append(
            Execution(order.batch_no, order.task_no, order.attempt, self.key(call, order), outcome)
        )
        report = self.report(call, order, outcome, seconds, worker, now)
        if answer is not None:
            answered = self.report(call, order, answer, seconds, OUTSIDE, now)
            if report.request is not None and report.request.queue:
                self._asked[order.batch_no, order.task_no, order.attempt] = answered
            else:
                self._answer_later(answered)
        return report

    def report(
        self, call: StepCall, order: Order, outcome: Outcome, seconds: float, worker: str, now: float
    ) -> Report:
        place = (order.batch_no, order.task_no, order.attempt)
        if outcome is Outcome.EXTERNAL:
            # Half of them are sent by the step itself, so that an answer may precede its report.
            sent = order.task_no % 2 == 0
            body = msgspec.json.encode(place)
            request = ExternalRequest(
                queue="" if sent else OUTSIDE, body=b"" if sent else body, within_seconds=WITHIN_SECONDS
            )
            return Report(*place, outcome, now, seconds, worker, request=request)
        if outcome is not Outcome.DONE:
            words = (outcome.value, f"simulated: {outcome.value}")
            return Report(*place, outcome, now, seconds, worker, None, *words)
        result, bodies = self._world_of(call).result_of(self._given(call, order))
        for product, body in zip(result.products, bodies, strict=True):
            self._blobs.store(product.key, body)
        return Report(*place, outcome, now, seconds, worker, result)

    def may_be_late(self, report: Report) -> bool:
        return report.outcome is Outcome.TIMED_OUT

    async def answer_requests(self, outside: Outside) -> None:
        """The life of somebody outside: takes requests from the queue and answers each, perhaps twice."""
        while True:
            await pause(self._kernel, LOOK_SECONDS)
            now = outside.clock.now()
            for message in await outside.queues.lease(OUTSIDE, limit=9, seconds=LEASE_SECONDS, now=now):
                place = msgspec.json.decode(message.body, type=Place)
                if place in self._asked:
                    self._answer_later(self._asked[place])
                await outside.queues.acknowledge([message], now=now)

    def _outcomes(self, call: StepCall, order: Order) -> tuple[Outcome, Outcome | None]:
        """How the attempt ends, and what somebody outside will answer."""
        world, given = self._world_of(call), self._given(call, order)
        nature, external = world.nature_of(given), world.is_external(given)
        if nature is Nature.UNANSWERED:
            return Outcome.EXTERNAL, None
        good = nature in {Nature.GOOD, Nature.SHAKY}
        end = Outcome.DONE if good else Outcome(nature.value)
        if good and self._chaos.happens(self._chaos.rates.failing / 4):
            return Outcome.INTERRUPTED, None
        # One failure less than the limit: what would succeed without faults must succeed with them. An answer
        # from outside may be given up as too late, so waiting for one counts as a failure too.
        task = (order.batch_no, order.task_no)
        blamed = self.shaken.get(task, 0)
        if blamed >= self._step(call).max_attempts - 1 or end not in {Outcome.DONE, Outcome.REJECTED}:
            return end, None
        shaky = nature is Nature.SHAKY and self._chance.random() < 0.6
        if good and (shaky or self._chaos.happens(self._chaos.rates.failing)):
            self.shaken[task] = blamed + 1
            return self._chance.choice(FAILURES), None
        if external:
            self.shaken[task] = blamed + 1
            return Outcome.EXTERNAL, end
        return end, None

    def _answer_later(self, report: Report) -> None:
        """Until a process has taken it; perhaps more often."""

        def tell() -> None:
            if not self.answer(report) or self._chaos.happens(self._chaos.rates.echoes):
                self._answer_later(report)

        self._kernel.after(self._chance.choice(ANSWER_SECONDS) * self._chance.random(), tell)

    def _world_of(self, call: StepCall) -> World:
        return self._world.world_of(call.step, healed=self.healed)

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
