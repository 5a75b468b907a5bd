"""What is recorded of a library: a bucket in a folder, with a document at every kind of stand."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

from tests.histories.commands import Quire

CORPUS = Path(__file__).parents[1] / "documents" / "corpus" / "pdf"
BOOKS = {
    "done": "crazyones.pdf",
    "processing": "manual-3-pages.pdf",
    "queued": "rotation.pdf",
    "failed": "zero-pages.pdf",
    "dead": "crazyones-encrypted-256.pdf",
}
COPY = "Nobles & Kings/Überblick.pdf"  # of the one that is done
# So that nothing but what is asked for happens.
STILL = {"QUIRE_LIBRARY_SWEEP": "false"}


def record(quire: Quire) -> dict[str, Any]:
    """What the tests must know."""
    books = quire.folder / "books"
    for name in BOOKS.values():
        books.mkdir(exist_ok=True)
        shutil.copyfile(CORPUS / name, books / name)
    (books / COPY).parent.mkdir()
    shutil.copyfile(CORPUS / BOOKS["done"], books / COPY)
    hashes = {stand: hashlib.sha256((books / name).read_bytes()).hexdigest() for stand, name in BOOKS.items()}
    # One after the other, so that a worker has no choice.
    _worked_on(quire, BOOKS["done"])
    _worked_on(quire, BOOKS["dead"], QUIRE_LIBRARY_MAX_RETRIES="0")
    quire.read("library", "janitor", QUIRE_LIBRARY_MAX_RETRIES="0")
    _killed_at(quire, BOOKS["processing"])
    _worked_on(quire, BOOKS["failed"])
    counts = quire.read("library", "ingest", "books")
    assert (counts["found"], counts["queued"]) == (len(BOOKS) + 1, 1), counts
    stands = {stand: quire.read("library", "status", ident)["standing"] for stand, ident in hashes.items()}
    assert stands == {stand: stand for stand in BOOKS}, stands
    for log in quire.folder.glob("bucket/**/error.json"):
        if log.is_file():
            _forget_places(log)
    return {"hashes": hashes, "books": BOOKS, "copy": COPY}


def _worked_on(quire: Quire, name: str, **more: str) -> None:
    quire.read("library", "ingest", f"books/{name}")
    lines = quire.read_lines("library", "worker", "--run-once", **STILL, **more)
    assert "ended" in {line["event"] for line in lines}, lines


def _killed_at(quire: Quire, name: str) -> None:
    quire.read("library", "ingest", f"books/{name}")
    # On a machine of its own: a later worker on the same one would give the job back at once.
    other = {"QUIRE_HOME": "other", "QUIRE_LIBRARY_WORKER_ID": "killed"}
    with quire.started("library", "worker", "--json", **STILL, **other) as worker:
        worker.heard("claimed")
        worker.kill()


def _forget_places(log: Path) -> None:
    """A traceback names folders of the machine. Size and time stay: by these the store knows the version."""
    times = log.stat()
    data = log.read_bytes()
    # Only the names of files are kept.
    cleared = re.sub(rb'/(?:[^/" :\\]+/)+', lambda found: b"/" + b"-" * (len(found[0]) - 2) + b"/", data)
    log.chmod(0o644)
    log.write_bytes(cleared)
    log.chmod(times.st_mode & 0o777)
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
