"""The state that `quire upload` keeps between two runs of the same command: which batch it belongs to.

Promise: the file is written whole, survives a power cut and is readable by its owner alone. A file that
cannot be read counts as absent.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from quire.tools.shares import this_machine


class UploadState(Struct, frozen=True, kw_only=True):
    """`asked` is a digest of the batch's attributes, `body` of the request that opens it. Without `batch_id`
    that request may or may not have arrived. `told`: the end was reported to the user, nothing is left to do.
    """

    schema: Literal[1] = 1
    url: str
    folder: str
    asked: str
    body: str
    idempotency_key: str
    opened_at: float
    batch_id: str | None = None
    told: bool = False


class UploadStateFile:
    """One for each folder and server."""

    def __init__(self, home: Path, folder: Path, url: str) -> None:
        self.key = compute_upload_key(folder, url)
        self.path = home / "uploads" / f"{self.key}.json"

    def read(self) -> UploadState | None:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=UploadState)
        except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError, UnicodeError):
            return None

    def write(self, state: UploadState) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with suppress(FileNotFoundError):
            part.unlink()
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(descriptor)
        part.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def compute_upload_key(folder: Path, url: str) -> str:
    asked = f"{this_machine().resolve(folder)}\0{url.rstrip('/')}"
    return hashlib.sha256(asked.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def compute_digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
