"""The context of `quire upload`, built from settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from quire import __version__
from quire.assembly.presence import LOCK_ENDING, hold_lock, make_home
from quire.client.folder_upload import ClientContext
from quire.client.http import IngestClient
from quire.client.upload_state import UploadStateFile
from quire.settings import Settings
from quire.system import SystemClock, SystemIds
from quire.tools.shares import this_machine

_BUSY = "another quire (process {holder}) uploads this folder to the same server; wait for it"


@asynccontextmanager
async def open_upload(settings: Settings, folder: Path) -> AsyncIterator[ClientContext]:
    """Raises Misconfigured when the home folder cannot be used."""
    make_home(settings.home)
    this_machine().stall_seconds = settings.input_stall_seconds
    chosen, clock, ids = settings.upload, SystemClock(), SystemIds()
    state = UploadStateFile(settings.home, folder, chosen.url)
    client = IngestClient(
        chosen.url,
        key=chosen.key.reveal(),
        clock=clock,
        sleep=asyncio.sleep,
        fraction=ids.fraction,
        agent=f"quire/{__version__}",
        # Each file uses one connection per part, and one for requests to the service.
        connections=chosen.parallel * (chosen.parallel_parts + 1),
    )
    async with client:
        yield ClientContext(
            client=client,
            state=state,
            clock=clock,
            ids=ids,
            sleep=asyncio.sleep,
            claim_upload=partial(
                hold_lock, settings.home / "requests" / f"upload-{state.key}{LOCK_ENDING}", _BUSY
            ),
        )
