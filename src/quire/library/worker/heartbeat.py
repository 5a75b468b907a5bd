"""The heartbeat of a job: from the worker's event loop, so that it neither starves with the conversion nor
goes on when the worker hangs.

Promises: `lost` is set as soon as it is known that the job is somebody else's; a beat whose answer was lost
is recognised as our own. A store that cannot be reached is no loss: the commit is safe without beats. Must
not know: what the job is about.
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

PASSING = (Retry, Stale, Misconfigured)  # keys that ran out may be replaced while the conversion runs
HURRY = 4  # after a beat that failed, the next one comes so much sooner


class Heartbeat:
    """Beats as long as it is entered. `progress` is asked for what to show."""

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
        self._unsure: list[str] = []  # marks of writes whose answers were lost
        self._at = context.clock.monotonic()
        self._over = asyncio.Event()
        self._one = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    @property
    def held(self) -> HeldJob:
        return self._held

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat_on())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Not cancelled: a beat on its way is awaited, as nobody else knows its version."""
        self._over.set()
        if self._task is not None:
            await self._task

    async def fresh(self, within_seconds: float) -> bool:
        """Is it still ours? Asks the store when the last beat is older. True also when nobody can tell."""
        if self._context.clock.monotonic() - self._at > within_seconds or self._unsure:
            await self._beat()
        return not self.lost.is_set()

    async def _beat_on(self) -> None:
        usual = self._context.rules.heartbeat_seconds
        seconds = usual
        while not self.lost.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._over.wait()
            except TimeoutError:
                seconds = usual if await self._beat() else usual / HURRY
            else:
                return

    async def _beat(self) -> bool:
        """Whether the store answered."""
        async with self._one:
            try:
                if self._unsure:
                    await self._recognise()
                if not self.lost.is_set():
                    held = await self._context.perform(
                        lifecycle.beat(self._held, self._actor, self._progress())
                    )
                    self._keep(held)
            except PASSING:
                return False
            self._unsure.clear()
            self._at = self._context.clock.monotonic()
            return True

    async def _recognise(self) -> None:
        """A write whose answer was lost may have happened: then the version that we know is an old one."""
        found = await self._context.objects.read(layout.state(self._held.id))
        if found is not None and found.version == self._held.version:
            return
        job = None if found is None else decode(found.body, JobRecord)
        ours = found is not None and job is not None and job.nonce in self._unsure
        self._keep(structs.replace(self._held, job=job, version=found.version) if ours and found else None)

    def _keep(self, held: HeldJob | None) -> None:
        if held is None:
            self.lost.set()
        else:
            self._held = held

    def _nonce(self) -> str:
        nonce = self._new_nonce()
        self._unsure.append(nonce)
        return nonce
