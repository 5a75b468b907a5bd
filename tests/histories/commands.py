"""`quire` as a process in a folder: the code of this checkout, or the one that a history is recorded with.

Must not know: anything of the package but its command line and its HTTP API.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

MODULE = "quire.cli.main"
PATIENCE_SECONDS = 60


class Quire:
    """Runs in `folder`, with its home there. `code` is the folder of the package, if not that installed."""

    def __init__(self, folder: Path, *, code: str = "", **settings: str) -> None:
        self.folder = folder
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(("QUIRE_", "BLOBFORGE_"))
        }
        if code:
            kept["PYTHONPATH"] = code
        fixed = {"QUIRE_HOME": "home", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
        self.environment = kept | fixed | settings

    def __call__(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", MODULE, *arguments],
            cwd=self.folder,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def read(self, *arguments: str, ends: int = 0, **more: str) -> Any:
        """What it answers with --json."""
        ran = self(*arguments, "--json", **more)
        assert ran.returncode == ends, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    def read_all(self, *commands: str) -> list[Any]:
        """The answers to commands that only look: some at once, as most of their time goes into starting."""
        with ThreadPoolExecutor(3) as threads:
            return list(threads.map(lambda command: self.read(*command.split()), commands))

    def read_lines(self, *arguments: str, **more: str) -> list[Any]:
        ran = self(*arguments, "--json", **more)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    @contextmanager
    def started(self, *arguments: str, **more: str) -> Iterator["Started"]:
        """Killed with all that it has started when the block ends, unless it has ended itself."""
        talk = self.folder / f"{arguments[0]}.log"
        with talk.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *arguments],
                cwd=self.folder,
                env=self.environment | more,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        running = Started(process, talk)
        try:
            yield running
        finally:
            running.kill()
            process.stdout.close()

    @contextmanager
    def serving(self, *arguments: str, **more: str) -> Iterator["Serving"]:
        with self.started("serve", "--json", "--port", "0", *arguments, **more) as running:
            yield Serving(running, running.heard("started")[-1]["url"])


class Started:
    """`talk` is the file with what it says to people."""

    def __init__(self, process: "subprocess.Popen[str]", talk: Path) -> None:
        self.process = process
        self.talk = talk

    def heard(self, *events: str) -> list[dict[str, Any]]:
        """The JSON lines up to the first of these."""
        said = []
        for line in self.process.stdout:
            said.append(json.loads(line))
            if said[-1]["event"] in events:
                return said
        raise AssertionError(f"it ended: {said}\n{self.talk.read_text('utf-8')[-2000:]}")

    def signal_all(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal_all(signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def ended_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


class Serving:
    def __init__(self, running: Started, url: str) -> None:
        self.running = running
        self.url = url

    def client(self, key: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS, headers=headers)


class Sender:
    """Sends files to one batch, as the published protocol has it."""

    def __init__(self, client: httpx.Client, batch: str) -> None:
        self.client = client
        self.batch = batch

    @classmethod
    def opens(cls, client: httpx.Client, files: int, total_bytes: int) -> "Sender":
        body = {"uploader": "ada", "root_path": "/", "file_count": files, "total_size": total_bytes}
        answer = client.post("/api/batches/init", json=body)
        assert answer.status_code == 201, answer.text
        return cls(client, answer.json()["batch_id"])

    def announce(self, path: str, size: int, content_type: str, *, resume: bool = False) -> dict[str, Any]:
        body = {
            "file_name": path.rpartition("/")[2],
            "file_size": size,
            "logical_path": path,
            "content_type": content_type,
            "processing_config": {"ocr": True, "describe": True, "pinax": True},
        }
        answer = self._post("files/start", body | ({"resume": True} if resume else {}))
        return answer.json()

    def confirm(self, key: str, **more: Any) -> None:
        assert self._post("files/complete", {"r2_key": key} | more).json() == {"success": True}

    def send(self, path: str, data: bytes, content_type: str, *, resume: bool = False) -> None:
        """A file that is small enough to go in one piece."""
        answer = self.announce(path, len(data), content_type, resume=resume)
        put(answer["presigned_url"], data)
        self.confirm(answer["r2_key"])

    def close(self) -> None:
        self._post("finalize", {})

    def _post(self, what: str, body: dict[str, Any]) -> httpx.Response:
        answer = self.client.post(f"/api/batches/{self.batch}/{what}", json=body)
        assert answer.status_code in {200, 201}, answer.text
        return answer


def put(url: str, data: bytes) -> str:
    """The ETag."""
    answer = httpx.put(url, content=data, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.headers["etag"]
