"""The manifest: a batch's file list as stored JSON, by directory. Messages carry its key, never its content.

The field names are those of published clients and workers; `sha256` is ours.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from quire.model.errors import Reject
from quire.model.files import File


class ManifestFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    r2_key: str
    logical_path: str
    file_name: str
    file_size: int
    content_type: str
    cid: str | None = None
    source_file: str | None = None
    preprocessor_tags: tuple[str, ...] = ()
    processing_config: dict[str, Any] = field(default_factory=dict)
    sha256: str = ""


class ManifestDirectory(Struct, frozen=True, kw_only=True):
    """`files` stay undecoded until they are wanted: a million of them must not fill the memory."""

    directory_path: str
    file_count: int
    total_bytes: int
    processing_config: dict[str, Any] = field(default_factory=dict)
    files: list[msgspec.Raw] = field(default_factory=list)


class Manifest(Struct, frozen=True, kw_only=True):
    batch_id: str
    directories: list[ManifestDirectory]
    total_files: int
    total_bytes: int


_file_decoder = msgspec.json.Decoder(ManifestFile)
_manifest_decoder = msgspec.json.Decoder(Manifest)
_encoder = msgspec.json.Encoder()
# A folder with more files than this is written as several entries, so that memory stays bounded.
_FILES_PER_ENTRY = 5000


def decode(data: bytes, batch_id: str) -> Manifest:
    """Raises Reject for anything that is not the manifest of this batch."""
    try:
        manifest = _manifest_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Reject(f"the manifest cannot be read: {error}", code="bad_manifest") from error
    found = sum(len(directory.files) for directory in manifest.directories)
    if manifest.batch_id != batch_id:
        raise Reject(f"the manifest belongs to batch {manifest.batch_id}", code="bad_manifest")
    if found != manifest.total_files:
        raise Reject(f"the manifest says {manifest.total_files} files but lists {found}", code="bad_manifest")
    return manifest


def files(manifest: Manifest) -> Iterator[File]:
    """Its files in order; each takes its directory's processing_config unless it has its own."""
    for directory in manifest.directories:
        for raw in directory.files:
            try:
                entry = _file_decoder.decode(raw)
            except msgspec.MsgspecError as error:
                raise Reject(
                    f"the manifest has a bad entry in {directory.directory_path}: {error}",
                    code="bad_manifest",
                ) from error
            yield File(
                key=entry.r2_key,
                path=entry.logical_path,
                name=entry.file_name,
                size=entry.file_size,
                content_type=entry.content_type,
                digest=entry.sha256,
                cid=entry.cid,
                source_file=entry.source_file,
                tags=entry.preprocessor_tags,
                processing_config=entry.processing_config or directory.processing_config,
            )


def entry(file: File) -> bytes:
    """One file as the manifest holds it."""
    return _encoder.encode(
        ManifestFile(
            r2_key=file.key,
            logical_path=file.path,
            file_name=file.name,
            file_size=file.size,
            content_type=file.content_type,
            cid=file.cid,
            source_file=file.source_file,
            preprocessor_tags=file.tags,
            processing_config=file.processing_config,
            sha256=file.digest,
        )
    )


class ManifestWriter:
    """Writes a manifest in pieces, whatever its length. Files come in any order; neighbours that share a
    folder share a directory entry.
    """

    def __init__(self, batch_id: str) -> None:
        self._batch_id = batch_id
        self._folder: str | None = None
        self._members: list[File] = []
        self._written = 0
        self.total_files = 0
        self.total_bytes = 0

    def begin(self) -> bytes:
        return b'{"batch_id": ' + _encoder.encode(self._batch_id) + b',\n "directories": ['

    def add(self, listed: Iterable[File]) -> bytes:
        """The bytes of every directory that these files complete."""
        out = bytearray()
        for file in listed:
            folder = "/" + file.path.rpartition("/")[0]
            if folder != self._folder or len(self._members) >= _FILES_PER_ENTRY:
                out += self._directory()
                self._folder = folder
            self._members.append(file)
        return bytes(out)

    def end(self) -> bytes:
        rest = self._directory()
        return (
            rest + f'],\n "total_files": {self.total_files}, "total_bytes": {self.total_bytes}}}\n'.encode()
        )

    def _directory(self) -> bytes:
        members, self._members = self._members, []
        if not members:
            return b""
        size = sum(file.size for file in members)
        self.total_files += len(members)
        self.total_bytes += size
        head: dict[str, Any] = {
            "directory_path": self._folder,
            "processing_config": {},
            "file_count": len(members),
            "total_bytes": size,
        }
        separator = b",\n  " if self._written else b"\n  "
        self._written += 1
        entries = b",\n    ".join(entry(file) for file in members)
        return separator + _encoder.encode(head)[:-1] + b',\n   "files": [\n    ' + entries + b"]}"
