"""Uploads in parts on this machine: a folder each under `.parts`, with a file for each part.

Files are named by number and ETag. Promise: parts and uploads outlive the process; a part is there whole or
not at all, a later one of the same number replaces it; a joined upload is a blob and nothing else. Whoever is
killed while joining leaves the parts as they were. Blocking; must not know URLs or clocks.
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
from quire.blobs.local.files import Vault
from quire.blobs.local.spool import PIECE_BYTES, Spool
from quire.blobs.local.tree import PARTS, translated
from quire.blobs.port import Stored
from quire.blobs.presigned import Part, StoredPart
from quire.blobs.presigned_rules import bad_parts, in_order
from quire.model.errors import Missing, Reject

DIGEST_LABEL = "sha256"  # in the metadata of what has landed: 64 hexadecimal digits

_RECORD = "upload"
_ID = re.compile(r"[0-9a-f]{32}")
_ETAG = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"([0-9]{5})-([0-9a-f]{32})")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Upload(Struct, frozen=True, kw_only=True):
    schema: int = 1
    key: str
    content_type: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Upload)


def etag_of(digest: str) -> str:
    return digest[:32]


class PartFiles:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._tree = vault.tree

    def begin(self, key: str, content_type: str | None) -> str:
        """Durable when it returns."""
        upload_id = secrets.token_hex(16)
        with translated("begin an upload of", key):
            spool = Spool(self._tree)
            try:
                spool.write(_encoder.encode(_Upload(key=key, content_type=content_type)))
                os.fsync(spool.descriptor)
                with self._tree.folder(f"{PARTS}/{upload_id}", make=True) as folder:
                    spool.replace(folder, _RECORD)
                    os.fsync(folder)
            finally:
                spool.discard()
        return upload_id

    def demand(self, key: str, upload_id: str) -> None:
        """Raises Missing when there is no such upload of this key."""
        with translated("find an upload of", key), self._opened(key, upload_id):
            pass

    def add(self, spool: Spool, key: str, upload_id: str, number: int, etag: str) -> None:
        """The spool becomes that part; afterwards it is gone, either way. Raises Missing."""
        try:
            with translated("store a part of", key), spool.held():
                os.fsync(spool.descriptor)
                with self._opened(key, upload_id) as (folder, record, _), _locked(record, key):
                    name = _name(number, etag)
                    spool.replace(folder, name)
                    # Two files of one number are there only when we are killed here: each has its own ETag.
                    for other in _names(folder):
                        if other.startswith(_name(number, "")) and other != name:
                            os.unlink(other, dir_fd=folder)
                    os.fsync(folder)
        finally:
            spool.discard()

    def listed(self, key: str, upload_id: str) -> list[StoredPart]:
        """Raises Missing."""
        with (
            translated("list the parts of", key),
            self._opened(key, upload_id) as (folder, record, _),
            _locked(record, key),
        ):
            named = [found for name in _names(folder) if (found := _PART.fullmatch(name))]
            # Of two files of one number, which somebody killed has left, the later counts.
            named.sort(key=lambda found: _changed_at(folder, found[0]))
            parts = {int(one[1]): StoredPart(int(one[1]), one[2], _size(folder, one[0])) for one in named}
        return [parts[number] for number in sorted(parts)]

    def join(self, key: str, upload_id: str, parts: Sequence[Part], *, max_bytes: int) -> Stored:
        """Raises Missing, Reject with code `bad_parts` or `too_large`. Whoever else changes the upload
        meanwhile is faster: nothing is stored then.
        """
        with translated("join the parts of", key), self._opened(key, upload_id) as (folder, record, upload):
            names = [_name(part.number, _checked(part.etag)) for part in in_order(parts)]
            if sum(_size(folder, name) for name in names) > max_bytes:
                raise too_large(max_bytes)
            spool = Spool(self._tree)
            try:
                labels = Labels(
                    content_type=upload.content_type, metadata={DIGEST_LABEL: _joined(spool, folder, names)}
                )
                # Before the lock, which others wait for: the disk may need seconds for it.
                os.fsync(spool.descriptor)
                with _locked(record, key):
                    for name in names:
                        _size(folder, name)
                    stored = self._vault.commit(spool, key, labels, None)
                    self._empty(folder)
            finally:
                spool.discard()
        self._tree.prune(f"{PARTS}/{upload_id}", keep=PARTS)
        return stored

    def drop(self, key: str | None, upload_id: str) -> None:
        """Whichever key it is of when that is None. May be repeated."""
        with translated("give up an upload of", key or upload_id), contextlib.suppress(Missing):
            with self._opened(key, upload_id) as (folder, record, _), _locked(record, key or upload_id):
                self._empty(folder)
            self._tree.prune(f"{PARTS}/{upload_id}", keep=PARTS)

    def sweep(self, moment: float) -> int:
        """Give up what nobody has sent a part to since that moment; returns how many uploads."""
        swept = 0
        with translated("sweep", PARTS):
            try:
                with self._tree.folder(PARTS) as parts:
                    idle = [name for name in _names(parts) if _changed_at(parts, name) < moment]
            except FileNotFoundError:
                return 0
            for name in idle:
                with contextlib.suppress(Reject):  # a damaged record is cleared away with the rest
                    self.drop(None, name)
                self._clear(name)
                swept += 1
        return swept

    def _clear(self, name: str) -> None:
        """What is left of an upload whose record is gone, or never came."""
        with contextlib.suppress(OSError):
            with self._tree.folder(f"{PARTS}/{name}") as folder:
                self._empty(folder)
            self._tree.prune(f"{PARTS}/{name}", keep=PARTS)

    @staticmethod
    def _empty(folder: int) -> None:
        # The record first, and for good: without it there is no upload, whatever else is still there.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_RECORD, dir_fd=folder)
            os.fsync(folder)
        for name in _names(folder):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def _opened(self, key: str | None, upload_id: str) -> Iterator[tuple[int, int, _Upload]]:
        """Descriptors of the folder and of the record in it, and what that says."""
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
def _locked(record: int, key: str) -> Iterator[None]:
    """Alone with the upload, which is still there. Raises Missing when it is not."""
    fcntl.flock(record, fcntl.LOCK_EX)
    try:
        if not os.fstat(record).st_nlink:
            _no_upload(key)
        yield
    finally:
        fcntl.flock(record, fcntl.LOCK_UN)


def _joined(spool: Spool, folder: int, names: Sequence[str]) -> str:
    """Copy the parts, mostly inside the kernel, and hash them meanwhile; the SHA-256 of it all."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        digest = beside.submit(_digest, folder, names)
        for name in names:
            with _part(folder, name) as reading:
                spool.append(reading)
        return digest.result()


