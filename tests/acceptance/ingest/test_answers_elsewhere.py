"""A step that runs elsewhere asks somebody outside: in a process of its own, on a worker that has only a
queue and a store, on Ray. The answer comes by HTTP to the server.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager

import pytest
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.test_answers import ASKING, asked, ended, made, sent

pytestmark = pytest.mark.slow
PLACES = [
    "process",
    pytest.param("queue", marks=pytest.mark.service),
    pytest.param("ray", marks=pytest.mark.service),
]


@contextmanager
def queue_worker(folder, environment):
    """`quire worker --from-queue`, which has said that it runs."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    own = environment | {"QUIRE_HOME": str(folder / "worker-home"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "quire.cli.main", "worker", "--from-queue", "--json"]
    with (folder / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            command, cwd=folder, env=kept | own, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        for line in worker.stdout:
            if json.loads(line)["event"] == "started":
                break
        assert worker.poll() is None, (folder / "worker.log").read_text("utf-8")
        yield worker
    finally:
        worker.kill()
        worker.communicate(timeout=30)


@pytest.fixture(params=PLACES)
def server(request, tmp_path):
    """Its first step runs in that place; whatever that needs runs, too."""
    where = request.param
    asking = ASKING.replace("@asking.step(", f'@asking.step(runs_on="{where}", ', 1)
    (tmp_path / "asking.py").write_text(asking)
    environment = {
        "QUIRE_PIPELINES": str(tmp_path / "asking.py"),
        "QUIRE_INGEST_PIPELINE": "asking",
        "QUIRE_COMPUTE_LOOK_SECONDS": "0.2",
    }
    with ExitStack() as opened:
        if where != "process":
            environment |= s3_environment(request.getfixturevalue("s3_server"), f"asked/{tmp_path.name}")
        if where == "queue":
            environment |= {
                "QUIRE_QUEUE_STORE": "redis",
                "QUIRE_REDIS_URL": request.getfixturevalue("redis_server"),
                "QUIRE_REDIS_PREFIX": tmp_path.name,
            }
            opened.enter_context(queue_worker(tmp_path, environment))
        if where == "ray":  # a short path: Ray has its sockets there
            short = opened.enter_context(tempfile.TemporaryDirectory(prefix="q", dir="/tmp"))
            environment |= {"QUIRE_RAY_WORKERS": "1", "TMPDIR": short}
        yield opened.enter_context(serving(tmp_path, environment, "--workers", "1"))


async def test_a_step_that_runs_elsewhere_is_completed_by_http(server):
    batch = sent(server, "a.txt")
    token = (await asked(server, 1))["a.txt"]
    answer = {"status": "success", "value": {"words": 2}}
    with server.client() as client:
        assert client.post(f"/tasks/{token}", json=answer).json() == {"ok": True}
        again = client.post(f"/tasks/{token}", json=answer | {"value": {"words": 3}}).json()
        assert again in ({"ok": True, "duplicate": True}, {"ok": True, "late": True})
    assert await ended(server, batch) == {"/a.txt": "done"}
    assert await made(server, batch, "a.txt.words.json") == {"words": 2}
