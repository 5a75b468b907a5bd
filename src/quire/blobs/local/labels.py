"""Content type and metadata in the local store: one small file per version of a blob, under `.meta`.

Promise: a label file is durable before its version of the blob is visible and belongs to that version alone,
so bytes and labels change together. Blobs without labels have no such file. Blocking; must not know:
conditions.
"""

import contextlib
import os
from collections.abc import Iterator

import msgspec

from quire.blobs.labels import Labels
from quire.blobs.local.tree import LABELS, Tree
from quire.model.errors import Reject

NO_LABELS = Labels()

_SUFFIX = ".json"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Labels)


class LabelFiles:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def write(self, key: str, version: str, labels: Labels) -> None:
        """Write labels durably. Raises FileExistsError when another write has the same version."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._tree.folder(f"{LABELS}/{key}", make=True) as folder:
            descriptor = os.open(version + _SUFFIX, flags, 0o644, dir_fd=folder)
            try:
                os.write(descriptor, _encoder.encode(labels))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.fsync(folder)

    def read(self, key: str, version: str) -> Labels | None:
        """Read labels. None: this version has none, or was replaced meanwhile; stat the blob again."""
        try:
            with self._tree.folder(f"{LABELS}/{key}") as folder:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(version + _SUFFIX, flags, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            text = file.read()
        try:
            return _decoder.decode(text)
        except msgspec.DecodeError as error:
            raise Reject(f"The labels of blob {key!r} are damaged: {error}", code="corrupt") from error

    def remove(self, key: str, version: str) -> None:
        """Remove labels. May be repeated. Not durable: `sweep` removes label files without a blob."""
        path = f"{LABELS}/{key}"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with self._tree.folder(path) as folder:
                os.unlink(version + _SUFFIX, dir_fd=folder)
            self._tree.prune(path, keep=LABELS)

    def older_than(self, moment: float) -> Iterator[tuple[str, str]]:
        """Key and version of label files that have not changed since `moment`."""
        for folder, _, names, descriptor in os.fwalk(self._tree.root / LABELS, follow_symlinks=False):
            key = os.path.relpath(folder, self._tree.root / LABELS)
            for name in names:
                if name.endswith(_SUFFIX) and _changed_at(name, descriptor) < moment:
                    yield key, name.removesuffix(_SUFFIX)


def _changed_at(name: str, folder: int) -> float:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return float("inf")
