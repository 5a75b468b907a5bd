"""A Machines API on a free loopback port whose machines are real processes of this computer.

Create, get, list and destroy; `auto_destroy` as told. Faults are put in the way of requests to create, one by
one, so that a test decides what happens when; machines can be killed without a word, and waited for.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

# Said before anything is done, or after the machine was created.
Fault = Literal["429", "500", "409 after", "lost after"]
TASK_COMMAND = (sys.executable, "-m", "quire.cli.main", "task", "run")
_PATH = re.compile(r"/v1/apps/([\w-]+)/machines(?:/([\w-]+))?")
_PATIENCE_SECONDS = 60.0


class Machine:
    def __init__(self, number: int, app: str, said: dict[str, Any], command: Sequence[str]) -> None:
        self.id = f"m{number:06x}"
        self.app = app
        self.name: str = said["name"]
        self.config: dict[str, Any] = said["config"]
        self.state = "started"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 closed with the server
        self.process = subprocess.Popen(
            command,
            env=kept | {str(name): str(text) for name, text in self.config["env"].items()},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def last_words(self) -> str:
        """What it is, how it ended, and the end of what it printed."""
        said = os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0)
        tail = said.decode(errors="replace")[-2000:]
        return f"{self.shown()} (exit code {self.process.poll()}):\n{tail}"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def shown(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "state": self.state, "config": self.config}


class MachinesServer:
    """`machines` has all that ever were; `bodies` what was asked for, in order."""

    def __init__(self, *, command: Sequence[str] = TASK_COMMAND, token: str = "token") -> None:  # noqa: S107
        self.command = command
        self.token = token
        self.url = ""
        self.faults: list[Fault] = []
        self.bodies: list[dict[str, Any]] = []
        self.machines: list[Machine] = []
        self.destroyed: list[str] = []  # by request
        self._changed = threading.Condition()

    def running(self) -> list[Machine]:
        return [one for one in self.machines if one.state == "started"]

    def wait_until(self, fits: Callable[[], object]) -> None:
        """Looked at anew whenever a machine starts or ends."""
        with self._changed:
            came = self._changed.wait_for(fits, _PATIENCE_SECONDS)
            assert came, "\n".join(one.last_words() for one in self.machines)

    def handle(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any]:
        found = _PATH.fullmatch(path.partition("?")[0])
        if token != f"Bearer {self.token}":
            return 401, {"error": "unauthorized"}
        if found is None:
            return 404, {"error": "not found"}
        app, machine_id = found[1], found[2]
        with self._changed:
            if method == "POST" and machine_id is None:
                return self._create(app, json.loads(body))
            there = [one for one in self.machines if one.app == app and one.state != "destroyed"]
            if machine_id is None:
                return 200, [one.shown() for one in there]
            return self._one(method, next((one for one in there if one.id == machine_id), None))

    def close(self) -> None:
        for one in self.machines:
            one.kill()
            one.process.wait()
            one.log.close()

    def _one(self, method: str, machine: Machine | None) -> tuple[int, Any]:
        if machine is None:
            return 404, {"error": "machine not found"}
        if method == "DELETE":
            self.destroyed.append(machine.name)
            machine.kill()
            machine.state = "destroyed"
            self._changed.notify_all()
        return 200, machine.shown()

    def _create(self, app: str, said: dict[str, Any]) -> tuple[int, Any]:
        fault = self.faults.pop(0) if self.faults else None
        if fault in {"429", "500"}:
            return int(fault), {"error": "a fault"}
        self.bodies.append(said)
        if any(one.name == said["name"] and one.state != "destroyed" for one in self.machines):
            return 409, {"error": f"unique machine name violation, {said['name']} already exists"}
        machine = Machine(len(self.machines) + 1, app, said, self.command)
        self.machines.append(machine)
        threading.Thread(target=self._mind, args=(machine,), daemon=True).start()
        self._changed.notify_all()
        if fault == "409 after":
            return 409, {"error": "machine already exists"}
        return (0, None) if fault == "lost after" else (200, machine.shown())

    def _mind(self, machine: Machine) -> None:
        machine.process.wait()
        with self._changed:
            if machine.state != "destroyed":
                machine.state = "destroyed" if machine.config.get("auto_destroy") else "stopped"
            self._changed.notify_all()


@contextmanager
def machines_server(server: MachinesServer) -> Iterator[MachinesServer]:
    """Runs it in threads of this process; in the end no machine is left."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            token = self.headers.get("authorization", "")
            status, document = server.handle(self.command, self.path, token, body)
            if not status:  # lost: the connection ends without a word
                self.close_connection = True
                return
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nobody reads it."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
        server.close()
