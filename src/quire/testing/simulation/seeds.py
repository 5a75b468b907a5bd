"""One seed: the world without faults, then with them, then all promises.

    run(123)            raises Violation, which names the seed and shows the last steps

Everything that chance decides comes from the seed, so a failing one fails again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from msgspec import Struct

from quire.engine import conductor, foreman, mail, units
from quire.ledger.port import Member
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Batch, Hold, Stage
from quire.model.work import Order, Report, StepCall
from quire.queues.port import Message
from quire.queues.sqlite import SqliteQueues
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.simulation import checks
from quire.testing.simulation.chaos import Chaos, Door, Rates, rates
from quire.testing.simulation.compute import SimCompute, Steps
from quire.testing.simulation.database import SimDatabase
from quire.testing.simulation.kernel import Kernel, SimClock, SimIds, SimProcess, SimSignal, run_alone
from quire.testing.simulation.people import House, Outside, client, intervene, operator
from quire.testing.simulation.worlds import World, made_world

ChaosMade = Callable[[Kernel, Rates], Chaos]
REST_STEPS = 12_000  # within which a world without further faults must come to rest
LOOK_EVERY = 16


class Violation(AssertionError):
    """A promise was broken."""


class Ran(Struct, frozen=True, kw_only=True):
    """What a run came to, for those who count."""

    seed: int
    steps: int
    executions: int
    seconds: float
    compared: int


class Simulation:
    """A world and its processes. `rates` of zero and one house: the run that nothing disturbs."""

    def __init__(
        self, world: World, chance: Random, chosen: Rates, *, houses: int = 1, chaos: ChaosMade = Chaos
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
        self.steps = Steps(world, self.blobs, self.chaos, self.kernel)
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
            self.kernel.spawn(f"client {spec.id[-2:]}", client(spec, self._outside("client"), self.kernel))
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
        if not any(house.alive and house.conducts and house.works for house in self.houses):
            self._found(conducts=True, works=True)

    def settle_acts(self, *, reopens: bool) -> None:
        """The operator puts in order what was paused, and perhaps what was ended."""
        outside = self._plain()
        for batch in self.batches():
            if batch.hold is Hold.PAUSED:
                run_alone(intervene(outside, batch.id, "resume"))
            if reopens and batch.position.stage in {Stage.CANCELLED, Stage.ERROR}:
                run_alone(intervene(outside, batch.id, "reopen"))
        for spec in self.world.batches:
            # One that was ended while its files arrived takes files again.
            self.kernel.spawn("client again", client(spec, self._outside("client"), self.kernel))
        for house in self.houses:
            if house.alive:
                house.wheel.wake()

    def rest(self) -> None:
        """Until every batch has ended; fails when that takes too long."""
        start = self.kernel.steps
        while not self.at_rest():
            for _ in range(LOOK_EVERY):
                self.kernel.step()
                self._look()
            if self.kernel.steps - start > REST_STEPS:
                stands = [(batch.position, batch.hold) for batch in self.batches()]
                raise Violation(f"the world does not come to rest: {stands}")

    def batches(self) -> list[Batch]:
        return checks.batches_of(self.database, self.world)

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
        found = self._broken + checks.problems(self.database, self.world)
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
                self.kernel.spawn(process.name, client(spec, self._outside("client"), self.kernel))
        if process.name == "operator":
            self._hire_operator()

    def _succeed(self, house: House) -> None:
        seconds = self.kernel.chance.random() * 6
        self.kernel.after(seconds, lambda: self._found(conducts=house.conducts, works=house.works))

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

    def _watch(self, who: str, name: str, _arguments: tuple[Any, ...], answer: Any) -> None:
        if name == "cached":
            self._known[who] = (self.chaos.blob_faults, set(answer))

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


def run(seed: int) -> Ran:
    """Raises Violation when a promise is broken."""
    world = made_world(seed)
    chance = Random(f"{seed}/chaos")
    oracle = undisturbed(world)
    chosen = rates(chance)
    simulation = Simulation(world, chance, chosen, houses=chance.choice((1, 2, 2, 3)))
    try:
        with small_portions(chance):
            simulation.noise(chance.choice((150, 400, 1000, 2000)))
            simulation.calm()
            reopens = chance.random() < 0.8
            simulation.settle_acts(reopens=reopens)
            simulation.rest()
            if reopens:
                # A move that was given up meanwhile is taken up too.
                for _ in range(3):
                    simulation.settle_acts(reopens=True)
                    simulation.rest()
        simulation.check()
        compared = _compare(simulation, oracle)
        kernel = simulation.kernel
        return Ran(
            seed=seed,
            steps=kernel.steps,
            executions=len(simulation.steps.ran),
            seconds=kernel.time,
            compared=compared,
        )
    except Violation as violation:
        lines = "\n".join(simulation.kernel.trace)
        raise Violation(f"seed {seed}: {violation}\n{chosen}\nthe last steps:\n{lines}") from violation
    finally:
        simulation.close()


def undisturbed(world: World) -> dict[str, checks.Picture]:
    """How each batch ends when nothing goes wrong."""
    simulation = Simulation(world, Random(0), Rates())
    try:
        simulation.chaos.active = False
        simulation.rest()
        simulation.check()
        return {batch.id: checks.picture(simulation.database, batch) for batch in simulation.batches()}
    finally:
        simulation.close()


def _compare(simulation: Simulation, oracle: dict[str, checks.Picture]) -> int:
    """A batch that came to its end looks as if nothing had happened."""
    compared = 0
    for batch in simulation.batches():
        if batch.position.stage is not Stage.DONE:
            if not (simulation.chaos.rates.acts or simulation.chaos.blob_faults):
                raise Violation(f"batch {batch.no} is {batch.status}: {batch.error}")
            continue
        compared += 1
        seen, expected = checks.picture(simulation.database, batch), oracle[batch.id]
        names = ["status", "inputs", "listing", "counts"]
        if not simulation.chaos.rates.acts:
            names.append("numbered")
        for name in names:
            one, other = getattr(seen, name), getattr(expected, name)
            if one != other:
                wrong = [row for row in one if row not in other] if isinstance(one, list) else one
                missing = [row for row in other if row not in one] if isinstance(other, list) else other
                raise Violation(f"batch {batch.no}: {name} has {wrong}, and lacks {missing}")
    return compared


@contextmanager
def small_portions(chance: Random) -> Iterator[None]:
    """So that every loop of the engine goes round."""
    sizes: list[tuple[Any, str, int]] = [
        (conductor, "ROWS_AT_ONCE", chance.choice((2, 4, 7))),
        (conductor, "PRODUCTS_AT_ONCE", chance.choice((2, 5))),
        (conductor, "BATCHES_AT_ONCE", chance.choice((1, 2))),
        (units, "UNITS_AT_ONCE", chance.choice((1, 3))),
        (mail, "LETTERS_AT_ONCE", chance.choice((1, 2))),
        (foreman, "FREE_AT_ONCE", chance.choice((2, 10))),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in sizes]
    for module, name, size in sizes:
        setattr(module, name, size)
    try:
        yield
    finally:
        for module, name, size in before:
            setattr(module, name, size)


__all__ = ["Ran", "Simulation", "Violation", "run", "undisturbed"]
