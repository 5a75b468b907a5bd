"""One order while it runs: its folder, its input files, its meter.

Promise: everything that the order writes to the disk lies in folders that `discard` removes, under names that
no document chose. Must not know: what the step does with its input.
"""

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import Any, NamedTuple, TypeVar

from quire.blobs import fixity
from quire.blobs.checked_reads import find_digest
from quire.blobs.port import Blobs
from quire.compute.pool.members import read_members
from quire.compute.pool.meter import OrderMeter
from quire.compute.pool.values import load_value
from quire.model.errors import DamagedBlob
from quire.model.files import File
from quire.model.step import Step, StepInput
from quire.model.work import MemberFile, Order, StepCall, Value

T = TypeVar("T")
# Another file system, one without links, one link too many, or links to files of other users forbidden.
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


class WorkerStorage:
    """Shared by all orders of a worker: the store, the scratch folder, and a thread for the store."""

    def __init__(self, blobs: Blobs, scratch: Path) -> None:
        self.blobs = blobs
        self.scratch = scratch
        self.lock = threading.Lock()  # guards the fetched files of all orders
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def background(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def make_folder(self) -> Path:
        return Path(mkdtemp(dir=self.scratch))


class SandboxPlace(NamedTuple):
    """What a step in a sandbox sees: files are laid out in `inputs`, which it reads, and it writes in
    `outputs`.
    """

    inputs: Path
    outputs: Path


class OrderRun:
    # Defaults of the class, as in the meter: an order that fetches nothing does not pay for them.
    store_error: BaseException | None = None  # the last error of `fetch`
    _copies_folder: Path | None = None
    _fetched: dict[str, "Future[Path]"] | None = None
    _place: "SandboxPlace | None" = None

    def __init__(
        self,
        call: StepCall,
        order: Order,
        times: tuple[float, float],
        meter: OrderMeter,
        storage: WorkerStorage,
    ) -> None:
        self.call = call
        self.order = order
        self.started_at, self.began = times
        self.meter = meter
        self.folder = storage.scratch
        self._storage = storage

    def confine(self, place: SandboxPlace) -> None:
        """The step runs in a sandbox: lay out its input there. To be called before the input is built."""
        self._place = place

    def needs_store(self, step: Step) -> bool:
        """Is anything of the input in the store?"""
        values = self.order.values
        return step.needs_source or self.call.unit != "file" or any(one.digest for one in values.values())

    def build_bare_input(self) -> StepInput:
        """The input of a step that works from the record alone: no folder is made, no bytes are fetched."""
        values = {name: value.data for name, value in self.order.values.items()}
        return self._build_input(self._storage.scratch, (), values)

    def build_input(self, step: Step) -> StepInput:
        """The input with its files. Raises what the store raises, or Reject for a bad list of members."""
        self.folder = self._make_folder()
        source = self._storage.scratch
        members: tuple[MemberFile, ...] = ()
        if self.call.unit != "file":
            source = self._start_fetch(self.order.file).result()
            members = read_members(source, self.order.file)
        elif step.needs_source:
            source = self.fetch(self.order.file)
        values = {name: self.resolve(value) for name, value in self.order.values.items()}
        return self._build_input(source, members, values)

    async def prepare_input(self, step: Step) -> StepInput:
        """The same, without waiting in a thread; runs on the loop of the store."""
        self.folder = self._storage.make_folder()
        source = self._storage.scratch
        members: tuple[MemberFile, ...] = ()
        if self.call.unit != "file":
            source = await asyncio.wrap_future(self._start_fetch(self.order.file))
            members = read_members(source, self.order.file)
        elif step.needs_source:
            source = await asyncio.wrap_future(self._begin_fetch(self.order.file))
        blobs = self._storage.blobs
        values = {name: await load_value(blobs, value) for name, value in self.order.values.items()}
        return self._build_input(source, members, values)

    def fetch(self, file: File) -> Path:
        """See `StepInput.fetch`."""
        try:
            return self._begin_fetch(file).result()
        except Exception as error:
            with self._storage.lock:
                if self._fetched is not None:
                    self._fetched.pop(file.key, None)  # a step may try again
            self.store_error = error
            raise

    def resolve(self, value: Value) -> Any:
        """See `StepInput.resolve`."""
        if not value.digest:
            return value.data
        try:
            return self._storage.background(load_value(self._storage.blobs, value)).result()
        except Exception as error:
            self.store_error = error
            raise

    def is_input_file(self, path: Path) -> bool:
        """Is this one of the input's files? A step must not return those."""
        with self._storage.lock:
            fetched = list((self._fetched or {}).values())
        finished = [done for done in fetched if done.done() and done.exception() is None]
        return any(done.result() == path for done in finished)

    def discard(self) -> None:
        # By identity: comparing two paths takes longer than a step that does nothing.
        if self.folder is not self._storage.scratch:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._copies_folder is not None:
            shutil.rmtree(self._copies_folder, ignore_errors=True)

    def _build_input(
        self, source: Path, members: tuple[MemberFile, ...], values: dict[str, Any]
    ) -> StepInput:
        return StepInput(
            file=self.order.file,
            source=source,
            folder=self.folder,
            options=self.call.options,
            members=members,
            earlier=self.order.earlier,
            values=values,
            fetch=self.fetch,
            resolve=self.resolve,
            meter=self.meter,
            task=self.order.task,
        )

    def _begin_fetch(self, file: File) -> "Future[Path]":
        """Fetch a file unless that has begun. Its bytes count once, before the file is there to be read."""
        with self._storage.lock:
            fetched = self._fetched = self._fetched or {}
            fetching = fetched.get(file.key)
            if fetching is None:
                fetching = fetched[file.key] = self._start_fetch(file, counted=True)
        return fetching

    def _start_fetch(self, file: File, *, counted: bool = False) -> "Future[Path]":
        """Begin to fetch: the store's own file where there is one, otherwise a copy in the order's folder.
        Its bytes are compared with the file's digest where that is known; the result raises DamagedBlob.
        """
        there: Future[Path] = Future()
        try:
            local = self._storage.blobs.local_path(file.key)
            if local is None:
                return self._storage.background(self._download(file, self._folder_for_copies(), counted))
            if file.digest:
                check_stored_file(self._storage.blobs, local, file)
            if counted:
                self.meter.bytes_in += local.stat().st_size
            there.set_result(local if self._place is None else self._lay_out(local, file))
        except Exception as error:  # noqa: BLE001 - raised again by `result`
            there.set_exception(error)
        return there

    async def _download(self, source: File, folder: Path, counted: bool) -> Path:
        handle, name = mkstemp(prefix=".input-", dir=folder)
        size = 0
        with os.fdopen(handle, "wb") as file:
            pieces = self._storage.blobs.stream(source.key)
            if digest := find_digest(source.key, source.digest):
                pieces = fixity.check_pieces(pieces, digest, source.key)
            try:
                async for piece in pieces:
                    size += file.write(piece)
                    self.meter.show_life()  # a large file on a slow connection is no stalled step
            except DamagedBlob:
                await fixity.set_aside(self._storage.blobs, source.key, digest)
                raise
        if counted:
            with self._storage.lock:
                self.meter.bytes_in += size
        return Path(name)

    def _lay_out(self, stored: Path, file: File) -> Path:
        """A name of the store's file where the sandbox may read it; a copy on another file system."""
        # Converters ask for the extension, which files in a store do not have.
        name = "document.pdf" if file.content_type == "application/pdf" else "input"
        folder = mkdtemp(dir=self._folder_for_copies())
        path = Path(folder, name)
        try:
            path.hardlink_to(stored)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            shutil.copyfile(stored, path)
        return path

    def _make_folder(self) -> Path:
        if self._place is None:
            return self._storage.make_folder()
        return Path(mkdtemp(dir=self._place.outputs))

    def _folder_for_copies(self) -> Path:
        if self._place is not None:
            if self._copies_folder is None:
                self._copies_folder = Path(mkdtemp(dir=self._place.inputs))
            return self._copies_folder
        if self.folder is not self._storage.scratch:
            return self.folder
        if self._copies_folder is None:
            self._copies_folder = self._storage.make_folder()
        return self._copies_folder


def check_stored_file(blobs: Blobs, path: Path, file: File) -> None:
    """Compare a file of the store with its digest. A damaged one is set aside. Raises DamagedBlob."""
    try:
        fixity.check_file(path, file.digest, file.key)
    except DamagedBlob:
        fixity.set_aside_file(blobs, file.key, file.digest)
        raise
