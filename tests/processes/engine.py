"""A scheduler, workers, or both, in a process of their own, on a pipeline of test steps.

    python -m tests.processes.engine '{"home": "…", "dsn": "…", "conducts": true, "workers": 2}'

For tests that kill, pause and restart real processes. With `until_idle` it ends when nothing is left to do.
"""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.assembly.engine import open_engine
from quire.batches.work import WorkOptions, work
from quire.model.plan import Plan
from quire.settings import (
    ComputeSettings,
    MembershipSettings,
    PostgresSettings,
    RedisSettings,
    RetrySettings,
    Secret,
    Settings,
)
from quire.testing.factories import phase, pipeline

TEST_STEPS = ("quire.testing.steps",)


class ProcessOptions(Struct, frozen=True, kw_only=True):
    home: str
    dsn: str = ""
    conducts: bool = True
    workers: int = 1
    until_idle: bool = False
    beat_seconds: float = 0.2
    stale_seconds: float = 2.0
    compute: str = ""
    redis_url: str = ""
    prefix: str = "quire"


def two_phases(compute: str = "") -> Plan:
    """Every file goes through both phases; the name of a file says how its step behaves."""
    phases = (
        phase(name, step="misbehave", cached=False, timeout_seconds=30.0, compute=compute)
        for name in ("ONE", "TWO")
    )
    return pipeline(*phases)


def settings_of(options: ProcessOptions) -> Settings:
    return Settings(
        home=Path(options.home),
        workers=options.workers,
        ledger="postgres" if options.dsn else "sqlite",
        postgres=PostgresSettings(dsn=Secret(options.dsn)),
        queue_store="redis" if options.redis_url else "ledger",
        redis=RedisSettings(url=Secret(options.redis_url), prefix=options.prefix),
        compute=ComputeSettings(look_seconds=0.2, max_out=40),
        crew=MembershipSettings(beat_seconds=options.beat_seconds, stale_seconds=options.stale_seconds),
        retry=RetrySettings(first_delay_seconds=0.01, longest_delay_seconds=0.05, max_interruptions=10_000),
    )


async def serve(options: ProcessOptions) -> None:
    known = two_phases(options.compute)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    duties = WorkOptions(schedules=options.conducts, workers=options.workers, until_idle=options.until_idle)
    async with open_engine(
        settings_of(options), pipelines={known.name: known}, step_modules=TEST_STEPS, kind="test"
    ) as components:
        print("at work", flush=True)  # noqa: T201 - the starter waits for this line
        await work(duties, components.run_context(), stop)


if __name__ == "__main__":
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=ProcessOptions)))
