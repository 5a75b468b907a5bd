"""What a message costs: sent, delivered, acknowledged; beside the floor of each backend and beside peers.

All on the same servers in one run. The floor is bare rows or stream entries in sets of 1,000 (its drain is
claim and complete; its life is that with the putting in). Drain is by one worker process whose handler does
nothing; ours counts when every acknowledgement is stored. The peers have the best settings found, keep no
results, and most promise less: see their scripts. Latency is from before the sending to the start of the task
in the other process, the worker idle; the memory is the worker's.

What the goals are about is run a few times, in turns with its rivals, and the best of each is taken on both
sides: the machine is noisy, the best is what it can do. QUEUES_SCALE=0.1 sends a tenth of the messages, once.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from peers.all import HERE, PYTHON
from peers.all import _run as run_script
from tests.servers import postgres
from tests.servers import redis as redis_server

SCALE = float(os.environ.get("QUEUES_SCALE", "1"))
LATENCIES = 200
ROUNDS = 3 if SCALE >= 1 else 1
LIMIT_SECONDS = 280.0
FILE, POSTGRES, ALWAYS, EVERYSEC = "sqlite", "postgres", "redis, always", "redis, everysec"
BACKENDS = {FILE: "sqlite", POSTGRES: "postgres", ALWAYS: "redis", EVERYSEC: "redis"}
QUICK = ("--batch", "1000", "--concurrency", "100")
# As a row has them; for the first the most is best, for the last the least.
RATES = ("send_per_s", "bulk_per_s", "drain_per_s", "life_per_s")
DELAYS = ("p50_ms", "p99_ms")


class Entrant(NamedTuple):
    name: str
    script: str
    place: str
    messages: int
    rounds: int = 1
    settings: tuple[str, ...] = ()
    own: bool = False  # runs with the project's Python

    @property
    def title(self) -> str:
        return f"{self.name} ({self.place})"


ENTRANTS = (
    *(Entrant("floor", "queue_floor.py", place, 20_000, ROUNDS, own=True) for place in BACKENDS),
    *(Entrant("quire", "queue_quire.py", place, 20_000, ROUNDS, QUICK, own=True) for place in BACKENDS),
    *(Entrant("quire by default", "queue_quire.py", place, 3_000, own=True) for place in BACKENDS),
    Entrant("dramatiq", "queue_dramatiq.py", EVERYSEC, 10_000, ROUNDS),
    Entrant("dramatiq", "queue_dramatiq.py", ALWAYS, 5_000, ROUNDS),
    Entrant("dramatiq by default", "queue_dramatiq.py", EVERYSEC, 5_000, ROUNDS, ("--plain",)),
    Entrant("pgqueuer", "queue_pgqueuer.py", POSTGRES, 20_000, ROUNDS),
    Entrant("huey", "queue_huey.py", FILE, 5_000, ROUNDS),
    Entrant("huey", "queue_huey.py", EVERYSEC, 5_000),
    Entrant("rq", "queue_rq.py", EVERYSEC, 1_000),
    Entrant("celery", "queue_celery.py", EVERYSEC, 3_000),
    Entrant("taskiq", "queue_taskiq.py", EVERYSEC, 3_000),
    Entrant("arq", "queue_arq.py", EVERYSEC, 3_000),
    Entrant("procrastinate", "queue_procrastinate.py", POSTGRES, 1_500),
    Entrant("dbos", "queue_dbos.py", POSTGRES, 1_000),
    Entrant("dbos", "queue_dbos.py", FILE, 1_000),
)


@contextlib.contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Addresses by place; a place whose server is not installed is left out."""
    with contextlib.ExitStack() as stack:
        found: dict[str, str] = {}
        folder, binary = postgres.programs(), redis_server.program()
        if folder is not None:
            found[POSTGRES] = stack.enter_context(postgres.postgres_server(folder))
        if binary is not None:
            for place, how in ((ALWAYS, "always"), (EVERYSEC, "everysec")):
                server = redis_server.restartable_server(binary, appendfsync=how)
                found[place] = stack.enter_context(server).url
        yield found


def emptied(url: str) -> None:
    import redis

    with redis.Redis.from_url(url) as client:
        client.flushall()


