"""Makes uploaded photos ready for OCR, in a process of their own.

Promises: what is no picture, is damaged or too large is refused with its number; a photo that breaks its
decoder breaks that process alone. Must not know: HTTP, the store.
"""

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.model.errors import Reject, Retry
from quire.model.step import SandboxMode
from quire.recipes.photo_child import PhotoOrder, PhotoResult
from quire.steps.recipe.photo import MAX_DECODED_PIXELS
from quire.tools import sandbox
from quire.tools.child_process import run_child
from quire.tools.vips import WORKER_ENVIRONMENT

SECONDS = 60.0
MAX_PHOTO_BYTES = 10 << 20
COMMAND = (sys.executable, "-P", "-c", "from quire.recipes.photo_child import main; main()")

_log = logging.getLogger("quire.recipes")


class PhotoRules(Struct, frozen=True, kw_only=True):
    max_pixels: int = MAX_DECODED_PIXELS
    sandbox: SandboxMode = "auto"


async def prepare_photos(photos: Sequence[Path], rules: PhotoRules) -> list[bytes]:
    """JPEGs in the same order. Raises Reject `bad_image` for the first that cannot be one."""
    return await asyncio.to_thread(_prepare, photos, rules)


def _prepare(photos: Sequence[Path], rules: PhotoRules) -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="quire-photos-") as name:
        folder = Path(name)
        for number, photo in enumerate(photos):
            shutil.copyfile(photo, folder / str(number))
        results = _run(folder, len(photos), rules)
        for number, result in enumerate(results, 1):
            if result.code:
                raise Reject(f"picture {number} cannot be read: {result.message}", code="bad_image")
        return [(folder / f"{number}.jpg").read_bytes() for number in range(len(photos))]


def _run(folder: Path, photos: int, rules: PhotoRules) -> list[PhotoResult]:
    order = PhotoOrder(
        folder=str(folder),
        photos=photos,
        max_pixels=rules.max_pixels,
        confined=sandbox.check_mode(rules.sandbox),
    )
    environment = sandbox.clean_environment(str(folder)) | WORKER_ENVIRONMENT
    answer = folder / "results.json"
    try:
        with answer.open("wb") as stdout:
            ended = run_child(
                COMMAND,
                environment,
                folder=folder,
                stdin=msgspec.json.encode(order),
                stdout=stdout,
                timeout_seconds=SECONDS,
            )
    except TimeoutError as error:
        raise Reject(f"the pictures took more than {SECONDS:g} s to decode", code="bad_image") from error
    except OSError as error:
        raise Retry(f"the pictures cannot be decoded now: {error}") from error
    if ended.code:
        _log.warning("photo_decoder_died: code %s: %s", ended.code, ended.stderr[-500:])
        raise Reject("a picture could not be decoded; send it as an ordinary JPEG", code="bad_image")
    return msgspec.json.decode(answer.read_bytes(), type=list[PhotoResult])
