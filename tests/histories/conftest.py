"""Histories, unpacked for each test, with the checkout's `quire` at hand to go on with them."""

import contextlib
import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.histories.archives import unpack
from tests.histories.books import Books, PostgresBooks, SqliteBooks, load_dump
from tests.histories.commands import PATIENCE_SECONDS, Quire
from tests.histories.record_home import GUARDED

HERE = Path(__file__).parent
# A history may be old, and what nobody touched for long is cleaned up: not while tests go on with it.
SETTINGS = {"QUIRE_WORKERS": "2", "QUIRE_CLEANING_EVERY_SECONDS": "0"}
# Where beats alone tell who is dead, that is found out sooner.
BEATS = {"QUIRE_CREW_BEAT_SECONDS": "0.25", "QUIRE_CREW_STALE_SECONDS": "0.5"}
# A worker that was killed a moment ago is missed too, should the history be so young.
SOON = {"QUIRE_LIBRARY_HEARTBEAT_SECONDS": "1", "QUIRE_LIBRARY_STALE_MINUTES": "0.05"}


class History:
    """A home of an earlier version. `batches` has the ids of its batches by what is special about them."""

    def __init__(self, quire: Quire, books: Books, facts: dict[str, Any]) -> None:
        self.quire = quire
        self.books = books
        self.facts = facts
        self.batches: dict[str, str] = facts["batches"]
        self._width = 0
        self._move_in()

    def settled(self, batch: str, *states: str) -> list[tuple[Any, ...]]:
        """All that the recorded version knew of the tasks in these states: later ones add columns."""
        found = self.books.rows(
            "SELECT t.state, t.* FROM tasks t JOIN batches b ON b.no = t.batch_no WHERE b.id = ?",
            self.batches[batch],
        )
        self._width = self._width or len(found[0])
        return [row[: self._width] for row in found if row[0] in states]

    def states(self, batch: str) -> set[str]:
        found = self.books.rows(
            "SELECT DISTINCT t.state FROM tasks t JOIN batches b ON b.no = t.batch_no WHERE b.id = ?",
            self.batches[batch],
        )
        return {state for (state,) in found}

    def _move_in(self) -> None:
        """The folder has another place now, and its files other inodes: as if they had always been there.

        A run is known by the paths it was given, and a file by its size, time and inode.
        """
        folder, batch = self.quire.folder, self.batches["killed"]
        asked = ["preprocess", str((folder / "in").resolve()), "", str((folder / "out").resolve())]
        key = hashlib.sha256("\0".join(asked).encode()).hexdigest()
        self.books.rows("UPDATE batches SET run_key = ? WHERE id = ?", key, batch)
        ((number,),) = self.books.rows("SELECT no FROM batches WHERE id = ?", batch)
        for path, stamp in self.books.rows("SELECT path, stamp FROM uploads WHERE batch_no = ?", number):
            status = (folder / "in" / path).stat()
            same = f"{status.st_size}-{status.st_mtime_ns}-"
            if stamp:
                assert stamp.startswith(same)
                update = "UPDATE uploads SET stamp = ? WHERE batch_no = ? AND path = ?"
                self.books.rows(update, f"{same}{status.st_ino}", number, path)


class Receiver:
    """Takes webhooks: `calls` has headers and body of each."""

    def __init__(self) -> None:
        self.calls: Queue[tuple[dict[str, str], bytes]] = Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(204)
                self.end_headers()
                receiver.calls.put(({name.lower(): text for name, text in self.headers.items()}, body))

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/in"

    def call(self) -> tuple[dict[str, str], bytes]:
        return self.calls.get(timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def recorded(kind: str) -> list[str]:
    """The names of the histories of a kind, one for each version."""
    return sorted(path.stem for path in HERE.glob(f"{kind}-*.json"))


def facts_of(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


@contextlib.contextmanager
def opened(name: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[History]:
    unpack(HERE / f"{name}.tar.xz", folder)
    if name.startswith("home"):
        yield History(Quire(folder, **SETTINGS), SqliteBooks(folder / "home"), facts_of(name))
        return
    with _database(request.getfixturevalue("postgres_server")) as dsn:
        load_dump(dsn, HERE / f"{name}.sql")
        shared = {"QUIRE_LEDGER": "postgres", "QUIRE_POSTGRES_DSN": dsn}
        yield History(Quire(folder, **SETTINGS, **BEATS, **shared), PostgresBooks(dsn), facts_of(name))


@contextlib.contextmanager
def _database(dsn: str) -> Iterator[str]:
    """An empty one on the server."""
    import psycopg

    name = f"history_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield f"{dsn.rpartition('/')[0]}/{name}"
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


HOMES = [*recorded("home"), *(pytest.param(name, marks=pytest.mark.service) for name in recorded("postgres"))]


@pytest.fixture(params=HOMES)
def history(request, tmp_path):
    with opened(request.param, tmp_path, request) as found:
        yield found


@pytest.fixture(scope="module", params=HOMES)
def other_history(request, tmp_path_factory):
    """One that the tests of a module share."""
    with opened(request.param, tmp_path_factory.mktemp("other"), request) as found:
        yield found


@pytest.fixture(scope="module", params=HOMES)
def served(request, tmp_path_factory):
    """One that `quire serve` goes on with, conductor and workers included, for all tests of a module."""
    folder = tmp_path_factory.mktemp("served")
    with opened(request.param, folder, request) as found, receiving() as receiver:
        # Where whoever wants to be told listens now.
        found.books.rows("UPDATE hooks SET url = ?", receiver.url)
        with found.quire.serving(**GUARDED) as server:
            found.server, found.receiver = server, receiver
            yield found


@pytest.fixture(params=recorded("library"))
def library(request, tmp_path):
    """`quire`, and what is known of the library that it is pointed at."""
    unpack(HERE / f"{request.param}.tar.xz", tmp_path)
    bucket = {"QUIRE_BUCKET": (tmp_path / "bucket").as_uri()}
    return Quire(tmp_path, **bucket, **SOON), facts_of(request.param)