def once(entrant: Entrant, addresses: dict[str, str]) -> dict[str, object]:
    python = sys.executable if entrant.own else str(PYTHON)
    if not entrant.own and not PYTHON.exists():
        return {"problem": "there is no .venv-bench; `make bench` makes it"}
    if entrant.place != FILE and entrant.place not in addresses:
        return {"problem": "the wheel of its server is not installed"}
    backend = BACKENDS[entrant.place]
    if backend == "redis":
        emptied(addresses[entrant.place])
    command = [python, str(HERE / entrant.script), *entrant.settings, "--backend", backend]
    command += ["--messages", str(scaled(entrant.messages)), "--latencies", str(scaled(LATENCIES, least=20))]
    if entrant.place in addresses:
        command += ["--url", addresses[entrant.place]]
    with tempfile.TemporaryDirectory(prefix="queue-", ignore_cleanup_errors=True) as folder:
        return run_script(command, folder, LIMIT_SECONDS)


def scaled(number: int, *, least: int = 100) -> int:
    return min(number, max(least, round(number * SCALE)))


def best(tries: list[dict[str, object]]) -> dict[str, object]:
    """Of each figure; a problem only where no try gave any."""
    good = [one for one in tries if not one.get("problem")]
    if not good:
        return tries[-1]
    found: dict[str, object] = {}
    for name in (*RATES, *DELAYS, "worker_mb"):
        values = [one[name] for one in good if name in one]
        if values:
            found[name] = min(values) if name in DELAYS else max(values)
    return found


def row_of(entrant: Entrant, found: dict[str, object], floor: dict[str, object]) -> dict[str, object]:
    shown = ("send_per_s", "bulk_per_s", "drain_per_s")
    row: dict[str, object] = {"queue": entrant.title, "messages": scaled(entrant.messages)}
    row |= {name: found.get(name, "") for name in shown}
    of_floor: float | str = ""
    if entrant.own and entrant.name != "floor" and "drain_per_s" in found and "drain_per_s" in floor:
        of_floor = round(found["drain_per_s"] / floor["drain_per_s"], 3)
    row["of_floor"] = of_floor
    row |= {name: found.get(name, "") for name in (*DELAYS, "worker_mb")}
    return row | {"problem": found.get("problem", "")}


def run() -> dict[str, object]:
    tries: dict[Entrant, list[dict[str, object]]] = {entrant: [] for entrant in ENTRANTS}
    with servers() as addresses:
        for turn in range(ROUNDS):
            for entrant in ENTRANTS:
                if turn < entrant.rounds:
                    tries[entrant].append(once(entrant, addresses))
    found = {entrant.title: best(tries[entrant]) for entrant in ENTRANTS}
    rows = [row_of(entrant, found[entrant.title], found[f"floor ({entrant.place})"]) for entrant in ENTRANTS]
    return {"rows": rows, **derived(found)}


def derived(found: dict[str, dict[str, object]]) -> dict[str, object]:
    def drain(title: str) -> float | None:
        return found[title].get("drain_per_s")

    def life(title: str) -> float | None:
        one = found[title]
        if "life_per_s" in one:
            return one["life_per_s"]
        if "bulk_per_s" not in one or "drain_per_s" not in one:
            return None
        return 1 / (1 / one["bulk_per_s"] + 1 / one["drain_per_s"])

    def each(ratio) -> dict[str, object]:
        return {place: ratio(f"quire ({place})", f"floor ({place})") for place in BACKENDS}

    rivals = {
        "times_dramatiq_on_redis_everysec": (f"quire ({EVERYSEC})", f"dramatiq ({EVERYSEC})"),
        "times_dramatiq_on_redis_always": (f"quire ({ALWAYS})", f"dramatiq ({ALWAYS})"),
        "times_dramatiq_everysec_with_ours_on_always": (f"quire ({ALWAYS})", f"dramatiq ({EVERYSEC})"),
        "times_dramatiq_by_default": (f"quire ({EVERYSEC})", f"dramatiq by default ({EVERYSEC})"),
        "times_pgqueuer_on_postgres": (f"quire ({POSTGRES})", f"pgqueuer ({POSTGRES})"),
        "times_huey_on_sqlite": (f"quire ({FILE})", f"huey ({FILE})"),
    }
    return {
        **{name: times(drain(ours), drain(theirs)) for name, (ours, theirs) in rivals.items()},
        "drain_over_drain_of_floor": each(lambda ours, floor: times(drain(ours), drain(floor))),
        "drain_over_life_of_floor": each(lambda ours, floor: times(drain(ours), life(floor))),
        "life_over_life_of_floor": each(lambda ours, floor: times(life(ours), life(floor))),
        "idle_latency_p50_ms": each(lambda ours, _: found[ours].get("p50_ms")),
    }


def times(ours: float | None, theirs: float | None) -> float | None:
    return round(ours / theirs, 2) if ours and theirs else None
