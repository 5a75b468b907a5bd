"""Lays results out in the output folder while a batch is still running: those of an input when nothing of it
is on its way any more.

The ledger is asked for a window of inputs by number now and then, so the cost for each task is nothing and
that of a look does not grow with the batch. The export at the end lays out whatever is missing.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from quire.batches.placing import place_files
from quire.blobs.port import Blobs
from quire.ledger.intake import IntakeStore
from quire.ledger.port import InputRecord
from quire.model.clock import Clock
from quire.model.errors import Unavailable
from quire.model.files import File

WINDOW = 2000  # numbers looked at further on
FIRST_WINDOW = 64  # before there is a result: such looks must be cheap
WAITING = 4000  # inputs on their way that are looked at again; with as many the window does not move on
FILES_AT_ONCE = 64
SHORTEST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 0.5
WORK_SHARE = 10  # a look is followed by a pause of this many times its own length
LONGEST_PAUSE_AFTER_WORK_SECONDS = 5.0


_Results = tuple[int, list[File]]  # an input and what was made of it


class Layout:
    def __init__(
        self,
        batch_no: int,
        out: Path,
        *,
        intake: IntakeStore,
        blobs: Blobs,
        clock: Clock,
        progress: Callable[[int], None],
    ) -> None:
        """`progress` is called with how many inputs' results were laid out."""
        self._batch_no = batch_no
        self._out = out
        self._intake = intake
        self._blobs = blobs
        self._clock = clock
        self._progress = progress
        self._cursor = 0
        self._waiting: set[int] = set()
        self._laid_out = array("q")  # by number of the input: a mark of what was laid out for it, or 0
        self._damaged: set[str] = set()  # results that the store has lost, by path: left to the export
        self._has_results = False
        self._over = asyncio.Event()
        self._wakes = asyncio.Event()

    async def run(self) -> None:
        """Until `finish` is called. Raises Misconfigured when a file cannot be written."""
        pause = SHORTEST_PAUSE_SECONDS
        while not self._over.is_set():
            began = self._clock.monotonic()
            found = 0
            with suppress(Unavailable):  # the ledger is away: the next look will tell
                found = await self.look()
            busy = self._clock.monotonic() - began
            pause = SHORTEST_PAUSE_SECONDS if found else min(2 * pause, LONGEST_PAUSE_SECONDS)
            rest = max(pause, min(WORK_SHARE * busy, LONGEST_PAUSE_AFTER_WORK_SECONDS))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), rest)
            self._wakes.clear()

    def hurry(self) -> None:
        """Tasks may have ended. Before the first result is laid out this is worth a look at once."""
        if not self._has_results:
            self._wakes.set()

    def finish(self) -> None:
        """No file is begun any more."""
        self._over.set()
        self._wakes.set()

    async def look(self) -> int:
        """Lay out what has been finished since the last look; how many inputs that were."""
        window = WINDOW if self._has_results else FIRST_WINDOW
        room = window if len(self._waiting) < WAITING else 0
        found, self._cursor = await self._intake.list_finished(
            self._batch_no, after=self._cursor, numbers=self._waiting, limit=room
        )
        self._waiting = {one.no for one in found if not one.finished}
        ended = [(one.no, [file for _, file in one.made]) for one in found if one.finished]
        for group in _group(ended):
            if not await self._lay_out(group):
                break
        self._has_results = self._has_results or bool(ended)
        left = [(no, files) for no, files in ended if not self._is_damaged(files)]
        self._waiting |= {no for no, files in left if not self._is_laid_out(no, files)}
        return len(ended)

    async def _lay_out(self, group: list[_Results]) -> bool:
        """False: it was over before the end."""
        together = [file for _, files in group for file in files]
        for start in range(0, len(together), FILES_AT_ONCE):
            if self._over.is_set():
                return False
            part = together[start : start + FILES_AT_ONCE]
            self._damaged.update(file.path for file in await place_files(part, self._out, self._blobs))
        for no, files in group:
            if not self._is_damaged(files):
                self._keep(no, _mark(files))
        self._progress(len(group))
        return True

    def has(self, record: InputRecord) -> bool:
        """Whether these very results of an input were laid out."""
        return self._is_laid_out(record.no, [file for _, file in record.made])

    def was_counted(self, record: InputRecord) -> bool:
        return 0 < record.no < len(self._laid_out) and self._laid_out[record.no] != 0

    def _is_damaged(self, files: list[File]) -> bool:
        return bool(self._damaged) and any(file.path in self._damaged for file in files)

    def _is_laid_out(self, no: int, files: list[File]) -> bool:
        return 0 < no < len(self._laid_out) and self._laid_out[no] == _mark(files)

    def _keep(self, no: int, mark: int) -> None:
        if no >= len(self._laid_out):
            self._laid_out.extend([0] * (no + WINDOW - len(self._laid_out)))
        self._laid_out[no] = mark


def _group(ended: list[_Results]) -> Iterator[list[_Results]]:
    group: list[_Results] = []
    for one in ended:
        group.append(one)
        if sum(len(files) for _, files in group) >= FILES_AT_ONCE or len(group) >= FILES_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _mark(files: list[File]) -> int:
    return hash(tuple((file.path, file.digest, file.size) for file in files)) or 1
