"""Engine overhead per no-op task, beside the raw SQLite life cycle measured in the same run.

The engine's figure is the whole life: manifest read, files and tasks written, tasks claimed, shipped to
worker processes, run, reported, settled, folded, batch ended. The floor is insert + claim + complete of bare
rows, 1,000 per transaction, synchronous=FULL, one process.
"""

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from quire.assembly.house import open_house
from quire.ledger.port import BatchDraft, Upload
from quire.model.pipeline import Change, Kept, Phase, Pipeline
from quire.service.run_folder import plan_of
from quire.service.submit import submit
from quire.settings import Settings

SIZES = (1_000, 10_000, 100_000)
ROWS = 1000


def noop_pipeline() -> Pipeline:
    phase = Phase(
        name="NOTHING",
        task_prefix="noop",
        step="noop",
        step_version=1,
        finds=lambda _file: True,
        becomes=lambda file, _result, _taken: Change(Kept(file.tags)),
    )
    return Pipeline(name="noop", version=1, queue="noop", phases=(phase,))


async def engine_seconds(tasks: int) -> float:
    pipeline = noop_pipeline()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home))
        async with open_house(
            settings, pipelines={"noop": pipeline}, step_modules=("quire.testing.steps",)
        ) as house:
            small = await opened(house, pipeline, 4)
            batch = await opened(house, pipeline, tasks)
            async with house.conducting() as conductor:
                # A few tasks first, so that the workers are warm: their start is not the engine's cost.
                await conducted(house, conductor, pipeline, small)
                began = time.perf_counter()
                batch = await conducted(house, conductor, pipeline, batch)
                seconds = time.perf_counter() - began
            counts = (await house.ledger.counts(batch.no))[0]
            assert batch.status == "DONE"
            assert counts.done == tasks, counts
            return seconds


async def opened(house, pipeline: Pipeline, tasks: int):
    draft = BatchDraft(
        id=house.ids.ulid(),
        run_key=None,
        pipeline="noop",
        pipeline_version=1,
        plan=plan_of(pipeline),
        now=house.clock.now(),
    )
    batch = await house.ledger.open_batch(draft)
    for at in range(0, tasks, 5000):
        uploads = [
            Upload(
                path=f"d{number // 1000:04}/f{number:07}.bin",
                state="taken",
                size=10,
                key=f"cas/{number:08}",
                content_type="application/octet-stream",
            )
            for number in range(at, min(at + 5000, tasks))
        ]
        await house.ledger.record_uploads(batch.no, uploads)
    return batch


async def conducted(house, conductor, pipeline: Pipeline, batch):
    async def observe(_batch):
        return None

    batch = await submit(batch, pipeline, ledger=house.ledger, blobs=house.blobs, clock=house.clock)
    return await conductor.conduct(batch.id, observe)


def floor_seconds(tasks: int) -> float:
    """Bare rows through the life every queue on SQLite has: insert, find and claim, complete."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (no INTEGER PRIMARY KEY, payload TEXT, state TEXT, result TEXT)")
        connection.execute("CREATE INDEX t_state ON t (state, no)")
        began = time.perf_counter()
        for at in range(0, tasks, ROWS):
            rows = [(n, f"payload of task {n}") for n in range(at, min(at + ROWS, tasks))]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO t VALUES (?, ?, 'ready', NULL)", rows)
            connection.execute("COMMIT")
        while True:
            connection.execute("BEGIN IMMEDIATE")
            claimed = connection.execute(
                "UPDATE t SET state = 'running' WHERE no IN "
                "(SELECT no FROM t WHERE state = 'ready' ORDER BY no LIMIT ?) RETURNING no, payload",
                (ROWS,),
            ).fetchall()
            connection.execute("COMMIT")
            if not claimed:
                break
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "UPDATE t SET state = 'done', result = 'ok' WHERE no = ? AND state = 'running'",
                [(no,) for no, _ in claimed],
            )
            connection.execute("COMMIT")
        seconds = time.perf_counter() - began
        connection.close()
        return seconds


def run() -> dict[str, object]:
    rows = []
    for tasks in SIZES:
        # Interleaved and repeated: the machine is noisy, the best of each is what it can do.
        rounds = 3 if tasks <= 10_000 else 2
        floors, engines = [], []
        for _ in range(rounds):
            floors.append(floor_seconds(tasks))
            engines.append(asyncio.run(engine_seconds(tasks)))
        floor, engine = min(floors), min(engines)
        rows.append(
            {
                "tasks": tasks,
                "engine_tasks_per_second": round(tasks / engine),
                "raw_sqlite_life_cycles_per_second": round(tasks / floor),
                "ratio": round(floor / engine, 3),
                "microseconds_per_task": round(engine / tasks * 1e6, 1),
            }
        )
    growth = rows[-1]["microseconds_per_task"] / rows[0]["microseconds_per_task"]
    return {"rows": rows, "cost_at_largest_over_smallest": round(growth, 3)}
