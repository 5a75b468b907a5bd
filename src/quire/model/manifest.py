"""The manifest: a batch's file list as stored JSON, by directory. Messages carry its key, never its content.

Promise: reading takes little more memory than the bytes, however many files are listed; any bytes are either
read or refused with `bad_manifest`. The field names are those of published clients and workers; `sha256` is
an addition.
"""

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from quire.model.errors import Reject
from quire.model.files import File, folder_of

# What databases keep as an integer.
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ManifestFile(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """`processing_config` is present when it differs from the directory's; an empty one differs, too."""

    r2_key: str
    logical_path: str
    file_name: str
    file_size: _Count
    content_type: str
    cid: str | None = None
    source_file: str | None = None
    preprocessor_tags: tuple[str, ...] = ()
    processing_config: dict[str, Any] | UnsetType = UNSET
    sha256: str = ""


class ManifestDirectory(Struct, frozen=True, kw_only=True, gc=False):
    """`files` stay undecoded until they are read: a million of them must not fill the memory. They are a
    view of the manifest's bytes, not a copy. JSON has no cycles, so the collector need not look here.
    """

    directory_path: str
    file_count: _Count
    total_bytes: _Count
    processing_config: dict[str, Any] = field(default_factory=dict)
    files: Raw = field(default_factory=lambda: Raw(b"[]"))


class Manifest(Struct, frozen=True, kw_only=True):
    batch_id: str
    directories: list[ManifestDirectory]
    total_files: _Count
    total_bytes: _Count


_files_decoder = msgspec.json.Decoder(list[ManifestFile])
_manifest_decoder = msgspec.json.Decoder(Manifest)
_encoder = msgspec.json.Encoder()
# How much of a directory's files is decoded at once.
_PIECE_BYTES = 256 * 1024
# How many cuts of a piece are tried before a larger piece is taken.
_CUTS = 8
# How many files are looked at together.
_CHECKED_AT_ONCE = 1000
# Deeper than any real configuration, and far from where encoding it again would exhaust the stack.
_MAX_CONFIG_DEPTH = 32

_END_OF_OBJECT = re.compile(rb"\}(?=\s*,)")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[^/\\\x00-\x1f\x7f-\x9f]+"
_RELATIVE = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_NAME = re.compile(_SEGMENT)


def decode(data: bytes, batch_id: str) -> Manifest:
    """Raises Reject for what is not JSON, not a manifest, not this batch's, or contradicts itself in its
    totals. `files` checks the entries of files one by one, `check` all of them.
    """
    try:
        manifest = _manifest_decoder.decode(data)
    except (ValueError, RecursionError) as error:  # ValueError is msgspec's, and what is not UTF-8
        raise _bad(f"cannot be read: {error}") from error
    if manifest.batch_id != batch_id:
        raise _bad(f"belongs to batch {manifest.batch_id[:80]}")
    files_listed = sum(directory.file_count for directory in manifest.directories)
    if files_listed != manifest.total_files:
        raise _bad(f"says {manifest.total_files} files but lists {files_listed}")
    bytes_listed = sum(directory.total_bytes for directory in manifest.directories)
    if bytes_listed != manifest.total_bytes:
        raise _bad(f"says {manifest.total_bytes} bytes but lists {bytes_listed}")
    return manifest


def check(data: bytes, batch_id: str, *, prefix: str = "") -> Manifest:
    """Decode the manifest and check every entry, so that no batch starts with one that fails half-way.

    Raises Reject where `decode` and `files` do, for a path or key that could leave its folder, for a path
    that is listed twice, and for a key outside `prefix` when one is named. Equal keys are no fault: equal
    files share a content-addressed key.
    """
    manifest = decode(data, batch_id)
    if b"\\u0000" in data and _NUL.search(data):  # the regular expression alone is slow
        raise _bad("contains the character U+0000, which databases cannot store")
    folder = prefix.rstrip("/") + "/" if prefix else ""
    paths = _Paths()
    config: dict[str, Any] = {}
    for file in _plain_first(files(manifest), folder):
        if file.processing_config is not config:  # the files of a directory share one
            config = file.processing_config
            if _deeper_than(_MAX_CONFIG_DEPTH, config):
                raise _bad(
                    f"lists {file.path[:200]!r}, whose processing_config is nested more than "
                    f"{_MAX_CONFIG_DEPTH} deep"
                )
        paths.add(_relative(file.path))
    if suspects := paths.suspects():
        _refuse_repeated(manifest, suspects)
    return manifest


def files(manifest: Manifest) -> Iterator[File]:
    """Its files in order; each gets its directory's processing_config unless it has its own. Raises Reject at
    an invalid entry, and at the end of a directory whose totals are wrong.
    """
    for directory in manifest.directories:
        count = size = 0
        for entry in _entries(directory):
            count += 1
            size += entry.file_size
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
                processing_config=(
                    directory.processing_config
                    if entry.processing_config is UNSET
                    else entry.processing_config
                ),
            )
        if (count, size) != (directory.file_count, directory.total_bytes):
            raise _bad(
                f"says that {directory.directory_path[:200]!r} has {directory.file_count} files and "
                f"{directory.total_bytes} bytes but lists {count} and {size}"
            )


