"""`quire serve` as a process, on local files and on the real S3 server."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

CONFIG = {"ocr": True, "describe": True, "pinax": True}


class Server:
    """Started, killed and started again on the same home and the same port."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.home = folder / "home"
        self.folder = folder
        self.environment = environment
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> "Server":
        kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
        command = [sys.executable, "-m", "quire.cli.main", "serve", "--json", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=self.folder,
            env=kept | self.environment | {"QUIRE_HOME": str(self.home), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for line in self.process.stdout:
            said = json.loads(line)
            if said["event"] == "started":
                self.url = said["url"]
                self.port = httpx.URL(self.url).port
                return self
        raise AssertionError(f"the server did not start: {self.process.stderr.read()}")

    def kill(self) -> None:
        """The whole tree, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        self.process.communicate(timeout=60)
        code, self.process = self.process.returncode, None
        return code

    def restart(self, *arguments: str) -> "Server":
        self.kill()
        return self.start(*arguments)

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def close(self) -> None:
        if self.process is not None:
            self.kill()


@contextmanager
def serving(folder: Path, environment: dict[str, str], *arguments: str):
    server = Server(folder, environment)
    try:
        yield server.start(*arguments)
    finally:
        server.close()


def s3_environment(s3_server, prefix: str) -> dict[str, str]:
    return {
        "QUIRE_STORE": "s3",
        "QUIRE_S3_BUCKET": s3_server.bucket,
        "QUIRE_S3_ENDPOINT": s3_server.endpoint,
        "QUIRE_S3_ACCESS_KEY_ID": s3_server.access_key_id,
        "QUIRE_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
        "QUIRE_S3_ALLOW_HTTP": "true",
        "QUIRE_S3_PREFIX": prefix,
    }


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.service)])
def store(request, tmp_path):
    """The environment of a server on each store."""
    if request.param == "local":
        return {}
    return s3_environment(request.getfixturevalue("s3_server"), f"ingest/{tmp_path.name}")


@pytest.fixture
def server(store, tmp_path):
    """With a conductor and one worker."""
    with serving(tmp_path, store, "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def api_only(tmp_path_factory):
    """On local files, shared by the tests of a module: no work is done, batches stay where they are."""
    with serving(tmp_path_factory.mktemp("api"), {}, "--api-only") as running:
        yield running


@pytest.fixture
def api(api_only):
    with api_only.client() as client:
        yield client


@pytest.fixture(scope="session", params=["local", pytest.param("s3", marks=pytest.mark.service)])
def still(request, tmp_path_factory):
    """The API alone on each store, shared by all tests: what was sent stays as it was sent."""
    folder = tmp_path_factory.mktemp("still")
    environment = {}
    if request.param == "s3":
        environment = s3_environment(request.getfixturevalue("s3_server"), f"ingest/{folder.name}")
    with serving(folder, environment, "--api-only") as running:
        yield running
