"""Who comes after: reads the messages of batches that were handed over, and their manifests, and says what is
wrong with them.
"""

import json
from collections.abc import Iterator
from typing import Any

from quire.engine.handover import original_key
from quire.model import manifest
from quire.model.batch import Batch, Stage
from quire.model.errors import QuireError, Reject
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.shared.database import SimDatabase
from tests.simulation.shared.kernel import Kernel, pause, run_alone
from tests.simulation.shared.processes import Outside

NEXT = "next"  # where batches are handed over
LOOK_SECONDS = 0.5
LEASE_SECONDS = 60.0


class Follower:
    def __init__(self, outside: Outside, database: SimDatabase, blobs: MemoryBlobs) -> None:
        self._outside = outside
        self._database = database
        self._blobs = blobs
        self._wrong: list[str] = []
        self.seen: list[str] = []  # ids of messages, each time that one came

    async def life(self, kernel: Kernel) -> None:
        """Taking a message and reading its manifest is one moment: nothing is between them here."""
        while True:
            await pause(kernel, LOOK_SECONDS)
            now = self._outside.clock.now()
            leased = await self._outside.queues.lease(NEXT, limit=9, seconds=LEASE_SECONDS, now=now)
            for message in leased:
                self.seen.append(message.id)
                self._wrong += self._flaws(json.loads(message.body))
            await self._outside.queues.acknowledge(leased, now=now)

    def stored(self, key: str) -> None:
        """A manifest was written: whenever anybody looks, it can be read."""
        batch_id = key.split("/")[1]
        try:
            manifest.check(run_alone(self._blobs.get(key)), batch_id)
        except Reject as error:
            self._wrong.append(f"{key}: {error}")

    def problems(self, batches: list[Batch]) -> list[str]:
        found = list(self._wrong)
        for batch in batches:
            found += [f"batch {batch.no} ({batch.status}): {one}" for one in self._end(batch)]
        return found

    def _flaws(self, message: dict[str, Any]) -> Iterator[str]:
        """Of a message at the moment at which it comes."""
        batch = run_alone(self._outside.ledger.get_batch(message["batch_id"]))
        original = json.loads(run_alone(self._outside.ledger.get_start_message(batch.no)))
        totals = {name: message[name] for name in ("total_files", "total_bytes")}
        if original | totals != message:
            yield f"the message of batch {batch.no} is {message}, it was {original}"
        if batch.position.round > 1:
            return  # what the manifest says now is of a later round
        listed = manifest.decode(run_alone(self._blobs.get(message["manifest_r2_key"])), batch.id)
        if totals != {"total_files": listed.total_files, "total_bytes": listed.total_bytes}:
            yield f"the message of batch {batch.no} says {totals}, its manifest {listed.total_files} files"

    def _end(self, batch: Batch) -> Iterator[str]:
        if not batch.hands_over_to:
            return
        ended = batch.position.stage is Stage.DONE
        letters = sum(batch.id in name for name in self.seen)
        if letters != (ended or batch.position.round > 1):
            yield f"it was handed over {letters} times"
        if ended:
            assert batch.manifest_key is not None
            yield from self._compared(batch, batch.manifest_key, "gone IS NULL")
            yield from self._compared(batch, original_key(batch.manifest_key), "born = 0", tagged=False)

    def _compared(self, batch: Batch, key: str, which: str, *, tagged: bool = True) -> Iterator[str]:
        try:
            data = run_alone(self._blobs.get(key))
            found = sorted(
                (file.path, file.key, file.source_file, file.tags if tagged else ())
                for file in manifest.files(manifest.decode(data, batch.id))
            )
        except QuireError as error:
            yield f"{key}: {error}"
            return
        rows = self._database.rows(
            f"SELECT path, key, source_file, tags FROM files WHERE batch_no = ? AND listed AND {which}",  # noqa: S608 - ours
            batch.no,
        )
        expected = sorted(
            (path, name, source, tuple(json.loads(tags)) if tagged else ())
            for path, name, source, tags in rows
        )
        if found != expected:
            yield f"{key} lists {found}, not {expected}"
        folders = [one.directory_path for one in manifest.decode(data, batch.id).directories]
        if tagged and folders != sorted(set(folders)):
            yield f"{key} has the directories {folders}"