def _entries(directory: ManifestDirectory) -> Iterator[ManifestFile]:
    """Decodes entries piece by piece. A list of undecoded entries would be shorter code, but with entries of
    2 bytes (`0,`) it takes thirty times their size, and the manifest may come from anywhere.
    """
    inside = memoryview(directory.files)
    if inside[:1].tobytes() != b"[":
        raise _bad(f"has no list as files of {directory.directory_path[:200]!r}")
    inside = inside[1:-1]
    while inside:
        try:
            entries, length = _piece(inside)
        except (ValueError, RecursionError) as error:
            raise _bad(f"has a bad entry in {directory.directory_path[:200]!r}: {error}") from error
        yield from entries
        inside = inside[length:]


def _piece(inside: memoryview) -> tuple[list[ManifestFile], int]:
    """The next entries, and how many bytes they and the comma after them take.

    A cut behind an object may be between two entries, or inside of one: in a nested object, or in a text that
    looks like JSON. If what is before it is complete, it was between two; JSON can be read in one way only.
    """
    size = _PIECE_BYTES
    while size < len(inside):
        text = bytes(inside[:size])
        for cut in reversed(deque(_END_OF_OBJECT.finditer(text), maxlen=_CUTS)):
            try:
                entries = _files_decoder.decode(b"[" + text[: cut.end()] + b"]")
            except msgspec.ValidationError:
                raise  # an entry that was read to its end and is not one: no other cut will help
            except msgspec.DecodeError:
                continue
            return entries, text.index(b",", cut.end()) + 1
        # No object ends here. Then a long one goes on, or there is none, and a larger piece would not help.
        if text.lstrip()[:1] not in {b"{", b""}:
            raise ValueError("Expected `object`")
        size *= 2
    return _files_decoder.decode(b"[" + inside + b"]"), len(inside)


class _Paths:
    """Finds equal paths among millions with 8 bytes each: their hashes, in buckets small enough to be turned
    into a set one after the other. Different paths may share a hash, so suspects are compared again.
    """

    def __init__(self) -> None:
        self._drawers = [array("q") for _ in range(256)]

    def add(self, path: str) -> None:
        number = hash(path)
        self._drawers[number & 255].append(number)

    def suspects(self) -> set[int]:
        """The hashes that occurred more than once."""
        found: set[int] = set()
        for drawer in self._drawers:
            once = set(drawer)
            if len(once) < len(drawer):
                for number in drawer:
                    if number in once:
                        once.remove(number)
                    else:
                        found.add(number)
        return found


def _refuse_repeated(manifest: Manifest, suspects: set[int]) -> None:
    seen: set[str] = set()
    for file in files(manifest):
        path = _relative(file.path)
        if hash(path) in suspects:
            if path in seen:
                raise _bad(f"lists {file.path[:200]!r} twice")
            seen.add(path)


def _plain_first(listed: Iterator[File], folder: str) -> Iterator[File]:
    """The same files, each without a flaw. Most paths and keys are plain, which is seen of many at once; the
    others are looked at one by one. Raises Reject for the first that has a flaw.
    """
    while some := list(islice(listed, _CHECKED_AT_ONCE)):
        names_fit = all(file.path.rpartition("/")[2] == file.name for file in some)
        inside = not folder or all(file.key.startswith(folder) for file in some)
        plain = names_fit and inside and _are_plain([_relative(file.path) for file in some])
        if not (plain and _are_plain([file.key for file in some])):
            for file in some:
                if (flaw := _flaw(file, folder)) is not None:
                    raise _bad(f"lists {file.path[:200]!r}, {flaw}")
        yield from some


