"""The start-up check of a blob store: tests the promises of `port`.

Some servers accept the headers of a conditional write and ignore them; then every lock succeeds and work is
silently done twice. Promise: such a store is refused, naming the broken promise. Writes only under `probe/`
and removes everything. Must not know: which store it is.
"""

import asyncio
from contextlib import suppress

from quire.blobs import keys
from quire.blobs.port import Blobs, Condition, IfAbsent, IfVersion
from quire.model.errors import Misconfigured, Missing, QuireError, Stale
from quire.model.ids import Ids
from quire.model.probe import Probe

_RACERS = 4
_METADATA = {"quire-probe": "naïve + 100 % ☂"}
_CONTENT_TYPE = "application/x-quire-probe"


class _Promises:
    """One method per promise; each returns whether the store keeps it."""

    def __init__(self, blobs: Blobs, nonce: str) -> None:
        self._blobs = blobs
        self._nonce = nonce

    def _key(self, name: str) -> str:
        return keys.probe(self._nonce, name)

    def _body(self, text: str) -> bytes:
        return f"{self._nonce} {text}".encode()

    async def _is_refused(self, name: str, condition: Condition) -> bool:
        """Whether the store refuses this write and changes nothing."""
        before = await self._read(name)
        try:
            await self._blobs.put(self._key(name), self._body("must not be seen"), condition=condition)
        except Stale:
            return await self._read(name) == before
        return False

    async def _read(self, name: str) -> bytes | None:
        try:
            return await self._blobs.get(self._key(name))
        except Missing:
            return None

    async def read_after_write(self) -> bool:
        for text in ("first", "second"):
            await self._blobs.put(self._key("read"), self._body(text))
            if await self._read("read") != self._body(text):
                return False
        return True

    async def create_twice(self) -> bool:
        await self._blobs.put(self._key("create"), self._body("first"), condition=IfAbsent())
        return await self._is_refused("create", IfAbsent())

    async def racing_creates(self) -> bool:
        bodies = [self._body(f"racer {number}") for number in range(_RACERS)]
        outcomes = await asyncio.gather(
            *(self._blobs.put(self._key("race"), body, condition=IfAbsent()) for body in bodies),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Stale):
                raise outcome
        winners = [
            body
            for body, outcome in zip(bodies, outcomes, strict=True)
            if not isinstance(outcome, BaseException)
        ]
        return winners == [await self._read("race")]

    async def swap_with_the_right_version(self) -> bool:
        first = await self._blobs.put(self._key("swap"), self._body("first"))
        seen = await self._blobs.head(self._key("swap"))
        if seen.version != first.version:
            return False
        try:
            second = await self._blobs.put(
                self._key("swap"), self._body("second"), condition=IfVersion(seen.version)
            )
        except Stale:
            return False
        return second.version != first.version and await self._read("swap") == self._body("second")

    async def swap_with_a_stale_version(self) -> bool:
        first = await self._blobs.put(self._key("stale"), self._body("first"))
        await self._blobs.put(self._key("stale"), self._body("second"))
        return await self._is_refused("stale", IfVersion(first.version))

    async def swap_of_nothing(self) -> bool:
        other = await self._blobs.put(self._key("other"), self._body("other"))
        return await self._is_refused("nothing", IfVersion(other.version))

    async def list_after_write(self) -> bool:
        await self._blobs.put(self._key("listed"), self._body("listed"))
        folder = self._key("listed").rpartition("/")[0]
        return self._key("listed") in [stored.key async for stored in self._blobs.list(folder)]

    async def metadata(self) -> bool:
        await self._blobs.put(
            self._key("metadata"), self._body("metadata"), content_type=_CONTENT_TYPE, metadata=_METADATA
        )
        found = await self._blobs.head(self._key("metadata"))
        return found.content_type == _CONTENT_TYPE and found.metadata == _METADATA

    async def clean(self) -> None:
        names = ("read", "create", "race", "swap", "stale", "other", "nothing", "listed", "metadata")
        await asyncio.gather(*(self._delete(name) for name in names))

    async def _delete(self, name: str) -> None:
        with suppress(QuireError):  # the result is known by then
            await self._blobs.delete(self._key(name))


def _read_outcome(outcome: bool | BaseException) -> bool:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


async def probe(blobs: Blobs, ids: Ids) -> list[Probe]:
    """Test the store; return the promises it keeps. May be repeated, also by several processes at once.

    Raises Misconfigured (code `broken_store`) naming each broken promise; Retry or Misconfigured when the
    store cannot be reached or refuses us.
    """
    run = _Promises(blobs, ids.ulid())
    checks = {
        "a blob can be read as soon as it is written or overwritten": run.read_after_write,
        "a second create of the same key is refused (If-None-Match)": run.create_twice,
        "exactly one of several simultaneous creates succeeds": run.racing_creates,
        "a compare-and-swap with the current version is accepted (If-Match)": run.swap_with_the_right_version,
        "a compare-and-swap with an old version is refused (If-Match)": run.swap_with_a_stale_version,
        "a compare-and-swap of a missing key is refused (If-Match)": run.swap_of_nothing,
        "a blob is listed as soon as it is written": run.list_after_write,
        "content type and metadata are returned unchanged": run.metadata,
    }
    try:
        # At the same time: each has keys of its own, and most of a check is waiting for the store.
        outcomes = await asyncio.gather(*(check() for check in checks.values()), return_exceptions=True)
    finally:
        await run.clean()
    probes = [
        Probe(name=promise, ok=_read_outcome(one)) for promise, one in zip(checks, outcomes, strict=True)
    ]
    if broken := [probe.name for probe in probes if not probe.ok]:
        raise Misconfigured(
            f"{blobs!r} breaks what Quire needs: {'; '.join(broken)}. Work would be lost or done twice. "
            "Use a store with conditional writes and immediate reads (AWS S3, R2, SeaweedFS, a local folder) "
            "and look for a proxy or cache on the way that drops headers.",
            code="broken_store",
        )
    return probes
