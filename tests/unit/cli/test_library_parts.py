"""Commands that hand their work to parts of the library: what they say and how they end."""

import asyncio
import json
import os
import signal
from collections import Counter
from enum import StrEnum
from types import SimpleNamespace

import pytest
from msgspec import Struct, field
from tests.situations.bucket_folder import archive, hash_of

from quire.assembly import library_worker
from quire.library import janitor, metadata
from quire.library.ingest import checksums, pdf_search, run
from quire.library.manifest import search, store
from quire.library.worker import conversion, loop

A, B = hash_of("A"), hash_of("B")


class Tally(Struct, kw_only=True):
    found: int = 0
    uploaded: int = 0
    queued: int = 0
    skipped: int = 0
    failed: int = 0
    failures: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    standings: Counter = field(default_factory=Counter)


class Refused(Struct, kw_only=True):
    path: str
    code: str = "not_a_pdf"
    reason: str = ""


class Pdf(Struct, kw_only=True):
    path: object
    relative: str = ""
    pointer: object = None


class Parts:
    """Puts stand-ins in the place of functions and classes of the library's modules."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch

    def replace(self, module, **stand_ins):
        for name, stand_in in stand_ins.items():
            self._monkeypatch.setattr(module, name, stand_in)


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def entry(*paths, tags=()):
    return SimpleNamespace(paths=list(paths), size=2048, tags=list(tags), ingested_at="x", source="books")


def test_ingest_ends_with_its_counts(library, parts, tmp_path):
    asked = []

    async def ingest(context, given, options, on_progress):
        asked.append((given, options.tier, options.dry_run))
        tally = Tally(found=3, uploaded=2, queued=2, skipped=1)
        on_progress(tally)
        return tally

    parts.replace(run, ingest=ingest, IngestOptions=SimpleNamespace)
    told = library("ingest", "books", "more", "--priority", "high")
    assert told.exit_code == 0
    assert told.stdout.splitlines() == ["Found: 3", "Uploaded: 2", "Queued: 2", "Skipped: 1"]
    assert library("ingest", "books", "--dry-run").stdout.splitlines()[0] == "Dry run: nothing was changed."
    assert asked == [(["books", "more"], "2_high", False), (["books"], "3_normal", True)]
    shown = json.loads(library("ingest", "books", "--json").stdout)
    assert (shown["found"], shown["skipped"]) == (3, 1)
    assert library("ingest").exit_code == 2


def test_ingest_names_what_failed_and_ends_with_one(library, parts):
    async def ingest(context, given, options, on_progress):
        return Tally(found=1, failed=1, failures=[Refused(path="x\x1b.pdf", reason="it is empty")])

    parts.replace(run, ingest=ingest, IngestOptions=SimpleNamespace)
    told = library("ingest", "books")
    assert told.exit_code == 1
    assert r"x\x1b.pdf: it is empty" in told.stderr
    assert told.stdout.splitlines()[-1] == "Failed: 1"


def test_hydrate_writes_beside_and_misses_are_no_error(library, parts, bucket, tmp_path):
    bucket.done(A, {"content.md": "# A ![x](assets/x.png)", "assets/x.png": "png"})
    found = [Pdf(path=tmp_path / "a.pdf"), Pdf(path=tmp_path / "b.pdf"), SimpleNamespace()]
    sums = {tmp_path / "a.pdf": A, tmp_path / "b.pdf": B}
    parts.replace(pdf_search, find_pdfs=lambda _paths: iter(found), RefusedFile=Refused, FoundPdf=Pdf)
    known = SimpleNamespace(sum=lambda path: SimpleNamespace(digest=sums[path]))
    parts.replace(checksums, Checksums=lambda _now: known)
    assert library("hydrate", "books", "--dry-run").stdout.splitlines()[0] == "Would write: 1"
    assert not (tmp_path / "a.md").exists()
    told = library("hydrate", "books")
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines() == ["Written: 1", "Kept: 0", "Without a result: 1", "Failed: 0"]
    assert (tmp_path / "a.md").read_text() == "# A ![x](a.assets/x.png)"
    assert library("hydrate", "books").stdout.splitlines()[:2] == ["Written: 0", "Kept: 1"]
    found.append(Refused(path="c.pdf", reason="unreadable"))
    shown = library("hydrate", "books", "--force", "--json")
    assert shown.exit_code == 1
    assert (json.loads(shown.stdout)["written"], json.loads(shown.stdout)["failed"]) == (1, 1)


class View(SimpleNamespace):
    def get(self, job):
        return self.entries.get(job)

    def hits(self):
        return [SimpleNamespace(hash=job, entry=one) for job, one in self.entries.items()]

    def __len__(self):
        return len(self.entries)


@pytest.fixture
def index(parts):
    view = View(entries={A: entry("DnD/PHB.pdf", tags=["DnD"])}, problems=(), segments=0)
    gone = []

    class Manifest:
        def __init__(self, context):
            pass

        async def read(self):
            return view

        async def remove(self, jobs):
            gone.extend(jobs)

        async def compact(self):
            return Refused(path="moved")

    def find(shown, query, *, limit):
        return [hit for hit in View(entries=shown.entries).hits() if query in hit.entry.paths[0]][:limit]

    parts.replace(
        search,
        search=find,
        find_by_hash=lambda shown, _prefix: shown.hits()[0],
        find_by_path=lambda shown, path: [hit for hit in shown.hits() if path in hit.entry.paths],
        ManifestView=lambda entries: SimpleNamespace(entries=entries),
    )
    parts.replace(store, LibraryManifest=Manifest)
    view.gone = gone
    return view


def test_search_and_lookup_end_with_one_when_there_is_nothing(library, index, bucket):
    assert library("search", "PHB").stdout.splitlines()[:2] == [f"{A}  2.0 KiB", "    DnD/PHB.pdf"]
    assert library("search", "nothing").exit_code == 1
    assert library("lookup", "--path", "DnD/PHB.pdf").exit_code == 0
    assert library("lookup", "--path", "none").exit_code == 1
    assert json.loads(library("lookup", "--hash", A[:8], "--json").stdout)["documents"][0]["hash"] == A
    assert library("search-queue", "PHB").exit_code == 1
    bucket.todo(A, "2_high")
    told = library("search-queue", "PHB")
    assert (told.exit_code, "[queued 2_high]" in told.stdout) == (0, True)


def test_a_damaged_index_is_not_taken_for_an_empty_one(library, bucket):
    damaged = bucket.root / "registry" / "manifest.json"
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_text('{"version":1,"entries":{"')
    for words in (("search", "PHB"), ("lookup", "--path", "DnD/PHB.pdf"), ("search-queue", "PHB")):
        told = library(*words)
        assert told.exit_code == 1
        assert "Warning: registry/manifest.json cannot be read" in told.stderr


def test_remove_takes_the_source_the_markers_the_logs_and_the_entry(library, index, bucket):
    bucket.raw(A)
    bucket.dead(A)
    bucket.done(A)
    bucket.todo(B)
    bucket.put(f"registry/logs/{A}/error.json", {"error": "x"})
    told = library("remove", A, "--force")
    assert (told.exit_code, told.stdout) == (0, f"{A} removed.\n")
    assert bucket.all_keys() == [f"queue/todo/3_normal/{B}", f"store/out/{A}.zip"]
    assert index.gone == [A]


def test_one_that_is_being_worked_on_is_removed_by_force_alone(library, index, bucket):
    bucket.lock(A)
    told = library("remove", A, "--dry-run")
    assert (told.exit_code, "being processed" in told.stderr) == (1, True)
    assert library("remove", A, "--force").exit_code == 0
    assert bucket.all_keys() == []


def test_the_manifest_is_shown_and_its_problems_end_with_one(library, index):
    told = library("manifest", "-v")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0] == "1 document in the manifest, 0 additions not merged yet."
    assert library("manifest", "--sync").exit_code == 0
    assert library("manifest", "--sync", "--repair").exit_code == 2
    index.problems = ("registry/manifest.json cannot be read",)
    assert library("manifest").exit_code == 1


def test_lost_names_come_back_from_the_manifest(library, index, parts, bucket):
    bucket.raw(A)
    asked, damaged = [], []

    async def relabel(context, view, jobs, *, force, dry_run):
        asked.append((list(jobs), force, dry_run))
        return Labelled(looked_at=5, written=2, unknown=1, damaged=damaged)

    parts.replace(metadata, repair_metadata=relabel)
    told = library("repair-metadata")
    assert (told.exit_code, told.stdout) == (0, "2 written, 2 kept, 1 not in the manifest either.\n")
    assert library("repair-metadata", A[:8], "--force", "--dry-run").exit_code == 0
    assert asked == [([], False, False), ([A], True, True)]
    damaged.append(B)
    bad = library("repair-metadata", "--json")
    assert (bad.exit_code, json.loads(bad.stdout)["labelled"]["damaged"]) == (1, [B])


class Labelled(Struct, kw_only=True):
    looked_at: int
    written: int
    unknown: int
    damaged: list


class Kind(StrEnum):
    ENDED = "ended"
    STOPPED = "stopped"
    TROUBLE = "trouble"


def told_of(kind, **more):
    return SimpleNamespace(**{"kind": kind, "worker": "w1", "job": A, "text": "", "report": None} | more)


@pytest.fixture
def working(parts, monkeypatch):
    """A worker that is told to stop by the signal given, and by a second one while it gives its job back."""
    given = SimpleNamespace(options=None, signals=[], rules=None)

    async def work(context, options, stop, *, on_event, lookup):
        given.options, given.rules = options, context.rules
        for number in given.signals:
            os.kill(os.getpid(), number)
            await stop.wait()
            await asyncio.sleep(0)
        report = SimpleNamespace(outcome=Kind.STOPPED, error="", trouble="", seconds=61.0)
        on_event(told_of(Kind.ENDED, report=report))
        on_event(told_of(Kind.TROUBLE, text="the store is away"))

    parts.replace(loop, work=work, WorkerOptions=SimpleNamespace)
    monkeypatch.setattr(library_worker, "parse_window", lambda text: ("window", text))
    return given


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_worker_stops_on_every_signal_and_is_not_ended_by_a_second_one(library, working, number):
    working.signals = [number, number]
    told = library("worker")
    assert told.exit_code == 0, told.output
    assert f"{number.name}: stopping" in told.stderr
    assert f"{A[:12]} stopped after 1 min 1 s" in told.stderr


def test_a_worker_gets_what_was_asked_for(library, working, bucket, monkeypatch):
    bucket.put("registry/config.json", {"max_retries": 7})
    monkeypatch.setenv("BLOBFORGE_WORKER_ID", "w7")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    words = ["--run-once", "--run-window", "22:00-06:00", "--run-window", "12:00-13:00"]
    told = library("worker", *words, "--abort-outside-window", "--isolate-conversion", "--json")
    assert told.exit_code == 0
    options = working.options
    assert (options.worker, options.run_once, options.abort_outside) == ("w7", True, True)
    assert options.windows == (("window", "22:00-06:00"), ("window", "12:00-13:00"))
    assert "hush" not in options.start_compute.environment.values()
    assert working.rules.max_retries == 7
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(line["event"], line["hash"]) for line in lines] == [("ended", A), ("trouble", A)]
    monkeypatch.setenv("BLOBFORGE_LOG_LEVEL", "ERROR")
    quiet = library("worker", "--run-once")
    assert quiet.stderr == "trouble: the store is away\n"


def test_the_janitor_tells_what_it_did(library, parts, index):
    async def sweep(context, manifest, *, dry_run, worker):
        settled = [SimpleNamespace(job=A, why="failed", done=Kind.STOPPED, error="")]
        return SimpleNamespace(
            jobs=5, counts={"requeued": 1}, settled=settled, describe=lambda: "1 requeued", dry_run=dry_run
        )

    parts.replace(janitor, sweep=sweep)
    told = library("janitor", "-v")
    assert (told.exit_code, told.stdout) == (0, f"5 jobs, 1 requeued.\n{A}  failed: stopped\n")
    assert library("janitor", "--dry-run").stdout == "Dry run: 5 jobs, 1 requeued.\n"
    assert json.loads(library("janitor", "--json").stdout)["counts"] == {"requeued": 1}


def test_convert_lays_the_result_out(library, parts, tmp_path):
    (tmp_path / "book.pdf").write_bytes(b"%PDF")

    class Conversion:
        def __init__(self, _context, on_sign):
            self.on_sign = on_sign

        async def run(self, about, folder):
            self.on_sign(SimpleNamespace(stage="converting", done=1, total=2))
            if "bad" in about.original_filename:
                return SimpleNamespace(error="no text", trouble=False)
            assert (folder / "source.pdf").read_bytes() == b"%PDF"
            made = archive({"content.md": "# Book", "assets/p.png": "png", "info.json": "{}"})
            (folder / "result.zip").write_bytes(made)
            return SimpleNamespace(error="", trouble=False)

    parts.replace(conversion, Conversion=Conversion)
    told = library("convert", "book.pdf")
    assert (told.exit_code, told.stdout) == (0, "book/content.md, with 1 pictures.\n")
    assert (tmp_path / "book/assets/p.png").read_bytes() == b"png"
    assert library("convert", "book.pdf", "-o", "x").exit_code == 0
    assert (tmp_path / "x/content.md").read_text() == "# Book"
    (tmp_path / "bad.pdf").write_bytes(b"%PDF")
    failed = library("convert", "bad.pdf")
    assert (failed.exit_code, "bad.pdf: no text" in failed.stderr) == (1, True)
    assert library("convert", "none.pdf").exit_code == 2
