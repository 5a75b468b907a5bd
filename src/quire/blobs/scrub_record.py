"""Where the scrub of a store is, and what the last one found: one small blob in the store that is scrubbed.

Promise: one process scrubs at a time, because each save names the version that it replaces; the position
survives the process. Must not know: how blobs are checked.
"""

import msgspec
from msgspec import Struct, field

from quire.blobs import keys
from quire.blobs.port import Blobs, Condition, IfAbsent, IfVersion
from quire.model.errors import Missing, Reject

KEPT_ENTRIES = 1000
RESTORED, WAITING, LEFT = "restored", "waiting", "left"


class DamagedEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A damaged blob. `restored`: the right bytes are stored again. `waiting`: it was set aside, and the
    right bytes are stored as soon as they come again. `left`: it stays as it is, and is refused when it is
    read. `used_by` are a few of the files that it is, `is_input` whether it came from outside.
    """

    key: str
    digest: str
    size: int
    state: str
    used_by: tuple[str, ...] = ()
    is_input: bool = False


class ScrubCounts(Struct, kw_only=True):
    """`by_checksum` were compared by the store's checksum, unread; of `unchecked` nobody knows a digest."""

    blobs: int = 0
    bytes: int = 0
    by_checksum: int = 0
    unchecked: int = 0
    damaged: int = 0
    restored: int = 0


class FinishedScrub(Struct, frozen=True, kw_only=True):
    started_at: float
    finished_at: float
    counts: ScrubCounts
    damaged: tuple[DamagedEntry, ...] = ()


class ScrubRecord(Struct, kw_only=True):
    """`position` is the last key that was checked by the pass under way; None: there is none under way.
    `owner` is empty when it was stopped and waits for whoever continues.
    """

    schema: int = 1
    owner: str = ""
    started_at: float = 0.0
    saved_at: float = 0.0
    position: str | None = None
    counts: ScrubCounts = field(default_factory=ScrubCounts)
    damaged: dict[str, DamagedEntry] = field(default_factory=dict)
    last: FinishedScrub | None = None

    def begin(self, now: float) -> None:
        self.started_at, self.position = now, ""
        self.counts, self.damaged = ScrubCounts(), {}

    def add(self, entry: DamagedEntry) -> None:
        """Count a damaged blob once, also when it is found again where it was set aside to."""
        earlier = self.damaged.get(entry.key)
        if earlier is None:
            self.counts.damaged += 1
        if entry.state == RESTORED and (earlier is None or earlier.state != RESTORED):
            self.counts.restored += 1
        if earlier is not None or len(self.damaged) < KEPT_ENTRIES:
            self.damaged[entry.key] = entry

    def finish(self, now: float) -> FinishedScrub:
        found = tuple(self.damaged.values())
        self.last = FinishedScrub(
            started_at=self.started_at, finished_at=now, counts=self.counts, damaged=found
        )
        self.position, self.owner, self.counts, self.damaged = None, "", ScrubCounts(), {}
        return self.last


class ScrubStore:
    """The record in its store. `version` is that of the last load or save; empty: there is none yet."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.version = ""

    async def load(self) -> ScrubRecord:
        """Raises Reject `corrupt` when the record cannot be read, and what the store raises."""
        try:
            self.version = (await self._blobs.head(keys.SCRUB)).version
            data = await self._blobs.get(keys.SCRUB)
        except Missing:
            self.version = ""
            return ScrubRecord()
        try:
            return msgspec.json.decode(data, type=ScrubRecord)
        except msgspec.DecodeError as error:
            raise Reject(
                f"The record of the scrub, {keys.SCRUB} in the store, cannot be read ({error}). Delete it: "
                "then the next scrub begins anew.",
                code="corrupt",
            ) from error

    async def save(self, record: ScrubRecord) -> None:
        """Raises Stale when another process has saved since: it scrubs now."""
        condition: Condition = IfVersion(self.version) if self.version else IfAbsent()
        data = msgspec.json.encode(record)
        saved = await self._blobs.put(keys.SCRUB, data, content_type="application/json", condition=condition)
        self.version = saved.version