def _digest(folder: int, names: Sequence[str]) -> str:
    hashed, buffer = hashlib.sha256(), bytearray(PIECE_BYTES // 4)
    view = memoryview(buffer)
    for name in names:
        with _part(folder, name) as reading:
            while count := os.readv(reading, [buffer]):
                hashed.update(view[:count])
    return hashed.hexdigest()


@contextlib.contextmanager
def _part(folder: int, name: str) -> Iterator[int]:
    try:
        reading = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError as error:
        raise _no_part(name) from error
    try:
        yield reading
    finally:
        os.close(reading)


def _size(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError as error:
        raise _no_part(name) from error


def _name(number: int, etag: str) -> str:
    return f"{number:05d}-{etag}"


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _checked(etag: str) -> str:
    if not _ETAG.fullmatch(etag):
        raise bad_parts("an ETag is none that a part was answered with")
    return etag


def _changed_at(folder: int, name: str) -> float:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return float("inf")


def _no_part(name: str) -> Reject:
    return bad_parts(f"part {int(name.partition('-')[0])} is not there, or has another ETag")


def _no_upload(key: str | None, cause: OSError | None = None) -> NoReturn:
    raise Missing(f"There is no upload of {key!r} by this id: it is joined or given up.") from cause


def too_large(max_bytes: int) -> Reject:
    return Reject(f"This is more than the {max_bytes} bytes that are taken here.", code="too_large")
