"""An order being worked on: its folder, its input files, its meter.

Promise: everything it leaves on the disk lies in folders that `discard` removes, under names that no document
chose. Must not know: what the step does with it.
"""

import asyncio
import os
import shutil
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import Any, TypeVar

import msgspec

from quire.blobs.port import Blobs
from quire.compute.pool.meter import OrderMeter
from quire.model.errors import Reject
from quire.model.files import File
from quire.model.step import StepInput
from quire.model.work import Order, StepCall

T = TypeVar("T")
_members_decoder = msgspec.json.Decoder(tuple[File, ...])


class Supply:
    """What a worker's jobs share: the store, the scratch folder, and a thread in which the store works."""

    def __init__(self, blobs: Blobs, scratch: Path) -> None:
        self.blobs = blobs
        self.scratch = scratch
        self.lock = threading.Lock()  # over what has been fetched
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def background(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def own_folder(self) -> Path:
        return Path(mkdtemp(dir=self.scratch))


class Job:
    # Defaults of the class, as in the meter: an order that fetches nothing is not to pay for it.
    store_error: BaseException | None = None  # the last one that a step's fetching met
    _copies_folder: Path | None = None
    _fetched: dict[str, "Future[Path]"] | None = None

    def __init__(
        self, call: StepCall, order: Order, times: tuple[float, float], meter: OrderMeter, supply: Supply
    ) -> None:
        self.call = call
        self.order = order
        self.started_at, self.began = times
        self.meter = meter
        self.folder = supply.scratch
        self._supply = supply

    def bare_input(self) -> StepInput:
        """For a step that works from the record alone: no folder is made, no bytes are brought."""
        return self._input(self._supply.scratch, ())

    def full_input(self) -> StepInput:
        """Raises what the store raises, or Reject for a list of members that is none."""
        self.folder = self._supply.own_folder()
        if self.call.unit == "file":
            return self._input(self.fetch(self.order.file), ())
        listing = self._bring(self.order.file.key).result()
        return self._input(listing, _members(listing, self.order))

    def fetch(self, file: File) -> Path:
        """As `StepInput.fetch`."""
        with self._supply.lock:
            fetched = self._fetched = self._fetched or {}
            bringing = fetched.get(file.key)
            first = bringing is None
            if bringing is None:
                bringing = fetched[file.key] = self._bring(file.key)
        try:
            path = bringing.result()
        except Exception as error:
            with self._supply.lock:
                fetched.pop(file.key, None)  # a step may try again
            self.store_error = error
            raise
        if first:
            size = path.stat().st_size
            with self._supply.lock:
                self.meter.bytes_in += size
        return path

    def was_fetched(self, path: Path) -> bool:
        """Is this one of the input's files? Those are not the step's to give away."""
        with self._supply.lock:
            fetched = list((self._fetched or {}).values())
        brought = [done for done in fetched if done.done() and done.exception() is None]
        return any(done.result() == path for done in brought)

    def discard(self) -> None:
        # By identity: to compare two paths takes longer than a step that does nothing.
        if self.folder is not self._supply.scratch:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._copies_folder is not None:
            shutil.rmtree(self._copies_folder, ignore_errors=True)

    def _input(self, source: Path, members: tuple[File, ...]) -> StepInput:
        return StepInput(
            file=self.order.file,
            source=source,
            folder=self.folder,
            options=self.call.options,
            members=members,
            earlier=self.order.earlier,
            fetch=self.fetch,
            meter=self.meter,
        )

    def _bring(self, key: str) -> "Future[Path]":
        """The store's own file where it has one, otherwise a copy in the order's folder."""
        there: Future[Path] = Future()
        try:
            local = self._supply.blobs.local_path(key)
            if local is None:
                return self._supply.background(self._download(key, self._folder_for_copies()))
            there.set_result(local)
        except Exception as error:  # noqa: BLE001 - told to whoever asks for the result
            there.set_exception(error)
        return there

    async def _download(self, key: str, folder: Path) -> Path:
        handle, name = mkstemp(prefix=".input-", dir=folder)
        with os.fdopen(handle, "wb") as file:
            async for piece in self._supply.blobs.stream(key):
                file.write(piece)
                self.meter.pulse()  # a large file on a slow line is no stalled step
        return Path(name)

    def _folder_for_copies(self) -> Path:
        if self.folder is not self._supply.scratch:
            return self.folder
        if self._copies_folder is None:
            self._copies_folder = self._supply.own_folder()
        return self._copies_folder


def _members(listing: Path, order: Order) -> tuple[File, ...]:
    try:
        return _members_decoder.decode(listing.read_bytes())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Reject(
            f"the list of members {order.file.path!r} is not a JSON array of files: {error}",
            code="bad_members",
        ) from error
