"""The process that touches a network share in the place of Quire's own: lists folders and copies files.

A read from a share that does not answer cannot be ended, not even by SIGKILL: so a process does it that holds
nothing and may be left behind. Requests and answers are lines of JSON; an answer ends with `done` or `error`.
Runs without Quire's dependencies.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quire.tools.input_open import NotRegularError, open_regular

PIECE_BYTES = 1 << 20
_ENTRIES = 256


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # die with the parent
    for line in sys.stdin.buffer:
        try:
            for answer in _answer(json.loads(line)):
                _say(answer)
            _say({"done": True})
        except OSError as error:
            kind = "regular" if isinstance(error, NotRegularError) else "other"
            _say({"error": [error.errno, error.strerror or str(error)], "kind": kind})


def _answer(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    path = Path(request["path"])
    match request["do"]:
        case "stat":
            yield {"stat": _facts(path.stat())}
        case "list":
            yield from _list(path)
        case "read":
            yield from _read(path, request["below"], request["most"])
        case "copy":
            yield from _copy(path, request["below"], Path(request["to"]))


def _list(folder: Path) -> Iterator[dict[str, Any]]:
    entries: list[list[Any]] = []
    with os.scandir(folder) as listing:
        for entry in listing:
            try:
                facts: Any = _facts(entry.stat(follow_symlinks=False))
            except OSError as error:
                facts = error.strerror or str(error)
            entries.append([entry.name, facts])
            if len(entries) == _ENTRIES:
                yield {"entries": entries}
                entries = []
    yield {"entries": entries}


def _read(path: Path, below: int, most: int) -> Iterator[dict[str, Any]]:
    with open(open_regular(path, below=below), "rb") as file:  # noqa: PTH123 - a descriptor
        yield {"stat": _facts(os.fstat(file.fileno())), "head": file.read(most).hex()}


def _copy(path: Path, below: int, target: Path) -> Iterator[dict[str, Any]]:
    with open(open_regular(path, below=below), "rb", buffering=0) as file, target.open("xb") as copy:  # noqa: PTH123
        before = _facts(os.fstat(file.fileno()))
        while piece := file.read(PIECE_BYTES):
            copy.write(piece)
            yield {"copied": len(piece)}
        after = _facts(os.fstat(file.fileno()))
    yield {"stat": before, "unchanged": before == after}


def _facts(status: os.stat_result) -> list[int]:
    return [status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev]


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
