"""What goes wrong, by the seed: how often, and at which moment.

Doors stand between a simulated process and what is outside of it: before and behind each one the process may
be stopped or killed, and the answer may be lost though the thing was done.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from quire.model.errors import Missing, Retry, Unavailable
from tests.simulation.shared.kernel import Kernel, SimProcess, checkpoint, pause

NOT_AWAITED = frozenset({"stream", "list", "local_path", "keep"})
READS = frozenset(
    {
        *("get_batch", "list_unit_members"),
        *(
            "load_child_results",
            "list_running",
            "get_positions",
            "load_cached",
            "list_unsent",
            "next_alarm",
            "list_members",
            "preview_retry",
        ),
        *("list_uploads", "find_run", "get", "head", "get_start_message"),
        "list_failed_tasks",
        *("get_plan", "find_listed", "list_flowing", "load_claims", "list_overdue"),
        *("list_complete_joins", "list_seen", "list_flow_units", "find_unit_numbers", "list_values"),
    }
)


# What a scheduler writes after it has read for a while.
MOVES = frozenset({"admit_files", "apply_joins", "add_units", "add_unit_tasks", "end_gather"})


class Rates(Struct, frozen=True, kw_only=True):
    """Chances: per step of a process for `kills`, `stops` and `jumps`, per call or report for the others."""

    kills: float = 0.0
    stops: float = 0.0  # like SIGSTOP: taken for dead, then it goes on
    stalls: float = 0.0  # the same between the decision to write and the write
    meets: float = 0.0  # a scheduler stalls at a move, or its batch is given to another while it goes on
    jumps: float = 0.0  # of the wall clock
    away: float = 0.0  # the ledger or the queue cannot be reached: nothing was done
    lost: float = 0.0  # it was done, but the answer was lost
    torn: float = 0.0  # the blob store has a passing fault
    missing: float = 0.0  # a product's blob is not to be found for a moment
    failing: float = 0.0  # attempts fail that need not
    echoes: float = 0.0  # reports come twice, late, or at somebody else's
    forged: float = 0.0
    letters: float = 0.0  # start messages come twice or late
    acts: float = 0.0  # how often a person intervenes, per second


def rates(chance: Random) -> Rates:
    def draw(*options: float) -> float:
        return chance.choice(options)

    return Rates(
        kills=draw(0, 0, 1 / 500, 1 / 150),
        stops=draw(0, 0, 1 / 500, 1 / 200),
        stalls=draw(0, 0, 0.02, 0.06),
        jumps=draw(0, 0, 1 / 400),
        away=draw(0, 0, 0.01, 0.05),
        lost=draw(0, 0, 0.01, 0.05),
        torn=draw(0, 0, 0.05, 0.2),
        missing=draw(0, 0, 0, 0.1),
        failing=draw(0, 0.05, 0.2),
        echoes=draw(0, 0, 0.1, 0.4),
        forged=draw(0, 0, 0.1),
        letters=draw(0, 0, 0.5),
        acts=draw(0, 0, 0, 0.3, 0.8),
    )


class Chaos:
    def __init__(self, kernel: Kernel, chosen: Rates) -> None:
        self._kernel = kernel
        self._chance = kernel.chance
        self.rates = chosen
        self.active = True
        self.latest_wall = 0.0
        self.blob_faults = 0
        self.kill: Callable[[SimProcess], None] = lambda _process: None

    def happens(self, rate: float) -> bool:
        return self.active and rate > 0 and self._chance.random() < rate

    def interfere(self, process: SimProcess) -> None:
        if not self.active:
            return
        drawn = self._chance.random()
        if drawn < self.rates.kills:
            self._kernel.note(process.name, "KILLED")
            self.kill(process)
        elif drawn < self.rates.kills + self.rates.stops:
            seconds = self._chance.choice((1.0, 10.0, 40.0)) * self._chance.random()
            self._kernel.note(process.name, f"STOPPED for {seconds:.1f} s")
            process.stopped_until = self._kernel.time + seconds
        elif drawn < self.rates.kills + self.rates.stops + self.rates.jumps:
            size = self._chance.choice((1.0, 10.0, 300.0, 7200.0))
            self._kernel.wall += self._chance.uniform(-size, size)
            self.latest_wall = max(self.latest_wall, self._kernel.wall)
            self._kernel.note("clock", f"wrong by {self._kernel.wall:.1f} s")

    def stall_rate(self, name: str) -> float:
        return max(self.rates.stalls, self.rates.meets if name in MOVES else 0.0)

    def stall(self) -> float:
        return self._chance.choice((0.5, 6.0, 30.0)) * self._chance.random()

    def before(self, kind: str, name: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if kind != "blobs":
            if self.happens(self.rates.away):
                raise Unavailable(f"simulated: {kind} was away before {name}")
            return
        if self.happens(self.rates.torn):
            self.blob_faults += 1
            raise Retry(f"simulated: the store did not answer {name}")
        if name == "head" and arguments[0].startswith("cas/") and self.happens(self.rates.missing):
            self.blob_faults += 1
            raise Missing(f"simulated: {arguments[0]} is not there")

    def behind(self, kind: str, name: str, arguments: tuple[Any, ...]) -> None:
        _ = arguments
        if kind == "blobs" or name in READS:
            return
        if self.happens(self.rates.lost):
            raise Unavailable(f"simulated: the answer of {kind} to {name} was lost")


class Door:
    """Any port, as one process sees it. `watch` is told what was asked and answered."""

    def __init__(
        self,
        inner: Any,
        kind: str,
        who: str,
        kernel: Kernel,
        chaos: Chaos,
        watch: Callable[[str, tuple[Any, ...], Any], None] = lambda _name, _arguments, _answer: None,
    ) -> None:
        self._inner = inner
        self._kind = kind
        self._who = who
        self._kernel = kernel
        self._chaos = chaos
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in NOT_AWAITED:
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await checkpoint()
            if name not in READS and self._chaos.happens(self._chaos.stall_rate(name)):
                seconds = self._chaos.stall()
                self._kernel.note(self._who, f"STALLS for {seconds:.1f} s before {name}")
                await pause(self._kernel, seconds)
            self._chaos.before(self._kind, name, arguments)
            answer = await found(*arguments, **named)
            if name not in READS:
                self._kernel.note(self._who, name)
            self._watch(name, arguments, answer)
            await checkpoint()
            self._chaos.behind(self._kind, name, arguments)
            return answer

        self.__dict__[name] = call
        return call
