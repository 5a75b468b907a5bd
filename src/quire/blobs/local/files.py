"""The blocking half of the local store: each call runs in one thread and leaves one outcome on the disk.

Promise: a put without labels costs two fsyncs (file, folder), is atomic to readers, and is decided under a
lock that works between processes. Must not know: asyncio.
"""

import contextlib
import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from quire.blobs import fixity, keys
from quire.blobs.labels import Labels
from quire.blobs.local.labels import NO_LABELS, LabelFiles
from quire.blobs.local.spool import Spool, version_of
from quire.blobs.local.tree import TEMPORARY, Tree, stat_file, translate_errors, unsafe
from quire.blobs.port import BlobInfo, Condition, IfAbsent, IfVersion, SourceFile
from quire.model.errors import Missing, Stale

_TRIES = 100
_MANY = 16  # fewer are not worth threads
_THREADS = 4  # each thread's stack counts as memory of a worker that may have a limit


class BlobFiles:
    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self._labels = LabelFiles(self.tree)

    def spool(self, key: str) -> Spool:
        with translate_errors("store", key):
            return Spool(self.tree)

    def fill(self, spool: Spool, key: str, data: bytes | bytearray) -> None:
        with translate_errors("store", key), spool.lock():
            spool.write(data)

    def put(self, key: str, source: bytes | Path, labels: Labels, condition: Condition | None) -> BlobInfo:
        with translate_errors("store", key):
            if condition is not None:
                self._check_condition(key, self._find(key), condition)  # before anything is written
            spool = Spool(self.tree)
            try:
                if isinstance(source, Path):
                    spool.copy(source)
                else:
                    spool.write(source)
                return self._commit(spool, key, labels, condition)
            finally:
                spool.discard()

    def store_file(self, source: Path | SourceFile, *, owned: bool) -> tuple[str, int]:
        """Store a file under the key of its content; return digest and size. The digest is computed from the
        spooled copy, so a source that changes meanwhile cannot get a wrong name.
        """
        with translate_errors("store", source.name):
            spool = self._fill_spool(source, owned=owned)
            try:
                digest, size = spool.digest()
                key = keys.content(digest)
                present = self._find(key)
                if present is None:
                    # A concurrent writer stores the same bytes: no lock is needed, and losing is no loss.
                    with contextlib.suppress(Stale):
                        self._commit(spool, key, NO_LABELS, IfAbsent())
                elif present.st_size != size or not self._holds(key, digest):
                    # The stored copy is damaged, and here are the right bytes.
                    self._commit(spool, key, NO_LABELS, None)
                return digest, size
            finally:
                spool.discard()

    def store_files(self, sources: Sequence[Path | SourceFile], *, owned: bool) -> list[tuple[str, int]]:
        """Store files in several threads: file systems make several files durable in one turn, so that a
        book of thousands of pages costs seconds, not minutes. When one fails, later ones may be stored.
        """
        store = partial(self.store_file, owned=owned)
        if len(sources) < _MANY:
            return list(map(store, sources))
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(store, sources))

    def set_aside(self, key: str, digest: str) -> bool:
        """See `SupportsSetAside`. Under the lock of the key: nobody replaces the blob between the last look
        and the move.
        """
        folder, _, name = key.rpartition("/")
        aside = keys.damaged(digest).rpartition("/")
        with translate_errors("set aside", key):
            try:
                with self.tree.folder(folder) as at, self.tree.lock(key):
                    if stat_file(at, name) is None or self._holds(key, digest):
                        return False
                    with self.tree.folder(aside[0], make=True) as to:
                        os.rename(name, aside[2], src_dir_fd=at, dst_dir_fd=to)
                        os.fsync(to)
                    os.fsync(at)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def _holds(self, key: str, digest: str) -> bool:
        """Are the stored bytes those of the digest?"""
        try:
            descriptor = self.open(key)
        except Missing:
            return False
        try:
            return fixity.digest_of(descriptor) == digest
        finally:
            os.close(descriptor)

    def _fill_spool(self, source: Path | SourceFile, *, owned: bool) -> Spool:
        if owned and isinstance(source, Path):
            try:
                return Spool(self.tree, adopted=source)
            except FileNotFoundError as error:
                raise Missing(f"The file {source.name!r} does not exist, so it cannot be stored.") from error
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise  # on another file system it is copied
        spool = Spool(self.tree)
        try:
            spool.copy(source)
        except BaseException:
            spool.discard()
            raise
        return spool

    def commit(self, spool: Spool, key: str, labels: Labels, condition: Condition | None) -> BlobInfo:
        """End a spooled put. The spool is discarded, whether it succeeds or not."""
        try:
            with translate_errors("store", key), spool.lock():
                return self._commit(spool, key, labels, condition)
        finally:
            spool.discard()

    def _commit(self, spool: Spool, key: str, labels: Labels, condition: Condition | None) -> BlobInfo:
        state = spool.stamp()
        for _ in range(_TRIES):
            try:
                if isinstance(condition, IfAbsent):
                    return self._create(spool, key, labels, state)
                return self._replace(spool, key, labels, condition, state)
            except FileNotFoundError:
                continue  # the last blob of the folder was deleted, and the folder with it: make it again
            except FileExistsError:
                state = spool.stamp(
                    above=state.st_mtime_ns
                )  # one in a million: another write has this version
        raise FileNotFoundError(errno.ENOENT, "the folder or the temporary file vanishes again and again")

    def _create(self, spool: Spool, key: str, labels: Labels, state: os.stat_result) -> BlobInfo:
        folder, _, name = key.rpartition("/")
        version = version_of(state)
        with self.tree.folder(folder, make=True) as at:
            if labels:
                self._labels.write(key, version, labels)
            try:
                spool.link(at, name)
            except OSError as error:
                self._labels.remove(key, version)
                if not isinstance(error, FileExistsError):
                    raise
                self._check_condition(key, stat_file(at, name, to_write=True), IfAbsent(), error)
                raise FileNotFoundError from error  # it was deleted in between: try again
            os.fsync(at)
        return _blob_info(key, state, labels)

    def _replace(
        self, spool: Spool, key: str, labels: Labels, condition: IfVersion | None, state: os.stat_result
    ) -> BlobInfo:
        folder, _, name = key.rpartition("/")
        with self.tree.folder(folder, make=True) as at:
            # Unconditional writes take the lock too: otherwise one could slip in between the check and the
            # rename of a compare-and-swap and be lost silently.
            with self.tree.lock(key):
                present = stat_file(at, name, to_write=True)
                if condition is not None:
                    self._check_condition(key, present, condition)
                if present is not None and state.st_mtime_ns <= present.st_mtime_ns:
                    state = spool.stamp(above=present.st_mtime_ns)
                if labels:
                    self._labels.write(key, version_of(state), labels)
                try:
                    spool.replace(at, name)
                except OSError:
                    self._labels.remove(key, version_of(state))
                    raise
            os.fsync(at)
        if present is not None:
            self._labels.remove(key, version_of(present))
        return _blob_info(key, state, labels)

    def _check_condition(
        self, key: str, present: os.stat_result | None, condition: Condition, cause: OSError | None = None
    ) -> None:
        if isinstance(condition, IfAbsent):
            if present is not None:
                raise Stale(f"Blob {key!r} exists already.") from cause
        elif present is None:
            raise Stale(f"Blob {key!r} does not exist, so it cannot have the expected version.") from cause
        elif version_of(present) != condition.version:
            raise Stale(f"Blob {key!r} was changed by another writer: read it again, then decide.") from cause

    def head(self, key: str) -> BlobInfo:
        with translate_errors("look at", key):
            state = self._find(key)
            while state is not None:
                labels = self._labels.read(key, version_of(state))
                if labels is not None:
                    return _blob_info(key, state, labels)
                # No labels, or the blob was replaced after the stat and its labels were removed.
                again = self._find(key)
                if again is not None and version_of(again) == version_of(state):
                    return _blob_info(key, state, NO_LABELS)
                state = again
        raise missing(key)

    def open(self, key: str) -> int:
        """Open a blob for reading. The descriptor stays with this version, whatever happens to the key."""
        folder, _, name = key.rpartition("/")
        with translate_errors("read", key):
            try:
                with self.tree.folder(folder) as at:
                    if stat_file(at, name) is None:
                        raise missing(key)
                    return os.open(
                        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at
                    )
            except (FileNotFoundError, NotADirectoryError) as error:
                raise missing(key) from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise unsafe(name) from error
                raise

    def read(self, key: str) -> bytes:
        with translate_errors("read", key), os.fdopen(self.open(key), "rb") as file:
            return file.read()

    def delete(self, key: str) -> None:
        folder, _, name = key.rpartition("/")
        with translate_errors("delete", key):
            try:
                with self.tree.folder(folder) as at:
                    with self.tree.lock(key):
                        present = stat_file(at, name)
                        if present is None:
                            return
                        os.unlink(name, dir_fd=at)
                    os.fsync(at)
            except (FileNotFoundError, NotADirectoryError):
                return
            self._labels.remove(key, version_of(present))
            self.tree.prune(folder)

    def path(self, key: str) -> Path | None:
        with translate_errors("find", key):
            return self.tree.root / key if self._find(key) is not None else None

    def sweep(self, moment: float) -> int:
        """Remove files that crashed writers left before `moment`; return how many."""
        swept = 0
        with translate_errors("sweep", TEMPORARY):
            with self.tree.folder(TEMPORARY, make=True) as folder:
                for name in os.listdir(folder):  # noqa: PTH208 - a descriptor has no pathlib
                    state = stat_file(folder, name)
                    if state is not None and state.st_mtime < moment:
                        os.unlink(name, dir_fd=folder)
                        swept += 1
            for key, version in self._labels.older_than(moment):
                present = self._find(key)
                if present is None or version_of(present) != version:
                    self._labels.remove(key, version)
                    swept += 1
        return swept

    def _find(self, key: str) -> os.stat_result | None:
        folder, _, name = key.rpartition("/")
        try:
            with self.tree.folder(folder) as at:
                return stat_file(at, name)
        except (FileNotFoundError, NotADirectoryError):
            return None


def missing(key: str) -> Missing:
    return Missing(f"There is no blob {key!r}.")


def _blob_info(key: str, state: os.stat_result, labels: Labels) -> BlobInfo:
    return BlobInfo(
        key=key,
        size=state.st_size,
        version=version_of(state),
        modified_at=state.st_mtime_ns / 1e9,
        content_type=labels.content_type,
        metadata=labels.metadata,
    )
