"""The heartbeat of a job, from the worker's event loop: a busy conversion does not delay it, and a hanging
worker stops it.

Promises: `lost` is set as soon as another worker is known to have the job; a heartbeat whose answer was
lost is recognised as our own. A store that cannot be reached does not lose the job: the commit is safe
without heartbeats. Must not know: what the job is about.
"""

import asyncio
from collections.abc import Callable
from typing import Self

from msgspec import structs

from quire.library.context import LibraryContext
from quire.library.protocol import layout, lifecycle
from quire.library.protocol.bodies import JobRecord, decode
from quire.library.protocol.lifecycle import HeldJob, JobActor
from quire.model.errors import Misconfigured, Retry, Stale

TRANSIENT = (Retry, Stale, Misconfigured)  # expired keys may be replaced while the conversion runs
HURRY = 4  # after a failed heartbeat, the next one comes this many times sooner


class Heartbeat:
    """Writes heartbeats while it is entered. `progress` returns what they show."""

    def __init__(
        self,
        context: LibraryContext,
        held: HeldJob,
        actor: JobActor,
        progress: Callable[[], dict[str, object]],
    ) -> None:
        self._context = context
        self._held = held
        self._actor = structs.replace(actor, nonce=self._nonce)
        self._new_nonce = actor.nonce
        self._progress = progress
        self._unsure: list[str] = []  # nonces of writes whose answers were lost
        self._at = context.clock.monotonic()
        self._stopped = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    @property
    def held(self) -> HeldJob:
        return self._held

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Waits for a heartbeat under way instead of cancelling it: its version is needed."""
        self._stopped.set()
        if self._task is not None:
            await self._task

    async def is_held(self, within_seconds: float) -> bool:
        """Whether the job is still ours. Asks the store if the last heartbeat is older. True if it cannot
        tell.
        """
        if self._context.clock.monotonic() - self._at > within_seconds or self._unsure:
            await self._beat()
        return not self.lost.is_set()

    async def _run(self) -> None:
        usual = self._context.rules.heartbeat_seconds
        seconds = usual
        while not self.lost.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                seconds = usual if await self._beat() else usual / HURRY
            else:
                return

    async def _beat(self) -> bool:
        """Write one heartbeat; False when the store did not answer."""
        async with self._lock:
            try:
                if self._unsure:
                    await self._check_lost_writes()
                if not self.lost.is_set():
                    held = await self._context.perform(
                        lifecycle.beat(self._held, self._actor, self._progress())
                    )
                    self._set_held(held)
            except TRANSIENT:
                return False
            self._unsure.clear()
            self._at = self._context.clock.monotonic()
            return True

    async def _check_lost_writes(self) -> None:
        """Find out whether a write whose answer was lost took effect: then the known version is outdated."""
        found = await self._context.objects.read(layout.state(self._held.id))
        if found is not None and found.version == self._held.version:
            return
        job = None if found is None else decode(found.body, JobRecord)
        ours = found is not None and job is not None and job.nonce in self._unsure
        self._set_held(
            structs.replace(self._held, job=job, version=found.version) if ours and found else None
        )

    def _set_held(self, held: HeldJob | None) -> None:
        if held is None:
            self.lost.set()
        else:
            self._held = held

    def _nonce(self) -> str:
        nonce = self._new_nonce()
        self._unsure.append(nonce)
        return nonce
