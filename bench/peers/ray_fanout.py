"""Ray: tasks on two workers, a bounded number in flight, results fetched; nothing survives the driver.

Told so in two places it stays on loopback; a token made for this run keeps out who is on the machine too.
"""

import argparse
import os
import secrets
import tempfile
import time

from fanout import PHASES, WARM, Peak, main

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Without this it takes the machine's outer address, whatever `ray.init` is told, and listens on all of them.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # otherwise it leaves one in the home folder
import ray  # reads the settings above when it is imported

IN_FLIGHT = 2000
OBJECT_STORE_BYTES = 100_000_000


@ray.remote
def noop(number: int) -> int:
    return number


def phase(tasks: int) -> int:
    done, running = 0, []
    for number in range(tasks):
        if len(running) >= IN_FLIGHT:
            ready, running = ray.wait(running, num_returns=IN_FLIGHT // 2)
            done += len(ray.get(ready))
        running.append(noop.remote(number))
    return done + len(ray.get(running))


def measure(given: argparse.Namespace) -> tuple[str, float, int]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level="warning",
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            phase(50 * WARM)  # enough that both workers are there
            with Peak() as peak:
                began = time.perf_counter()
                done = sum(phase(given.tasks) for _ in range(PHASES))
                seconds = time.perf_counter() - began
        finally:
            ray.shutdown()
    assert done == PHASES * given.tasks, done
    return "memory", seconds, peak.megabytes


if __name__ == "__main__":
    main("ray", measure)
