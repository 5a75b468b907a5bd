"""What the scripts of the queue section share: the measuring, the board, the command line, the row.

Each script names one library and is two processes: the one that is started sends and looks at the clock; it
starts itself again as the one worker. Messages are sent first, so that the worker finds them all. The drain
goes from the start of the first task to the moment when all are acknowledged; Quire's from before its first
lease. Latency is from before the sending of one message to the start of its task, the worker having nothing
to do.
"""

import argparse
import contextlib
import json
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fanout import database, family

ONE_BY_ONE = 1000
SET = 1000
LONGEST_SECONDS = 600.0
_BOARD = "QUEUE_BOARD"
_SETTLE_SECONDS = 0.5
_LATENCY_SECONDS = 20.0


class Board:
    """Numbers that the worker writes and the sender reads: tasks started, start of the first, of the last."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(24))
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 24)).cast("q")
        self._lock = threading.Lock()

    def begin(self) -> None:
        """For who counts the drain from earlier than the first task."""
        self._numbers[1] = self._numbers[1] or time.monotonic_ns()

    def started(self) -> None:
        now = time.monotonic_ns()
        with self._lock:
            self._numbers[1] = self._numbers[1] or now
            self._numbers[2] = now
            self._numbers[0] += 1

    @property
    def count(self) -> int:
        return self._numbers[0]

    @property
    def first_ns(self) -> int:
        return self._numbers[1]

    @property
    def last_ns(self) -> int:
        return self._numbers[2]


# The worker's; the sender makes one of its own.
board = Board(Path(os.environ[_BOARD])) if _BOARD in os.environ else None


class Peer:
    """What a script says of its library. `url` is a file, a DSN or the address of a Redis."""

    can_bulk = False

    def __init__(self, backend: str, url: str, given: argparse.Namespace) -> None:
        self.backend, self.url, self.given = backend, url, given

    def open(self) -> None:
        """In the sender, before anything is sent."""

    def close(self) -> None:
        """In the sender, at the end."""

    def send(self, numbers: range) -> None:
        """One by one."""
        raise NotImplementedError

    def bulk(self, numbers: range) -> None:
        """At once, where the library can."""
        raise NotImplementedError

    def left(self) -> int:
        """How many are not acknowledged; asked when all were started."""
        raise NotImplementedError

    def work(self) -> None:
        """The worker, until it is ended."""
        raise NotImplementedError


class Worker:
    def __init__(self, command: list[str], folder: Path) -> None:
        self._errors = folder / "worker-errors"
        self.board = Board(folder / "board")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, _BOARD: str(folder / "board")},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def until(self, ready: Callable[[], bool], *, seconds: float, pause: float = 0.001) -> None:
        limit = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                said = self._errors.read_bytes().decode(errors="replace").strip().splitlines()
                code = self._process.poll()
                state = "is not done" if code is None else f"ended with {code}"
                raise RuntimeError(
                    f"the worker {state} after {self.board.count} tasks: {(said or ['it said nothing'])[-1]}"
                )
            time.sleep(pause)

    @property
    def peak_mb(self) -> int:
        """Of the worker and all it started."""
        peak = 0
        for pid in family(self._process.pid, set()):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    peak += int(line.split()[1]) if line.startswith("VmHWM:") else 0
        return round(peak / 1024)


def sets(numbers: range) -> list[range]:
    return [numbers[at : at + SET] for at in range(0, len(numbers), SET)]


def rate(act: Callable[[range], None], numbers: range) -> int:
    began = time.perf_counter()
    act(numbers)
    return round(len(numbers) / (time.perf_counter() - began))


def measure(peer: Peer, given: argparse.Namespace, folder: Path) -> dict[str, object]:
    row: dict[str, object] = {}
    alone = range(min(ONE_BY_ONE, given.messages // 2 if peer.can_bulk else given.messages))
    row["send_per_s"] = rate(peer.send, alone)
    rest = range(len(alone), given.messages)
    if peer.can_bulk:
        row["bulk_per_s"] = rate(peer.bulk, rest)
    elif rest:
        peer.send(rest)
    command = [sys.executable, *sys.argv, "--worker", "--url", peer.url]
    with Worker(command, folder) as worker:
        worker.until(lambda: worker.board.count >= given.messages, seconds=LONGEST_SECONDS)
        worker.until(lambda: peer.left() == 0, seconds=60, pause=0.002)
        seconds = (time.monotonic_ns() - worker.board.first_ns) / 1e9
        row["drain_per_s"] = round(given.messages / seconds)
        row["worker_mb"] = worker.peak_mb
        row |= latencies(peer, worker, given.messages, given.latencies)
    return row


def latencies(peer: Peer, worker: Worker, number: int, samples: int) -> dict[str, object]:
    if not samples:
        return {}
    time.sleep(_SETTLE_SECONDS)
    found = []
    for sample in range(samples + 5):
        time.sleep(random.uniform(0.02, 0.06))
        before, began = worker.board.count, time.monotonic_ns()
        peer.send(range(number + sample, number + sample + 1))
        worker.until(lambda: worker.board.count > before, seconds=_LATENCY_SECONDS, pause=0.0005)  # noqa: B023 - used up at once
        found.append((worker.board.last_ns - began) / 1e6)
    found = sorted(found[5:])  # the first ones warm it up
    return {
        "p50_ms": round(statistics.median(found), 2),
        "p99_ms": round(found[min(len(found) - 1, int(len(found) * 0.99))], 2),
    }


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--latencies", type=int, default=0, help="how many are sent to an idle worker")
    parser.add_argument("--backend", choices=("sqlite", "postgres", "redis"), required=True)
    parser.add_argument("--url", help="of a server; without it a file of its own")
    parser.add_argument("--worker", action="store_true")
    return parser


def main(kind: type[Peer], parser: argparse.ArgumentParser | None = None) -> None:
    given = (parser or arguments()).parse_args()
    if given.worker:
        kind(given.backend, given.url, given).work()
        return
    # Ended from outside, folders and databases are still put away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url = given.url or str(folder / "queue.db")
        if given.backend == "postgres":
            url = stack.enter_context(database(given.url))
        peer = kind(given.backend, url, given)
        peer.open()
        stack.callback(peer.close)
        row = measure(peer, given, folder)
    print(json.dumps(row), flush=True)
