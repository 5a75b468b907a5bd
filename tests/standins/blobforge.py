"""A stand-in for the published tools of the bucket library, built from the contract and with their habits.

It reads and writes a bucket exactly as they do: no state objects, no conditions where they have none, their
way of counting, a todo marker that stays when a job fails. Tests let it work beside ours. Blocking. Must
not know: anything of `quire.library.protocol`.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

TIERS = ("1_critical", "2_high", "3_normal", "4_low", "5_background")
PLAIN, JSON = "binary/octet-stream", "application/json"
LISTED = 1000  # published tools never ask for a second page


class BucketClient:
    """The few requests that the published tools make."""

    def __init__(self, store: S3Store, prefix: str = "pdf/") -> None:
        self._store = store
        self._prefix = prefix

    def put(self, key: str, body: bytes, kind: str = JSON, **metadata: str) -> None:
        attributes: Any = {
            "Content-Type": kind,
            **{name.replace("_", "-"): text for name, text in metadata.items()},
        }
        self._store.put(self._prefix + key, body, attributes=attributes)

    def create(self, key: str, body: bytes) -> bool:
        try:
            self._store.put(self._prefix + key, body, mode="create", attributes={"Content-Type": JSON})
        except AlreadyExistsError:
            return False
        return True

    def swap(self, key: str, body: bytes, etag: str) -> bool:
        try:
            self._store.put(self._prefix + key, body, mode={"e_tag": etag}, attributes={"Content-Type": JSON})
        except (PreconditionError, FileNotFoundError):
            return False
        return True

    def get(self, key: str) -> bytes | None:
        try:
            return bytes(self._store.get(self._prefix + key).bytes())
        except FileNotFoundError:
            return None

    def tagged(self, key: str) -> tuple[bytes, str] | None:
        try:
            found = self._store.get(self._prefix + key)
            return bytes(found.bytes()), str(found.meta["e_tag"])
        except FileNotFoundError:
            return None

    def metadata(self, key: str) -> dict[str, str]:
        """Percent-decoded: what is plain decodes to itself."""
        said = self._store.get(self._prefix + key).attributes
        return {str(name): unquote(str(text)) for name, text in said.items()}

    def kind(self, key: str) -> str:
        return str(self._store.get(self._prefix + key).attributes.get("Content-Type", ""))

    def has(self, key: str) -> bool:
        try:
            self._store.head(self._prefix + key)
        except FileNotFoundError:
            return False
        return True

    def delete(self, key: str) -> None:
        self._store.delete(self._prefix + key)

    def names(self, folder: str) -> list[str]:
        """What follows the folder, in one page."""
        start = self._prefix + folder + "/"
        for page in self._store.list(start, chunk_size=LISTED):
            return [str(one["path"]).removeprefix(start) for one in page]
        return []

    def body(self, key: str) -> dict[str, Any]:
        """An empty or broken body counts as an empty object."""
        try:
            said = json.loads(self.get(key) or b"{}")
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}


class Blobforge:
    """One machine with the published tools. `now` is in seconds; stamps are local time, with a Z."""

    def __init__(
        self,
        bucket: BucketClient,
        now: Callable[[], float],
        *,
        worker: str = "9f1c02aa77d3",
        max_retries: int = 3,
    ) -> None:
        self.bucket = bucket
        self.worker = worker
        self._now = now
        self._max_retries = max_retries

    def ingest(self, folder: Path, tier: str = "3_normal") -> list[str]:
        """Hashes of what was queued."""
        queued: list[str] = []
        entries: dict[str, Any] = {}
        for path in sorted(folder.rglob("*.pdf")):
            body = path.read_bytes()
            job = hashlib.sha256(body).hexdigest()
            relative = path.relative_to(folder)
            tags = [*relative.parts[:-1], path.stem]
            entries[job] = {
                "paths": [str(relative)],
                "size": len(body),
                "tags": tags,
                "ingested_at": "2026-02-03T11:00:00Z",
                "source": folder.name,
            }
            if self.status(job)[0] not in {"RAW", "UNKNOWN"}:
                continue
            if not self.bucket.has(f"store/raw/{job}.pdf"):
                self.bucket.put(
                    f"store/raw/{job}.pdf",
                    body,
                    PLAIN,
                    original_name=quote(path.name, safe=""),
                    tags=quote(json.dumps(tags), safe=""),
                    size=str(len(body)),
                )
            self.bucket.put(f"queue/todo/{tier}/{job}", b"", PLAIN)
            queued.append(job)
        self._index(entries)
        return queued

    def _index(self, entries: dict[str, Any]) -> None:
        for _ in range(10):
            found = self.bucket.tagged("registry/manifest.json")
            if found is None:
                body = {"version": 1, "updated_at": "2026-02-03T11:00:00Z", "entries": entries}
                if self.bucket.create("registry/manifest.json", json.dumps(body).encode()):
                    return
                continue
            whole = json.loads(found[0])
            for job, entry in entries.items():
                whole["entries"].setdefault(job, entry)  # a known hash does not get its new path
            if self.bucket.swap("registry/manifest.json", json.dumps(whole).encode(), found[1]):
                return

    def acquire(self) -> str | None:
        for tier in TIERS:
            for job in self.bucket.names(f"queue/todo/{tier}")[:50]:
                if self.bucket.has(f"queue/dead/{job}"):
                    continue
                if not self.bucket.create(f"queue/processing/{job}", self._lock(tier, 0)):
                    continue
                retries = self.bucket.body(f"queue/todo/{tier}/{job}").get("retries", 0)
                self.bucket.put(f"queue/processing/{job}", self._lock(tier, retries))
                return job
        return None

    def _lock(self, tier: str, retries: int) -> bytes:
        now = round(self._now() * 1000)
        said: dict[str, Any] = {"worker": self.worker, "started": now, "last_heartbeat": now}
        return json.dumps(said | {"priority": tier, "retries": retries}).encode()

    def beat(self, job: str) -> None:
        """Overwrites the lock without a condition, whichever worker has it."""
        said = self.bucket.body(f"queue/processing/{job}")
        said |= {"last_heartbeat": round(self._now() * 1000), "progress": {"stage": "converting"}}
        self.bucket.put(f"queue/processing/{job}", json.dumps(said).encode())

    def complete(self, job: str, text: str) -> None:
        told = self.bucket.metadata(f"store/raw/{job}.pdf")
        info = {
            "hash": job,
            "converted_at": "2026-02-03T11:30:00Z",
            "worker_id": self.worker,
            "original_filename": told.get("original-name", "unknown.pdf"),
            "tags": json.loads(told.get("tags", "[]")),
            "size_bytes": told.get("size", "0"),
            "marker_meta": {},
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("content.md", text)
            archive.writestr("assets/p1.png", b"png")
            archive.writestr("info.json", json.dumps(info))
        self.bucket.put(f"store/out/{job}.zip", buffer.getvalue(), "application/zip")
        for tier in TIERS:
            self.bucket.delete(f"queue/todo/{tier}/{job}")
        self.bucket.delete(f"queue/failed/{job}")
        self.bucket.delete(f"queue/processing/{job}")

    def fail(self, job: str, error: str) -> None:
        """A dead job keeps its lock; any other keeps its todo marker."""
        retries = self.bucket.body(f"queue/processing/{job}").get("retries", 0)
        if retries >= self._max_retries:
            self._mark_dead(job, error, retries)
            for tier in TIERS:
                self.bucket.delete(f"queue/todo/{tier}/{job}")
            return
        said: dict[str, Any] = {"error": error, "worker": self.worker, "failed_at": "2026-02-03T11:30:00Z"}
        said |= {"timestamp": round(self._now() * 1000), "retries": retries}
        self.bucket.put(f"queue/failed/{job}", json.dumps(said).encode())
        self.bucket.delete(f"queue/processing/{job}")

    def janitor(self, stale_seconds: float = 900.0) -> list[str]:
        """What it moved."""
        moved = []
        for job in self.bucket.names("queue/processing"):
            said = self.bucket.body(f"queue/processing/{job}")
            if self._now() - said.get("last_heartbeat", 0) / 1000 > stale_seconds:
                tier = said.get("priority", "3_normal")
                self._requeue(job, said.get("retries", 0) + 1, tier, "stale_processing", "processing")
                moved.append(job)
        for job in self.bucket.names("queue/failed"):
            said = self.bucket.body(f"queue/failed/{job}")
            tier = said.get("priority", "3_normal")
            self._requeue(job, said.get("retries", 0) + 1, tier, "failed_queue", "failed")
            moved.append(job)
        return moved

    def _requeue(self, job: str, retries: int, tier: str, reason: str, folder: str) -> None:
        error = self.bucket.body(f"queue/{folder}/{job}").get("error", "stale")
        if retries > self._max_retries:
            self._mark_dead(job, error, retries)
        else:
            said: dict[str, Any] = {
                "retries": retries,
                "queued_at": round(self._now() * 1000),
                "recovered_from": reason,
            }
            self.bucket.put(f"queue/todo/{tier}/{job}", json.dumps(said | {"last_error": error}).encode())
        self.bucket.delete(f"queue/{folder}/{job}")

    def _mark_dead(self, job: str, error: str, retries: int) -> None:
        said: dict[str, Any] = {
            "error": error,
            "moved_to_dead_at": "2026-02-03T11:31:00Z",
            "total_retries": retries,
        }
        self.bucket.put(f"queue/dead/{job}", json.dumps(said | {"reason": "exceeded_max_retries"}).encode())

    def retry(self, job: str, tier: str = "3_normal", *, reset: bool = False) -> int:
        """The exit code. Its marker is there before the old one goes; a todo marker that a failed job kept
        makes it "already queued".
        """
        if self.bucket.has(f"store/out/{job}.zip") or self._tier(job):
            return 1
        if self.bucket.has(f"queue/processing/{job}"):
            return 1
        source = next((word for word in ("dead", "failed") if self.bucket.has(f"queue/{word}/{job}")), "")
        if not source and not self.bucket.has(f"store/raw/{job}.pdf"):
            return 1
        there = self.bucket.body(f"queue/{source}/{job}") if source else {}
        said = {
            "retries": 0 if reset else there.get("retries", there.get("total_retries", 0)),
            "queued_at": round(self._now() * 1000),
            "recovered_from": f"manual_retry_{'dead-letter' if source == 'dead' else source or 'raw'}",
            "previous_error": there.get("error"),
        }
        self.bucket.put(f"queue/todo/{tier}/{job}", json.dumps(said).encode())
        if source:
            self.bucket.delete(f"queue/{source}/{job}")
        return 0

    def reprioritize(self, job: str, tier: str) -> int:
        """The exit code. Copies the marker, whatever is in it, and deletes the original."""
        places = (f"queue/processing/{job}", f"store/out/{job}.zip", f"queue/dead/{job}")
        there = "" if any(self.bucket.has(key) for key in places) else self._tier(job)
        if not there:
            return 1
        if there != tier:
            self.bucket.put(f"queue/todo/{tier}/{job}", self.bucket.get(f"queue/todo/{there}/{job}") or b"")
            self.bucket.delete(f"queue/todo/{there}/{job}")
        return 0

    def _tier(self, job: str) -> str:
        return next((tier for tier in TIERS if self.bucket.has(f"queue/todo/{tier}/{job}")), "")

    def status(self, job: str) -> tuple[str, dict[str, Any]]:
        """In their order of precedence, with the body of the marker."""
        if self.bucket.has(f"store/out/{job}.zip"):
            return "DONE", {}
        for word in ("dead", "failed", "processing"):
            if self.bucket.has(f"queue/{word}/{job}"):
                return word.upper(), self.bucket.body(f"queue/{word}/{job}")
        for tier in TIERS:
            if self.bucket.has(f"queue/todo/{tier}/{job}"):
                return "QUEUED", {"priority": tier, **self.bucket.body(f"queue/todo/{tier}/{job}")}
        return ("RAW", {}) if self.bucket.has(f"store/raw/{job}.pdf") else ("UNKNOWN", {})

    def hydrate(self, folder: Path) -> list[Path]:
        """The Markdown files that it wrote."""
        return list(self._hydrated(folder))

    def _hydrated(self, folder: Path) -> Iterator[Path]:
        for path in sorted(folder.rglob("*.pdf")):
            job = hashlib.sha256(path.read_bytes()).hexdigest()
            body = self.bucket.get(f"store/out/{job}.zip")
            if body is None:
                continue
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                target = path.with_suffix(".md")
                target.write_bytes(archive.read("content.md"))
            yield target
