"""The same run with its phases on a queue: workers with Redis and a bucket, which see no database."""

import os
import signal
import sqlite3
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.service]
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
PHASES = {f"QUIRE_COMPUTE_{phase}": "queue" for phase in ("PDF", "TIFF", "IMAGE")}


def far(server, redis_url, prefix):
    """All that a worker elsewhere is told."""
    return {
        "QUIRE_STORE": "s3",
        "QUIRE_S3_BUCKET": server.bucket,
        "QUIRE_S3_ENDPOINT": server.endpoint,
        "QUIRE_S3_ACCESS_KEY_ID": server.access_key_id,
        "QUIRE_S3_SECRET_ACCESS_KEY": server.secret_access_key,
        "QUIRE_S3_ALLOW_HTTP": "true",
        "QUIRE_S3_PREFIX": prefix,
        "QUIRE_QUEUE_STORE": "redis",
        "QUIRE_REDIS_URL": redis_url,
        "QUIRE_REDIS_PREFIX": prefix,
        "QUIRE_COMPUTE_LOOK_SECONDS": "0.2",
    }


@contextmanager
def working(quire, home, *options, **told):
    """A `quire worker --from-queue` that is at work; gone at the end, however it went."""
    started = subprocess.Popen(
        quire.command("worker", "--from-queue", "--workers", "1", "--json", *options),
        cwd=quire.folder,
        env=quire.environment(PYTHONUNBUFFERED="1", **told) | {"QUIRE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        line = started.stdout.readline()
        while '"warning"' in line:
            line = started.stdout.readline()
        assert '"started"' in line, started.communicate(timeout=30)
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate(timeout=30)


def test_the_sample_collection_ends_alike_on_workers_without_a_database(
    quire, s3_server, redis_server, tmp_path
):
    here = quire.run(str(SAMPLES))
    assert here.returncode == 3, here.stderr
    files, phases = quire.files(), quire.report()["phases"]
    quire.home, quire.out = tmp_path / "far-home", tmp_path / "far-out"
    told = far(s3_server, redis_server, "on-queue")
    with ExitStack() as stack:
        homes = [tmp_path / "worker-1", tmp_path / "worker-2"]
        workers = [stack.enter_context(working(quire, home, **told)) for home in homes]
        ran = quire.run(str(SAMPLES), **told, **PHASES)
        assert ran.returncode == 3, ran.stderr
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            assert worker.wait(timeout=30) == 0, worker.stderr.read()
    assert quire.files() == files
    assert quire.report()["phases"] == phases
    assert workers_of(quire.home) == {"queue"}
    assert not any(path.name == "quire.db" for home in homes for path in home.rglob("*")), "a database"
    assert not any((quire.home / "blobs").rglob("*")), "bytes were kept on this machine"


def test_a_worker_that_does_not_see_the_store_says_so_and_fails_nothing(quire, folder, tmp_path):
    (folder / "turned.jpg").write_bytes((SAMPLES / "photos" / "turned.jpg").read_bytes())
    # The same queues in the same file, but another folder of blobs.
    other = tmp_path / "other"
    other.mkdir()
    quire.home.mkdir()
    (other / "quire.db").symlink_to(quire.home / "quire.db")
    with working(quire, quire.home, "--until-idle"):
        pass  # so that there is a database to share
    with ExitStack() as stack:
        blind = stack.enter_context(working(quire, other))
        running = subprocess.Popen(
            quire.command("run", str(folder), "--out", str(quire.out)),
            cwd=quire.folder,
            env=quire.environment(**PHASES),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said, _ = blind.communicate(timeout=60)
        assert blind.returncode == 1
        assert "does not see" in said
        stack.enter_context(working(quire, quire.home))
        _, told = running.communicate(timeout=60)
        assert running.returncode == 0, told


def workers_of(home):
    connection = sqlite3.connect(home / "quire.db")
    rows = connection.execute("SELECT DISTINCT worker FROM tasks WHERE worker IS NOT NULL").fetchall()
    connection.close()
    return {name.partition("-")[0] for (name,) in rows}
