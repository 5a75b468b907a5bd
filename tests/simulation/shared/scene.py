"""A world, the processes that live in it, and who starts, stops and replaces them."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from quire.ledger.port import Member, OperatorAction
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Batch, Budget, Hold, Stage
from quire.model.work import Order, Report, StepCall
from quire.queues.port import Message
from quire.queues.sqlite import SqliteQueues
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.shared.chaos import Chaos, Door, Rates
from tests.simulation.shared.compute import SimCompute
from tests.simulation.shared.database import SimDatabase
from tests.simulation.shared.follower import Follower
from tests.simulation.shared.kernel import Kernel, SimClock, SimIds, SimProcess, SimSignal, run_alone
from tests.simulation.shared.processes import House, Outside, intervene, operator

ChaosMade = Callable[[Kernel, Rates], Chaos]
LOOK_EVERY = 16


class Violation(AssertionError):
    """A promise was broken."""


class SimBatch(Protocol):
    """A batch of a simulated world."""

    @property
    def id(self) -> str: ...

    @property
    def pipeline(self) -> Any: ...

    @property
    def hands_over_to(self) -> str: ...


class SimWorld(Protocol):
    """What happens in it is decided by its seed."""

    @property
    def batches(self) -> Sequence[SimBatch]: ...

    @property
    def pipelines(self) -> Any: ...


class Simulation:
    """A world and its processes. `rates` of zero and one house: the run that nothing disturbs.

    `make_steps` and `make_client`: what steps do in the world, and who hands in its batches. `find_problems`:
    which promises are broken when the world has come to rest.
    """

    rest_steps = 12_000  # within which a world without further faults settles a task, or comes to rest
    make_steps: Callable[..., Any]
    make_client: Callable[..., Any]
    find_problems: Callable[[SimDatabase, Any], list[str]]

    def __init__(
        self, world: SimWorld, chance: Random, chosen: Rates, *, houses: int = 1, chaos: ChaosMade = Chaos
    ) -> None:
        self.world = world
        self.kernel = Kernel(chance)
        self.chaos = chaos(self.kernel, chosen)
        self.database = SimDatabase()
        self.ledger = SqliteLedger(self.database)  # type: ignore[arg-type]  # the same interface, no threads
        self.ids = SimIds(chance)
        self.queues = SqliteQueues(self.database, self.ids)  # type: ignore[arg-type]  # likewise
        self.clock = SimClock(self.kernel)
        self.blobs = MemoryBlobs(self.clock.now)
        self.steps = self.make_steps(world, self.blobs, self.chaos, self.kernel)
        self.kernel.interfere = self.chaos.interfere
        self.kernel.crashed = self._replace
        self.chaos.kill = self._kill
        self.houses: list[House] = []
        self._lives = 0
        self._ids = [spec.id for spec in world.batches]
        self._broken: list[str] = []
        self._known: dict[str, tuple[int, set[str]]] = {}  # house → what its last question to the cache gave
        self._locks = chance.random() < 0.5
        self._skewed = chosen.jumps > 0 and chance.random() < 0.5
        self._slowness = chance.choice((0.2, 1.0, 4.0))
        for number in range(houses):
            roles = (
                (True, True) if number == 0 else chance.choice(((True, True), (True, False), (False, True)))
            )
            self._found(*roles)
        for spec in world.batches:
            self.kernel.spawn(
                f"client {spec.id[-2:]}", self.make_client(spec, self._outside("client"), self.kernel)
            )
        self.follower = Follower(self._plain(), self.database, self.blobs)
        self._follow()
        if chosen.acts:
            self._hire_operator()
        if chosen.letters:
            self._confuse_the_post()

    def noise(self, steps: int) -> None:
        """With faults, for so many steps at most."""
        while self.kernel.steps < steps and self.kernel.step():
            self._look()
            if self.kernel.steps % 64 == 0 and not self.chaos.rates.acts and self.at_rest():
                break

    def calm(self) -> None:
        """No further faults: who was stopped goes on, clocks are set right, somebody works again."""
        self.chaos.active = False
        self.kernel.wall = max(self.kernel.wall, self.chaos.latest_wall)
        for process in self.kernel.processes:
            process.stopped_until = 0.0
            if process.name == "operator":
                process.kill()
        if not any(
            house.alive and not house.stopping and house.conducts and house.works for house in self.houses
        ):
            self._found(conducts=True, works=True)

    def settle_acts(self, *, reopens: bool) -> None:
        """The operator puts in order what was paused, and perhaps what was ended."""
        outside = self._plain()
        for batch in self.batches():
            if batch.hold is Hold.PAUSED:
                run_alone(intervene(outside, batch.id, "resume"))
            if reopens and batch.position.stage in {Stage.CANCELLED, Stage.ERROR}:
                run_alone(intervene(outside, batch.id, "reopen"))
        self._hand_in_again()
        for house in self.houses:
            if house.alive:
                house.wheel.wake()

    def rest(self) -> None:
        """Until every batch has ended; fails when nothing is settled for too long before."""
        start, settled = self.kernel.steps, self._count_settled()
        while not self.at_rest():
            for _ in range(LOOK_EVERY):
                self.kernel.step()
                self._look()
            self._grant()
            self._hand_in_again()
            before, settled = settled, self._count_settled()
            if settled != before:
                start = self.kernel.steps
            if self.kernel.steps - start > self.rest_steps:
                stands = [(batch.position, batch.hold) for batch in self.batches()]
                raise Violation(f"the world does not come to rest: {stands}")

    def _count_settled(self) -> int:
        found: int = self.database.rows("SELECT coalesce(sum(done + failed), 0) FROM rounds")[0][0]
        return found

    def _hand_in_again(self) -> None:
        """A batch that was ended while its files arrived takes files again."""
        busy = {process.name for process in self.kernel.processes if process.alive}
        begun = {batch.id for batch in self.batches() if batch.position.stage is not Stage.OPEN}
        for spec in self.world.batches:
            if (name := f"client {spec.id[-2:]}") not in busy and spec.id not in begun:
                self.kernel.spawn(name, self.make_client(spec, self._outside("client"), self.kernel))

    def _grant(self) -> None:
        """Whoever has spent its budget gets one without limits."""
        for (no,) in self.database.rows("SELECT no FROM batches WHERE hold = 'budget'"):
            act = OperatorAction(actor="operator", reason="more", now=self.clock.now())
            run_alone(self.ledger.resume(no, act, budget=Budget()))

    def batches(self) -> list[Batch]:
        return batches_of(self.database, self._ids)

    def at_rest(self) -> bool:
        found = self.database.rows(
            "SELECT count(*) FROM batches WHERE stage IN ('done', 'error', 'cancelled')"
        )[0][0]
        if found != len(self.world.batches):
            return False
        return not self.database.rows(
            "SELECT 1 FROM outbox UNION ALL SELECT 1 FROM messages WHERE state = 'waiting'"
        )

    def close(self) -> None:
        self.kernel.close()
        self.database.connection.close()

    def check(self) -> None:
        found = self._broken + self.find_problems(self.database, self.world)
        found += self.follower.problems(self.batches())
        if found:
            raise Violation("\n".join(found[:10]))

    def _look(self) -> None:
        for process in self.kernel.processes:
            if process.died_of is not None:
                self._mourn(process)
        if self._broken:
            self.check()

    def _mourn(self, process: SimProcess) -> None:
        raise Violation(f"{process.name} died of {process.died_of!r}") from process.died_of

    def _outside(self, who: str) -> Outside:
        def door(inner: Any, kind: str) -> Any:
            return Door(inner, kind, who, self.kernel, self.chaos, lambda *said: self._watch(who, *said))

        skew = self.kernel.chance.uniform(-3, 3) if self._skewed else 0.0
        return Outside(
            ledger=door(self.ledger, "ledger"),
            queues=door(self.queues, "queues"),
            blobs=door(self.blobs, "blobs"),
            clock=SimClock(self.kernel, skew),
            ids=self.ids,
            pipelines=self.world.pipelines,
        )

    def _plain(self) -> Outside:
        return Outside(
            ledger=self.ledger,
            queues=self.queues,
            blobs=self.blobs,
            clock=self.clock,
            ids=self.ids,
            pipelines=self.world.pipelines,
        )

    def _found(self, conducts: bool, works: bool) -> None:
        """A new process, under a name that was never used."""
        self._lives += 1
        name = f"house {self._lives}"
        chance = self.kernel.chance
        signal = SimSignal(self.kernel)
        compute = SimCompute(
            name=name,
            kernel=self.kernel,
            steps=self.steps,
            chaos=self.chaos,
            signal=signal,
            workers=chance.randint(1, 4),
            backlog=chance.randint(0, 4),
            slowness=self._slowness,
            elsewhere=self._deliver_anywhere,
            on_hand=lambda call, order: self._handed(name, call, order),
        )
        house = House(
            name,
            self._outside(name),
            signal,
            compute,
            conducts=conducts,
            works=works,
            gone=self._gone if self._locks else lambda _: None,
        )
        house.process = self.kernel.spawn(name, house.life())
        self.houses.append(house)
        if self.chaos.happens(self.chaos.rates.kills * 100):
            self.kernel.after(chance.uniform(1, 30), lambda: self._ask_to_stop(house))

    def _gone(self, member: Member) -> bool | None:
        """As a lock file says it: also of one that is stopped."""
        return not any(house.alive for house in self.houses if house.name == member.name)

    def _kill(self, process: SimProcess) -> None:
        process.kill()
        self._replace(process)

    def _ask_to_stop(self, house: House) -> None:
        if house.alive and self.chaos.active:
            self.kernel.note(house.name, "ASKED TO STOP")
            house.stop()
            self._succeed(house)

    def _replace(self, process: SimProcess) -> None:
        """Somebody starts it again, after a while."""
        for house in self.houses:
            if house.process is process:
                house.compute.die()
                if not house.stopping:
                    self._succeed(house)
        for spec in self.world.batches:
            if process.name == f"client {spec.id[-2:]}":
                self.kernel.spawn(process.name, self.make_client(spec, self._outside("client"), self.kernel))
        if process.name == "operator":
            self._hire_operator()
        if process.name == "follower":
            self._follow()

    def _succeed(self, house: House) -> None:
        seconds = self.kernel.chance.random() * 6
        self.kernel.after(seconds, lambda: self._found(conducts=house.conducts, works=house.works))

    def _follow(self) -> None:
        if any(spec.hands_over_to for spec in self.world.batches):
            self.kernel.spawn("follower", self.follower.life(self.kernel))

    def _hire_operator(self) -> None:
        act = operator(
            self._ids,
            self._outside("operator"),
            self.kernel,
            self.chaos.rates.acts,
            lambda: self.chaos.active,
        )
        self.kernel.spawn("operator", act)

    def _confuse_the_post(self) -> None:
        """Messages that start a batch come twice, as different messages, at any time."""

        def again(batch_id: str, number: int) -> None:
            found = self.database.rows("SELECT message FROM batches WHERE id = ?", batch_id)
            if found and found[0][0] and self.chaos.active:
                message = Message(id=f"again-{batch_id}-{number}", body=str(found[0][0]).encode())
                queue = next(spec.pipeline.queue for spec in self.world.batches if spec.id == batch_id)
                run_alone(self.queues.send(queue, [message], now=self.clock.now(), delay_seconds=number))

        for number in range(4):
            moment = self.kernel.chance.uniform(1, 20)
            batch_id = self.kernel.chance.choice(self._ids)
            self.kernel.after(moment, lambda name=batch_id, no=number: again(name, no))  # type: ignore[misc]

    def _deliver_anywhere(self, report: Report) -> None:
        living = [house for house in self.houses if house.alive and house.works]
        if living:
            self.kernel.chance.choice(living).compute.deliver(report)

    def _watch(self, who: str, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        if name == "load_cached":
            self._known[who] = (self.chaos.blob_faults, set(answer))
        if name == "put" and "manifest" in arguments[0]:
            self.follower.stored(arguments[0])

    def _handed(self, who: str, call: StepCall, order: Order) -> None:
        """Nothing that is finished runs again, and nothing whose result is known."""
        place = f"task {order.batch_no}/{order.task_no}, attempt {order.attempt}"
        if (order.batch_no, order.task_no, order.attempt) in self.steps.begun:
            self._broken.append(f"{place} is begun twice")
        done = self.database.rows(
            "SELECT attempt FROM sim_done WHERE batch_no = ? AND task_no = ? AND attempt < ?",
            order.batch_no,
            order.task_no,
            order.attempt,
        )
        if done:
            self._broken.append(f"{place} runs, but attempt {done[0][0]} has finished the task")
        faults, known = self._known.get(who, (0, set()))
        if self.steps.key(call, order) in known and faults == self.chaos.blob_faults:
            self._broken.append(f"{place} runs, but its result was known")


def batches_of(database: SimDatabase, ids: Sequence[str]) -> list[Batch]:
    ledger = SqliteLedger(database)  # type: ignore[arg-type]  # the same interface without threads
    found = [run_alone(ledger.find_run(name)) for name in ids]
    return [batch for batch in found if batch is not None]  # a client may not have got so far