def _are_plain(paths: list[str]) -> bool:
    """Whether each is certainly relative, of printable characters, and its segments begin with something else
    than a dot. What is not may still be fine.
    """
    joined = "/" + "/|/".join(paths) + "/"
    return (
        joined.isprintable()
        and not any(doubtful in joined for doubtful in ("//", "/.", "\\"))
        and joined.count("|") == len(paths) - 1
    )


_RULE = "segments are not empty, not '.' or '..', and without backslashes and control characters"


def _flaw(file: File, folder: str) -> str | None:
    path = _relative(file.path)
    if not _RELATIVE.fullmatch(path):
        return f"which is not a path that can be kept: {_RULE}"
    # Mostly the end of its path, which was looked at.
    if path.rpartition("/")[2] != file.name and not _NAME.fullmatch(file.name):
        return f"whose name {file.name[:80]!r} is not that of a file"
    if not _RELATIVE.fullmatch(file.key):
        return f"whose key {file.key[:80]!r} is not one: it is relative, and its {_RULE}"
    if not file.key.startswith(folder):
        return f"whose key {file.key[:80]!r} is outside {folder[:80]!r}"
    return None


def _relative(path: str) -> str:
    """Published clients write a slash before the path, Quire does not; it is the same path."""
    return path.removeprefix("/")


def _deeper_than(depth: int, config: dict[str, Any]) -> bool:
    level: list[Any] = [config]
    for _ in range(depth):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _bad(fault: str) -> Reject:
    return Reject(f"the manifest {fault}", code="bad_manifest")


class ManifestWriter:
    """Writes a manifest in pieces, whatever its length. Nothing is buffered, so a directory's counts follow
    its files. A directory is one entry when its files come one after the other, as they do in order of
    (folder, path); in another order it is listed as often as they come back to it, which `files` reads as
    well, but published consumers may not.
    """

    def __init__(self, batch_id: str) -> None:
        self._batch_id = batch_id
        self._folder: str | None = None
        self._config: dict[str, Any] = {}
        self._count = self._size = 0  # of the present directory
        self.total_files = 0
        self.total_bytes = 0

    def begin(self) -> bytes:
        return b'{\n  "batch_id": ' + _encoder.encode(self._batch_id) + b',\n  "directories": ['

    def add(self, listed: Iterable[File]) -> bytes:
        """The next bytes of the manifest: these files."""
        out = bytearray()
        for file in listed:
            folder = folder_of(file.path)
            if folder != self._folder:
                out += self._close() + self._open(folder, file.processing_config)
            out += b",\n        " if self._count else b"\n        "
            out += self._entry(file)
            self._count += 1
            self._size += file.size
            self.total_files += 1
            self.total_bytes += file.size
        return bytes(out)

    def end(self) -> bytes:
        return (
            self._close()
            + (
                f'\n  ],\n  "total_files": {self.total_files},\n  "total_bytes": {self.total_bytes}\n}}\n'
            ).encode()
        )

    def _open(self, folder: str, config: dict[str, Any]) -> bytes:
        head = b"\n    {" if self._folder is None else b",\n    {"
        self._folder, self._config = folder, config
        self._count = self._size = 0
        return (
            head
            + b'\n      "directory_path": '
            + _encoder.encode(folder)
            + b',\n      "processing_config": '
            + _line(config)
            + b',\n      "files": ['
        )

    def _close(self) -> bytes:
        if self._folder is None:
            return b""
        counts = f'      "file_count": {self._count},\n      "total_bytes": {self._size}\n'
        return b"\n      ],\n" + counts.encode() + b"    }"

    def _entry(self, file: File) -> bytes:
        return _line(
            ManifestFile(
                r2_key=file.key,
                logical_path=file.path,
                file_name=file.name,
                file_size=file.size,
                content_type=file.content_type,
                cid=file.cid,
                source_file=file.source_file,
                preprocessor_tags=file.tags,
                processing_config=UNSET if file.processing_config == self._config else file.processing_config,
                sha256=file.digest,
            )
        )


def _line(value: object) -> bytes:
    """JSON on one line, with blanks for readability."""
    return msgspec.json.format(_encoder.encode(value), indent=0)
