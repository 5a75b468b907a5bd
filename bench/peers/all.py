"""Runs the peers one after the other, each in a process of its own, with the Python of `.venv-bench`.

A peer that could not be run has its row too: figures are None there and `problem` says why.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / ".venv-bench" / "bin" / "python"
# Name in `tasks_by_peer`: script, peer and backend as they stand in the row.
PEERS = {
    "floor-sqlite": ("raw_floor.py", "floor", "sqlite"),
    "floor-postgres": ("raw_floor.py", "floor", "postgres"),
    "dbos-sqlite": ("dbos_fanout.py", "dbos", "sqlite"),
    "dbos-postgres": ("dbos_fanout.py", "dbos", "postgres"),
    "celery-redis": ("celery_fanout.py", "celery", "redis"),
    "ray": ("ray_fanout.py", "ray", "memory"),
}
LIMIT_SECONDS = 900.0
_GRACE_SECONDS = 20.0


def run_peers(
    tasks_by_peer: dict[str, int], *, dsn: str | None = None, limit_seconds: float = LIMIT_SECONDS
) -> list[dict[str, object]]:
    """One row for each name (see PEERS), in the order given; the number is the tasks of each of two phases.

    The peers on PostgreSQL make and drop databases of their own on the server of `dsn`; without it one is
    started for them.
    """
    unknown = tasks_by_peer.keys() - PEERS.keys()
    if unknown:
        raise ValueError(f"no peer {', '.join(sorted(unknown))}; there are: {', '.join(PEERS)}")
    with contextlib.ExitStack() as stack:
        trouble = ""
        if dsn is None and any(PEERS[name][2] == "postgres" for name in tasks_by_peer):
            try:
                dsn = stack.enter_context(_postgres())
            except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the rows
                trouble = f"PostgreSQL could not be started: {_last_line(str(error))}"
        return [_row(name, tasks, dsn, trouble, limit_seconds) for name, tasks in tasks_by_peer.items()]


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    from tests.servers.postgres import postgres_server, programs

    folder = programs()
    if folder is None:
        raise RuntimeError("its wheel is not installed")
    with postgres_server(folder) as dsn:
        yield dsn


def _row(name: str, tasks: int, dsn: str | None, trouble: str, limit_seconds: float) -> dict[str, object]:
    script, peer, backend = PEERS[name]
    row: dict[str, object] = {"peer": peer, "backend": backend, "tasks": 2 * tasks}
    row |= {"seconds": None, "tasks_per_second": None, "peak_mb": None, "problem": ""}
    command = [str(PYTHON), str(HERE / script), "--tasks", str(tasks)]
    if backend == "postgres":
        if dsn is None:
            return row | {"problem": trouble}
        command += ["--dsn", dsn]
    if not PYTHON.exists():
        return row | {"problem": "there is no .venv-bench; `make bench` makes it"}
    with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as folder:
        return row | _run(command, folder, limit_seconds)


def _run(command: list[str], folder: str, limit_seconds: float) -> dict[str, object]:
    with Path(folder, "errors").open("w+b") as errors:
        process = subprocess.Popen(
            command,
            # Whatever the peer leaves behind goes with this folder.
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # so that what it starts can be ended with it
        )
        late = False
        try:
            output = process.communicate(timeout=limit_seconds)[0]
        except subprocess.TimeoutExpired:
            late, output = True, b""
        finally:
            _end(process)
        errors.seek(0)
        last = _last_line(errors.read().decode(errors="replace"))
    if late:
        return {"problem": f"not done after {limit_seconds:g} seconds"}
    if process.returncode:
        return {"problem": f"exit code {process.returncode}: {last}"}
    try:
        return dict(json.loads(_last_line(output.decode())))
    except ValueError:
        return {"problem": f"its output is no row: {_last_line(output.decode(errors='replace'))!r}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asked first, so that it puts its servers away itself; then its group, in which are none but its own."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()[:300]


if __name__ == "__main__":
    # python bench/peers/all.py [TASKS [NAME ...]]
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for found in run_peers(dict.fromkeys(sys.argv[2:] or PEERS, number)):
        print(json.dumps(found), flush=True)
