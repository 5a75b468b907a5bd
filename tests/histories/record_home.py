"""What is recorded of a home: batches at every kind of stand, keys, a webhook, uploads, messages.

Order matters. A run takes in whatever start messages wait in its home, so it is killed before those come that
are to be left waiting; and a webhook is tried again and again by every server, so it is added late.
"""

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from tests.histories.books import Books
from tests.histories.commands import Quire, Sender, Serving, put

CORPUS = Path(__file__).parents[1] / "documents" / "corpus"
QUEUE = "arke-preprocess-jobs"
GUARDED = {"QUIRE_SERVE_ANONYMOUS": "never", "QUIRE_WEBHOOKS_ALLOW_PRIVATE": "true"}
NOBODY_LISTENS = "http://127.0.0.1:9/in"
TIFF, IMAGE = 2, 3  # the phases of `preprocess`, by number
PART_BYTES = 10 * 2**20
# What may differ between two runs that do the same.
PASSING = {"batch_id", "started_at", "completed_at", "seconds", "spent"}
SCANS = {
    "broken/corrupt.tif": "tiff/libtiff_segfault.tif",
    "broken/empty.png": "",
    "letters/01 fax.tif": "tiff/g4_orientation_3.tif",
    "letters/02 colours.tiff": "tiff/multipage.tiff",
    "letters/03 large.tif": "tiff/g4-multi.tiff",
    "letters/04 grey.tif": "tiff/16bit.cropped.tif",
    "letters/05 white.tif": "tiff/miniswhite-1c-1b.tiff",
    "photos/10 exif.jpg": "image/invalid-exif.jpg",
    "photos/11 page.png": "image/phototest-rotated-R.png",
    "photos/14 book.pdf": "pdf/rotation.pdf",
}


class Recorder:
    """`killed_in` is the phase in which the run is killed. `facts` becomes what the tests must know."""

    def __init__(self, quire: Quire, books: Books, killed_in: int) -> None:
        self.quire = quire
        self.books = books
        self.killed_in = killed_in
        self.batches: dict[str, str] = {}
        self.facts: dict[str, Any] = {"batches": self.batches}

    def record(self) -> None:
        folder = self.quire.folder
        _make_inputs(folder)
        self.facts["expected"] = _undisturbed(Quire(folder, **self._code(), QUIRE_HOME="elsewhere"))
        self._make_keys()
        self._end_a_run_with_failures()
        self._bury_a_message()
        self.facts["hook"] = self.quire.read("webhook", "add", NOBODY_LISTENS, **GUARDED)
        self._kill_a_run()
        with self.quire.serving("--api-only", **GUARDED) as server:
            self._leave_an_upload_open(server)
            self._leave_a_message_waiting(server)
            self._until(server, lambda found: not found, "SELECT 1 FROM deliveries WHERE tries = 0")
        # Its event has not been sent to anybody yet.
        assert self.quire("batch", "priority", self.batches["open"], "high").returncode == 0
        ((self.facts["deliveries"],),) = self.books.rows("SELECT max(no) FROM deliveries")

    def _code(self) -> dict[str, str]:
        return {"code": self.quire.environment["PYTHONPATH"]}

    def _make_keys(self) -> None:
        made = {
            label: self.quire.read("key", "create", "--scope", "operate", "--label", label)
            for label in ("valid", "revoked")
        }
        self.quire.read("key", "revoke", made["revoked"]["key"]["id"])
        self.facts["keys"] = {label: one["text"] for label, one in made.items()}

    def _end_a_run_with_failures(self) -> None:
        """One file is damaged, and another one had too little time."""
        for seconds in (0.15, 0.2, 0.3, 0.4):
            hurried = {"QUIRE_PREPROCESS_IMAGE_TIMEOUT_SECONDS": str(seconds)}
            quick = {"QUIRE_RETRY_FIRST_DELAY_SECONDS": "0", "QUIRE_RETRY_LONGEST_DELAY_SECONDS": "0"}
            ran = self.quire("run", "few", "--out", "few-out", "--json", **hurried, **quick)
            report = json.loads(ran.stdout)
            if _ends(report) == {"damaged.tif": "corrupt", "good.tif": None, "huge.png": "timeout"}:
                self.batches["ended"] = report["batch_id"]
                return
        raise AssertionError(f"no time was too short for one picture alone: {_ends(report)}")

    def _bury_a_message(self) -> None:
        """The manifest of a batch is away while its start message is delivered; then it is there again."""
        with self.quire.serving("--api-only", **GUARDED) as server, self._client(server) as client:
            sender = Sender.opens(client, 1, 1)
            sender.send("/box/buried.png", _picture(301), "image/png")
            sender.close()
            self._until(server, bool, "SELECT 1 FROM messages WHERE id = ?", f"start-{sender.batch}")
        (key,) = self.books.rows("SELECT manifest_key FROM batches WHERE id = ?", sender.batch)[0]
        manifest = self.quire.folder / "home" / "blobs" / key
        away = self.quire.folder / "away"
        manifest.rename(away)
        config = self.quire.folder / "impatient.toml"
        config.write_text(f'[queues."{QUEUE}"]\nmax_retries = 0\n')
        assert self.quire("conductor", "--until-idle", "--config", config.name).returncode == 0
        away.rename(manifest)
        (letter,) = self.quire.read("queue", "dead", "list", QUEUE)["dead"]
        self.batches["buried"] = sender.batch
        self.facts["dead"] = {"id": letter["id"], "error_class": letter["error_class"]}

    def _kill_a_run(self) -> None:
        """All of its processes at once: tasks are done, one has failed, some run, others have not begun."""
        with self.quire.started("run", "in", "--out", "out", "--json", QUIRE_WORKERS="1") as running:
            # It runs for a moment at a time and is looked at while it stands still.
            while not self._amid():
                running.signal_all(signal.SIGCONT)
                assert not running.ended_within(0.02), "the run was faster: record once more"
                running.signal_all(signal.SIGSTOP)
            running.kill()
        assert self._amid()
        ((self.batches["killed"],),) = self.books.rows(
            "SELECT id FROM batches WHERE no = (SELECT max(no) FROM batches)"
        )

    def _amid(self) -> bool:
        try:
            tasks = self.books.rows(
                "SELECT t.phase, t.state FROM tasks t JOIN batches b ON b.no = t.batch_no "
                "WHERE b.stage = 'working'"
            )
        except Exception:  # noqa: BLE001 - locked for a moment
            return False
        now = [state for phase, state in tasks if phase == self.killed_in]
        failed = any(state == "failed" for _, state in tasks)
        return failed and now.count("done") >= 2 and "running" in now and "ready" in now

    def _leave_an_upload_open(self, server: Serving) -> None:
        """One file has arrived, one is announced, and of a large one the first part is there."""
        large = (self.quire.folder / "late" / "large.tif").read_bytes()
        with self._client(server) as client:
            sender = Sender.opens(client, 3, len(large))
            sender.send("/box/first.png", _picture(302), "image/png")
            second = (self.quire.folder / "late" / "second.png").read_bytes()
            sender.announce("/box/second.png", len(second), "image/png")
            answer = sender.announce("/box/large.tif", len(large), "image/tiff")
            assert len(answer["presigned_urls"]) == 2, "the limits of parts have changed"
            put(answer["presigned_urls"][0]["url"], large[: answer["part_size"]])
        self.batches["open"] = sender.batch

    def _leave_a_message_waiting(self, server: Serving) -> None:
        with self._client(server) as client:
            sender = Sender.opens(client, 1, 1)
            sender.send("/box/waiting.png", _picture(303), "image/png")
            sender.close()
        self._until(server, bool, "SELECT 1 FROM messages WHERE id = ?", f"start-{sender.batch}")
        self.batches["waiting"] = sender.batch

    def _client(self, server: Serving) -> Any:
        return server.client(self.facts["keys"]["valid"])

    def _until(self, server: Serving, good: Callable[[list[Any]], bool], query: str, *values: Any) -> None:
        for _ in range(3000):
            if good(self.books.rows(query, *values)):
                return
            assert not server.running.ended_within(0.01), "the server ended"
        raise AssertionError(f"waited in vain: {query}")


