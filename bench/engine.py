"""What a task costs beside its work: no-op tasks through their whole life, beside peers and the floor.

The engine's figure is manifest written and read, files and tasks written, tasks claimed, shipped to worker
processes, run, reported, settled with the tasks that follow, and those of a second phase likewise, until the
batch has ended. With the step cache, every file has a digest, and every result is looked up and kept. The
floor is insert + claim + complete of bare rows, 1,000 per transaction, as durable as ours. The peers fan out,
gather, and fan out again. Everything in one run, one after the other.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.all import run_peers

from quire.assembly.components import open_components
from quire.assembly.engine import open_engine
from quire.batches.inspection import show
from quire.batches.submission import close_batch, draft_batch
from quire.ledger.port import Upload
from quire.model.plan import Plan, PlanPhase, PlanStep
from quire.settings import PostgresSettings, Secret, Settings

PHASES = 2
SMALL, LARGE, ON_POSTGRES = 5_000, 500_000, 50_000  # files; each gives two tasks
ROUNDS = 3
PEERS = {"dbos-sqlite": 500, "dbos-postgres": 500, "celery-redis": 2_000, "ray": 5_000}
SHOWN = 20
CACHED = "quire (sqlite, step cache)"


def build_plan() -> Plan:
    """Two phases of one step each that does nothing."""
    phases = tuple(
        PlanPhase(name=name, task_prefix="noop", steps=(PlanStep(name=name.lower(), step="noop", version=1),))
        for name in ("FIRST", "SECOND")
    )
    return Plan(name="noop", version=1, queue="noop", phases=phases)


async def measure(files: int, settings: Settings, *, cached: bool) -> dict[str, float]:
    plan = build_plan()
    async with open_engine(
        settings, pipelines={"noop": plan}, step_modules=("quire.testing.steps",)
    ) as components:
        small = await open_batch(components, plan, 4, cached=False)
        batch = await open_batch(components, plan, files, cached=cached)
        async with components.start_engine() as loop:
            # A few tasks first, so that the workers are warm: their start is not the engine's cost.
            await run_batch(components, loop, plan, small)
            began = time.perf_counter()
            batch = await run_batch(components, loop, plan, batch)
            seconds = time.perf_counter() - began
        counts = await components.records.count_tasks(batch.no)
        assert batch.status == "DONE", batch
        assert [phase.done for phase in counts] == [files] * PHASES, counts
    async with open_components(settings, pipelines={"noop": plan}) as context:
        shows = []
        for _ in range(SHOWN):
            began = time.perf_counter()
            await show(context, batch.id)
            shows.append(time.perf_counter() - began)
    return {"seconds": seconds, "show_ms": statistics.median(shows) * 1000, "engine_mb": peak_mb()}


def peak_mb() -> float:
    """Of this process alone, without its workers."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


async def open_batch(components, plan: Plan, files: int, *, cached: bool):
    batch = await components.uploads.open_batch(draft_batch(components, plan, run_key=None))
    for at in range(0, files, 5000):
        uploads = [
            Upload(
                path=f"d{number // 1000:04}/f{number:07}.bin",
                state="taken",
                size=10,
                key=f"cas/{number:08}",
                digest=f"{number:064x}" if cached else "",
                content_type="application/octet-stream",
            )
            for number in range(at, min(at + 5000, files))
        ]
        await components.uploads.record_uploads(batch.no, uploads)
    return batch


async def run_batch(components, loop, plan: Plan, batch):
    async def observe(_batch):
        return None

    batch = await close_batch(
        batch, plan, uploads=components.uploads, blobs=components.blobs, clock=components.clock
    )
    return await loop.run_batch(batch.id, observe)


def in_a_process(files: int, dsn: str | None, *, cached: bool) -> dict[str, float]:
    """A process of its own for each, so that memory is its own."""
    command = [sys.executable, __file__, str(files), str(int(cached)), *([dsn] if dsn else [])]
    environment_path = str(Path(__file__).parent)
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=environment_path, timeout=1800
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    return json.loads(ran.stdout.splitlines()[-1])


def quire_row(
    name: str, files: int, floor: str, dsn: str | None, rounds: int, *, cached: bool = False
) -> dict[str, object]:
    """The best of a few rounds on both sides: the machine is noisy, the best is what it can do."""
    floors, engines = [], []
    for _ in range(rounds):
        floors.append(run_peers({floor: files}, dsn=dsn)[0]["tasks_per_second"])
        engines.append(in_a_process(files, dsn, cached=cached))
    best = min(engines, key=lambda one: one["seconds"])
    tasks = PHASES * files
    rate = tasks / best["seconds"]
    return {
        "engine": name,
        "tasks": tasks,
        "tasks_per_second": round(rate),
        "floor_per_second": max(floors),
        "ratio": round(rate / max(floors), 3),
        "us_per_task": round(1e6 / rate, 1),
        "engine_mb": round(max(one["engine_mb"] for one in engines)),
        "show_ms": round(best["show_ms"], 1),
        "problem": "",
    }


def run() -> dict[str, object]:
    with contextlib.ExitStack() as stack:
        from tests.servers.postgres import postgres_server, programs

        folder = programs()
        dsn = stack.enter_context(postgres_server(folder)) if folder is not None else None
        small = quire_row("quire (sqlite)", SMALL, "floor-sqlite", None, ROUNDS)
        large = quire_row("quire (sqlite)", LARGE, "floor-sqlite", None, 1)
        rows = [small, quire_row(CACHED, SMALL, "floor-sqlite", None, ROUNDS, cached=True), large]
        if dsn is not None:
            rows.append(quire_row("quire (postgres)", ON_POSTGRES, "floor-postgres", dsn, 1))
        peers = run_peers(PEERS, dsn=dsn)
    rows += [
        dict.fromkeys(small, "")
        | {
            "engine": f"{peer['peer']} ({peer['backend']})",
            "tasks": peer["tasks"],
            "tasks_per_second": peer["tasks_per_second"],
            "problem": peer["problem"],
        }
        for peer in peers
    ]
    rates = {row["engine"]: row["tasks_per_second"] for row in rows}
    return {
        "rows": rows,
        "cost_at_largest_over_smallest": round(large["us_per_task"] / small["us_per_task"], 3),
        "times_dbos_on_sqlite": _times(small["tasks_per_second"], rates.get("dbos (sqlite)")),
        "times_dbos_on_postgres": _times(rates.get("quire (postgres)"), rates.get("dbos (postgres)")),
    }


def _times(ours, theirs) -> float | None:
    return round(ours / theirs, 1) if ours and theirs else None


def main() -> None:
    files, cached = int(sys.argv[1]), sys.argv[2] == "1"
    dsn = sys.argv[3] if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as home:
        if dsn is None:
            settings = Settings(home=Path(home))
        else:
            sys.path.insert(0, str(Path(__file__).parent.parent))
            from tests.servers.postgres import fresh_schema

            chosen = PostgresSettings(dsn=Secret(fresh_schema(dsn)))
            settings = Settings(home=Path(home), ledger="postgres", postgres=chosen)
        print(json.dumps(asyncio.run(measure(files, settings, cached=cached))))


if __name__ == "__main__":
    main()
