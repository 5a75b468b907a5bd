"""Multipart uploads in the local store: one folder each under `.parts`, with one file per part.

Files are named by number and ETag. Promise: parts and uploads outlive the process; a part is stored whole or
not at all, and a later one of the same number replaces it; a joined upload is a blob and nothing else. A
process killed while joining leaves the parts as they were. Blocking; must not know: URLs, clocks.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import NoReturn

import msgspec
from msgspec import Struct

from quire.blobs.labels import Labels
from quire.blobs.local.arrivals import too_large
from quire.blobs.local.files import BlobFiles
from quire.blobs.local.spool import PIECE_BYTES, Spool
from quire.blobs.local.tree import PARTS, translate_errors
from quire.blobs.port import BlobInfo
from quire.blobs.presigned_rules import bad_parts, sort_parts
from quire.blobs.presigned_uploads import CompletedPart, StoredPart
from quire.model.errors import Missing, Reject

DIGEST_LABEL = "sha256"  # in the metadata of uploaded blobs: 64 hexadecimal digits

_RECORD = "upload"
_ID = re.compile(r"[0-9a-f]{32}")
_ETAG = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"([0-9]{5})-([0-9a-f]{32})")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Upload(Struct, frozen=True, kw_only=True):
    schema: int = 1
    key: str
    content_type: str | None = None
    size: int | None = None  # as announced: the parts together have no more bytes


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Upload)


def etag_of(digest: str) -> str:
    return digest[:32]


class PartFiles:
    def __init__(self, files: BlobFiles) -> None:
        self._files = files
        self._tree = files.tree

    def begin(self, key: str, content_type: str | None, size: int | None = None) -> str:
        """Create an upload durably; return its id."""
        upload_id = secrets.token_hex(16)
        with translate_errors("begin an upload of", key):
            spool = Spool(self._tree)
            try:
                spool.write(_encoder.encode(_Upload(key=key, content_type=content_type, size=size)))
                os.fsync(spool.descriptor)
                with self._tree.folder(f"{PARTS}/{upload_id}", make=True) as folder:
                    spool.replace(folder, _RECORD)
                    os.fsync(folder)
            finally:
                spool.discard()
        return upload_id

    def measure(self, key: str, upload_id: str) -> tuple[int | None, dict[int, int]]:
        """The announced size, and the bytes of each part. Raises Missing when there is no such upload."""
        with (
            translate_errors("find an upload of", key),
            self._open_upload(key, upload_id) as (folder, _, upload),
        ):
            return upload.size, _measure_parts(folder)

    def add(self, spool: Spool, key: str, upload_id: str, number: int, etag: str) -> None:
        """Turn the spool into a part. The spool is discarded, whether it succeeds or not. Raises Missing, and
        Reject `too_large` when the upload would have more bytes than were announced.
        """
        try:
            with translate_errors("store a part of", key), spool.lock():
                os.fsync(spool.descriptor)
                with self._open_upload(key, upload_id) as (folder, record, upload), _lock_upload(record, key):
                    _check_room(folder, upload, number, os.fstat(spool.descriptor).st_size)
                    name = _part_name(number, etag)
                    spool.replace(folder, name)
                    # A kill at this point leaves two files of one number, each with its own ETag.
                    for other in _list_names(folder):
                        if other.startswith(_part_name(number, "")) and other != name:
                            os.unlink(other, dir_fd=folder)
                    os.fsync(folder)
        finally:
            spool.discard()

    def list_parts(self, key: str, upload_id: str) -> list[StoredPart]:
        """Raises Missing."""
        with (
            translate_errors("list the parts of", key),
            self._open_upload(key, upload_id) as (folder, record, _),
            _lock_upload(record, key),
        ):
            named = [found for name in _list_names(folder) if (found := _PART.fullmatch(name))]
            # A killed process may have left two files of one number: the later counts.
            named.sort(key=lambda found: _changed_at(folder, found[0]))
            parts = {
                int(one[1]): StoredPart(int(one[1]), one[2], _part_size(folder, one[0])) for one in named
            }
        return [parts[number] for number in sorted(parts)]

    def join(self, key: str, upload_id: str, parts: Sequence[CompletedPart], *, max_bytes: int) -> BlobInfo:
        """Join parts to a blob. Raises Missing, Reject with code `bad_parts` or `too_large`. When the upload
        changes meanwhile, nothing is stored.
        """
        with (
            translate_errors("join the parts of", key),
            self._open_upload(key, upload_id) as (folder, record, upload),
        ):
            names = [_part_name(part.number, _check_etag(part.etag)) for part in sort_parts(parts)]
            most = max_bytes if upload.size is None else min(max_bytes, upload.size)
            if sum(_part_size(folder, name) for name in names) > most:
                raise too_large(most)
            spool = Spool(self._tree)
            try:
                labels = Labels(
                    content_type=upload.content_type,
                    metadata={DIGEST_LABEL: _copy_parts(spool, folder, names)},
                )
                # Before the lock: the disk may take seconds, and other callers wait for the lock.
                os.fsync(spool.descriptor)
                with _lock_upload(record, key):
                    for name in names:
                        _part_size(folder, name)
                    stored = self._files.commit(spool, key, labels, None)
                    self._remove_files(folder)
            finally:
                spool.discard()
        self._tree.prune(f"{PARTS}/{upload_id}", keep=PARTS)
        return stored

    def drop(self, key: str | None, upload_id: str) -> None:
        """Remove an upload and its parts; with `key` None whatever its key is. May be repeated."""
        with translate_errors("abort an upload of", key or upload_id), contextlib.suppress(Missing):
            with (
                self._open_upload(key, upload_id) as (folder, record, _),
                _lock_upload(record, key or upload_id),
            ):
                self._remove_files(folder)
            self._tree.prune(f"{PARTS}/{upload_id}", keep=PARTS)

    def sweep(self, moment: float) -> int:
        """Remove uploads that received no part since `moment`; return how many."""
        swept = 0
        with translate_errors("sweep", PARTS):
            try:
                with self._tree.folder(PARTS) as parts:
                    idle = [name for name in _list_names(parts) if _changed_at(parts, name) < moment]
            except FileNotFoundError:
                return 0
            for name in idle:
                with contextlib.suppress(Reject):  # a damaged record is removed with the rest
                    self.drop(None, name)
                self._remove_leftovers(name)
                swept += 1
        return swept

    def _remove_leftovers(self, name: str) -> None:
        """Remove the folder of an upload whose record is missing."""
        with contextlib.suppress(OSError):
            with self._tree.folder(f"{PARTS}/{name}") as folder:
                self._remove_files(folder)
            self._tree.prune(f"{PARTS}/{name}", keep=PARTS)

    @staticmethod
    def _remove_files(folder: int) -> None:
        # The record first, durably: without it there is no upload, whatever files are left.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_RECORD, dir_fd=folder)
            os.fsync(folder)
        for name in _list_names(folder):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def _open_upload(self, key: str | None, upload_id: str) -> Iterator[tuple[int, int, _Upload]]:
        """Open an upload: descriptors of its folder and of its record, and the decoded record."""
        with contextlib.ExitStack() as closing:
            try:
                if not _ID.fullmatch(upload_id):
                    _no_upload(key)
                folder = closing.enter_context(self._tree.folder(f"{PARTS}/{upload_id}"))
                record = os.open(_RECORD, _READ, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError) as error:
                _no_upload(key, error)
            closing.callback(os.close, record)
            upload = _read(record, upload_id)
            if key is not None and upload.key != key:
                _no_upload(key)
            yield folder, record, upload


def _read(record: int, upload_id: str) -> _Upload:
    try:
        return _decoder.decode(os.pread(record, PIECE_BYTES, 0))
    except msgspec.DecodeError as error:
        raise Reject(f"The record of upload {upload_id} is damaged: {error}", code="corrupt") from error


@contextlib.contextmanager
def _lock_upload(record: int, key: str) -> Iterator[None]:
    """Lock the upload. Raises Missing when it has ended meanwhile."""
    fcntl.flock(record, fcntl.LOCK_EX)
    try:
        if not os.fstat(record).st_nlink:
            _no_upload(key)
        yield
    finally:
        fcntl.flock(record, fcntl.LOCK_UN)


def _copy_parts(spool: Spool, folder: int, names: Sequence[str]) -> str:
    """Copy the parts, mostly inside the kernel, and hash them in another thread; return the SHA-256."""
    with concurrent.futures.ThreadPoolExecutor(1) as hasher:
        digest = hasher.submit(_hash_parts, folder, names)
        for name in names:
            with _open_part(folder, name) as reading:
                spool.append(reading)
        return digest.result()


def _hash_parts(folder: int, names: Sequence[str]) -> str:
    hashed, buffer = hashlib.sha256(), bytearray(PIECE_BYTES // 4)
    view = memoryview(buffer)
    for name in names:
        with _open_part(folder, name) as reading:
            while count := os.readv(reading, [buffer]):
                hashed.update(view[:count])
    return hashed.hexdigest()


@contextlib.contextmanager
def _open_part(folder: int, name: str) -> Iterator[int]:
    try:
        reading = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError as error:
        raise _no_part(name) from error
    try:
        yield reading
    finally:
        os.close(reading)


def _part_size(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError as error:
        raise _no_part(name) from error


def _measure_parts(folder: int) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for name in _list_names(folder):
        if found := _PART.fullmatch(name):
            number = int(found[1])
            with contextlib.suppress(Reject):  # replaced since its name was read
                # Of two files of one number, which a killed process may have left, only one will count.
                sizes[number] = max(sizes.get(number, 0), _part_size(folder, name))
    return sizes


def _check_room(folder: int, upload: _Upload, number: int, size: int) -> None:
    if upload.size is None:
        return
    others = sum(stored for other, stored in _measure_parts(folder).items() if other != number)
    if others + size > upload.size:
        raise too_large(max(0, upload.size - others))


def _part_name(number: int, etag: str) -> str:
    return f"{number:05d}-{etag}"


def _list_names(folder: int) -> list[str]:
    return os.listdir(folder)


def _check_etag(etag: str) -> str:
    if not _ETAG.fullmatch(etag):
        raise bad_parts("an ETag is not one that was returned for a part")
    return etag


def _changed_at(folder: int, name: str) -> float:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return float("inf")


def _no_part(name: str) -> Reject:
    return bad_parts(f"part {int(name.partition('-')[0])} is missing or has another ETag")


def _no_upload(key: str | None, cause: OSError | None = None) -> NoReturn:
    raise Missing(f"There is no upload of {key!r} with this id: it was completed or aborted.") from cause
