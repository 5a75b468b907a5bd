"""A queue worker, in a process of its own, with test steps.

    python -m tests.processes.queue_worker '{"home": "…", "redis_url": "…", "prefix": "…"}'

As `quire worker --from-queue`, for tests that kill it.
"""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.assembly.queue_worker import open_queue_worker
from quire.settings import ComputeSettings, QueueSettings, RedisSettings, Secret, Settings

TEST_STEPS = ("quire.testing.steps",)


class Plan(Struct, frozen=True, kw_only=True):
    home: str
    redis_url: str
    prefix: str
    workers: int = 1
    lease_seconds: float = 60.0
    max_retries: int = 3


def settings_of(plan: Plan) -> Settings:
    compute = ComputeSettings(look_seconds=0.2)
    tuning = QueueSettings(lease_seconds=plan.lease_seconds, max_retries=plan.max_retries)
    return Settings(
        home=Path(plan.home),
        queue_store="redis",
        redis=RedisSettings(url=Secret(plan.redis_url), prefix=plan.prefix),
        compute=compute,
        queues={compute.queue: tuning},
    )


async def serve(plan: Plan) -> None:
    async with open_queue_worker(settings_of(plan), plan.workers, step_modules=TEST_STEPS) as opened:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, opened.worker.stop)
        print("at work", flush=True)  # noqa: T201 - the starter waits for this line
        await opened.worker.run()


if __name__ == "__main__":
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=Plan)))
