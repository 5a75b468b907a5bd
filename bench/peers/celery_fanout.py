"""Celery: a group of tasks on Redis, gathered, twice; one worker, late acknowledgement, results in Redis too.

Redis writes an append-only file and syncs it every second, as most do; events and the other chatter of the
worker are off. The state of the batch is in the caller: killed, it is gone.
"""

import argparse
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from celery import Celery, group
from fanout import PHASES, WARM, Peak, main

_URL = "FANOUT_REDIS"
_READY_SECONDS = 30
# Below the range from which the kernel hands out ports by itself.
_PORTS = range(12_000, 32_000)

app = Celery("celery_fanout", broker=os.environ.get(_URL), backend=os.environ.get(_URL))
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=100,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600},
)


@app.task
def noop(number: int) -> int:
    return number


@contextlib.contextmanager
def redis_server(folder: str) -> Iterator[tuple[str, int]]:
    """Address and process id of a Redis on loopback, with its files in `folder`."""
    port = free_port()
    command = [Path(sys.executable).with_name("redis-server"), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", folder, "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    with ended(
        subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    ) as server:
        client = redis.Redis(port=port)
        until(server, lambda: quiet(client.ping), "Redis")
        client.close()
        yield f"redis://127.0.0.1:{port}/0", server.pid


@contextlib.contextmanager
def worker(url: str) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "celery_fanout", "worker", "--pool", "solo"]
    command += ["--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parent,
        env={**os.environ, _URL: url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with ended(process):
        until(process, lambda: app.control.inspect(timeout=0.5).ping(), "the worker")
        yield


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(process: subprocess.Popen[bytes], ready, what: str) -> None:
    limit = time.monotonic() + _READY_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"{what} did not come up (exit code {process.poll()})")
        time.sleep(0.02)


def quiet(ping) -> bool:
    with contextlib.suppress(redis.ConnectionError):
        return ping()
    return False


def free_port() -> int:
    for port in random.sample(_PORTS, 100):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port on the loopback address")


def phase(tasks: int) -> int:
    # `join` rather than `get`: faster in most of the runs made of both.
    return len(group(noop.s(number) for number in range(tasks)).apply_async().join(interval=0.005))


def measure(given: argparse.Namespace) -> tuple[str, float, int]:
    with tempfile.TemporaryDirectory() as folder, redis_server(folder) as (url, server):
        app.conf.update(broker_url=url, result_backend=url)
        with worker(url), Peak(but=(server,)) as peak:
            phase(WARM)
            began = time.perf_counter()
            done = sum(phase(given.tasks) for _ in range(PHASES))
            seconds = time.perf_counter() - began
        app.close()
    assert done == PHASES * given.tasks, done
    return "redis", seconds, peak.megabytes


if __name__ == "__main__":
    main("celery", measure)
