"""A server on each compute: local workers, processes, machines, workers on a queue, Ray, and the worker
images that others have published, as processes and as machines.

Each is a context manager that yields a running server; what a test says comes on top.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.elsewhere import FAST, PROCESS, free_port, on_fly
from tests.servers.ray import ENVIRONMENT, ray_cluster

PUBLISHED_WORKER = (sys.executable, str(Path(__file__).with_name("original_worker.py")))
QUEUE = dict.fromkeys(("QUIRE_COMPUTE_TIFF", "QUIRE_COMPUTE_IMAGE"), "queue")


def published_keys(s3_server, folder: Path) -> dict[str, str]:
    """The store keeps this server below a folder in the bucket, and lets its workers into that alone."""
    return s3_environment(s3_server, f"limited/{folder.name}") | {
        "QUIRE_WORKER_KEYS_ACCESS_KEY_ID": s3_server.limited_key_id,
        "QUIRE_WORKER_KEYS_SECRET_ACCESS_KEY": s3_server.limited_secret,
        "QUIRE_WORKER_KEYS_ACCOUNT_ID": "account",
        "QUIRE_WORKER_KEYS_ARCHIVE_BUCKET": s3_server.bucket,
    }


@contextmanager
def served(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator:
    """Its links to assets begin with its own address."""
    port = free_port()
    address = {"QUIRE_PREPROCESS_PUBLIC_URL": f"http://127.0.0.1:{port}"}
    told = {name: text.replace("{port}", str(port)) for name, text in (address | environment).items()}
    with serving(folder, FAST | told, "--port", str(port), *arguments) as server:
        yield server


@contextmanager
def on_local(folder: Path, need, more: dict[str, str]) -> Iterator:
    with served(folder, more, "--workers", "2") as server:
        yield server


@contextmanager
def on_processes(folder: Path, need, more: dict[str, str]) -> Iterator:
    with served(folder, PROCESS | more) as server:
        yield server


@contextmanager
def on_machines(folder: Path, need, more: dict[str, str]) -> Iterator:
    address = {"QUIRE_PREPROCESS_PUBLIC_URL": "http://127.0.0.1:{port}"}
    with on_fly(folder, more=address | more) as (server, _):
        yield server


@contextmanager
def on_queue(folder: Path, need, more: dict[str, str]) -> Iterator:
    """Workers that lease their tasks from a queue in the database of the server."""
    with served(folder, QUEUE | more) as server, queue_worker(folder, server.home, QUEUE | more):
        yield server


@contextmanager
def on_distant_queue(folder: Path, need, more: dict[str, str]) -> Iterator:
    """Workers that see a queue and a bucket, and no database."""
    distant = s3_environment(need("s3_server"), f"assets/{folder.name}") | QUEUE | more
    distant |= {"QUIRE_QUEUE_STORE": "redis", "QUIRE_REDIS_URL": need("redis_server")}
    distant |= {"QUIRE_REDIS_PREFIX": folder.name}
    with served(folder, distant) as server, queue_worker(folder, folder / "elsewhere", distant):
        yield server
    assert not [*(folder / "elsewhere").rglob("quire.db")], "the worker has a database"


@contextmanager
def queue_worker(folder: Path, home: Path, environment: dict[str, str]) -> Iterator[None]:
    command = (sys.executable, "-m", "quire.cli.main", "worker", "--from-queue", "--workers", "2", "--json")
    there = os.environ | environment | {"QUIRE_HOME": str(home)}
    worker = subprocess.Popen(command, cwd=folder, env=there, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(timeout=60)


@contextmanager
def on_ray(folder: Path, need, more: dict[str, str]) -> Iterator:
    if (missing := _without_ray()) is not None:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    chosen = {"QUIRE_COMPUTE_TIFF": "ray", "QUIRE_COMPUTE_IMAGE": "ray", "QUIRE_RAY_WORKERS": "2"}
    with ray_cluster() as cluster:
        there = chosen | ENVIRONMENT | {"QUIRE_RAY_ADDRESS": cluster.address}
        with served(folder, there | more) as server:
            yield server


def _without_ray() -> str | None:
    import importlib.util

    found = importlib.util.find_spec("ray")
    return "Ray is missing: install the wheel ray (make install)" if found is None else None


@contextmanager
def on_published_processes(folder: Path, need, more: dict[str, str]) -> Iterator:
    command = {"QUIRE_COMPUTE_COMMAND": shlex.join(PUBLISHED_WORKER)}
    with served(folder, PROCESS | published_keys(need("s3_server"), folder) | command | more) as server:
        yield server


@contextmanager
def on_published_machines(folder: Path, need, more: dict[str, str]) -> Iterator:
    address = {"QUIRE_PREPROCESS_PUBLIC_URL": "http://127.0.0.1:{port}"}
    told = published_keys(need("s3_server"), folder) | address | more
    with on_fly(folder, command=PUBLISHED_WORKER, more=told) as (server, _):
        yield server


SERVICE = pytest.mark.service
COMPUTES = {
    "local": (on_local, ()),
    "process": (on_processes, ()),
    "fly": (on_machines, ()),
    "queue": (on_queue, ()),
    "queue without a database": (on_distant_queue, SERVICE),
    "ray": (on_ray, SERVICE),
    "published image on process": (on_published_processes, SERVICE),
    "published image on fly": (on_published_machines, SERVICE),
}