def _undisturbed(quire: Quire) -> dict[str, Any]:
    """The report of a run that nobody kills, as far as it is the same each time."""
    report = quire.read("run", "in", "--out", "undisturbed", ends=3)
    return comparable(report)


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Without what two runs that do the same may differ in."""
    kept = {name: value for name, value in report.items() if name not in PASSING}
    kept["counts"] = {name: number for name, number in report["counts"].items() if name != "from_cache"}
    kept["phases"] = [{**phase, "from_cache": None} for phase in report["phases"]]
    kept["files"] = [{**entry, "attempts": None} for entry in report["files"]]
    return kept


def _ends(report: dict[str, Any]) -> dict[str, str | None]:
    return {entry["path"]: entry["error_class"] for entry in report["files"]}


def _make_inputs(folder: Path) -> None:
    for name, source in SCANS.items():
        _write(folder / "in" / name, (CORPUS / source).read_bytes() if source else b"")
    # A worker is handed a few tasks ahead: there must be more.
    fax = (CORPUS / SCANS["letters/01 fax.tif"]).read_bytes()
    for number in range(6, 11):
        _write(folder / "in" / "letters" / f"{number:02d} more.tif", fax + bytes([number]))
    # Small files that take a while: the one the run is killed at in the last phase, and what comes after it.
    _write(folder / "in" / "photos" / "12 wide.png", _picture(7000))
    for number in (305, 306, 307):
        _write(folder / "in" / "photos" / f"13 small {number}.png", _picture(number))
    # Their bytes differ from those above: otherwise they would come from the step cache.
    _write(folder / "few" / "damaged.tif", (CORPUS / SCANS["broken/corrupt.tif"]).read_bytes() + b"\0")
    _write(folder / "few" / "good.tif", fax + b"\0")
    _write(folder / "few" / "huge.png", _picture(15000))
    _write(folder / "late" / "second.png", _picture(304))
    blank = io.BytesIO()
    Image.new("RGB", (1900, 1900), "ivory").save(blank, "TIFF")
    assert len(blank.getvalue()) > PART_BYTES
    _write(folder / "late" / "large.tif", blank.getvalue())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _picture(side: int) -> bytes:
    """A square with a stripe, which takes little room however large it is."""
    picture = Image.new("L", (side, side), 240)
    picture.paste(90, (side // 3, 0, side // 2, side))
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    return data.getvalue()
