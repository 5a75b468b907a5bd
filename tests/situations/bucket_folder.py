"""A bucket in a folder, filled as the published tools would have left it."""

import asyncio
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quire.blobs.local import LocalBlobs

WORKER = "9f1c02aa77d3"


def hash_of(text: str) -> str:
    """The hash of a document with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def archive(members: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, body in members.items():
            target.writestr(name, body)
    return buffer.getvalue()


class Bucket:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "pdf"
        self.root.mkdir(parents=True)
        self.address = f"file://{folder}"

    def put(self, key: str, body: object = b"") -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())

    def raw(self, job: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a PDF with decoded metadata, if any."""
        blobs = LocalBlobs(self.root)
        asyncio.run(blobs.put(f"store/raw/{job}.pdf", b"%PDF-1.4", metadata=metadata or {}))

    def todo(self, job: str, tier: str = "3_normal", body: object = b"") -> None:
        self.put(f"queue/todo/{tier}/{job}", body)

    def lock(self, job: str, **more: object) -> None:
        body: dict[str, object] = {
            "worker": WORKER,
            "started": 1770110000000,
            "last_heartbeat": 1770110060000,
            "priority": "2_high",
            "retries": 1,
            "progress": {
                "stage": "converting",
                "page_count": 310,
                "original_filename": "Rules.pdf",
                "marker": {"tqdm_stage": "Recognizing layout", "current": 4, "total": 40, "percent": 10.0},
            },
        }
        self.put(f"queue/processing/{job}", body | more)

    def failed(self, job: str, **more: object) -> None:
        """The time is local, with a Z all the same; there is no priority."""
        body: dict[str, object] = {
            "error": "out of memory",
            "worker": WORKER,
            "failed_at": "2026-02-03T11:30:00Z",
        }
        self.put(f"queue/failed/{job}", body | {"timestamp": 1770110100000, "retries": 1} | more)

    def dead(self, job: str, **more: object) -> None:
        body: dict[str, object] = {
            "error": "worker restarted",
            "moved_to_dead_at": "2026-02-03T11:31:00Z",
            "total_retries": 4,
            "reason": "exceeded_max_retries",
        }
        self.put(f"queue/dead/{job}", body | more)

    def done(self, job: str, members: Mapping[str, str | bytes] | None = None) -> None:
        self.put(f"store/out/{job}.zip", archive(members or {"content.md": "# One\n\ntwo\n"}))

    def all_keys(self) -> list[str]:
        own = {".tmp", ".meta", ".locks"}
        files = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return sorted(str(path) for path in files if path.parts[0] not in own)

    def body(self, key: str) -> Any:
        return json.loads((self.root / key).read_bytes())
