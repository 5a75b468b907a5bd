"""Reads the pictures of one job: each is fetched, read and answered by itself, in the order of their indices.

Promises: exactly one result for each picture, whatever happens to it; a passing fault is tried again here,
and reported as passing when it stays. Must not know: queues, envelopes on the wire, HTTP.
"""

import asyncio
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from quire.model.envelope_writing import build_image_failure, build_image_text, cut_text
from quire.model.envelopes import MAX_TEXT_BYTES, ImageRef, ImageText, OcrErrorCode
from quire.model.errors import QuireError, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.page_text import PageText, TextLine, Tier
from quire.ocr.image_refs import ImageSources, load_image
from quire.ocr.port import PictureTextReader, PictureWish

LOAD_TRIES = 3
FIRST_PAUSE_SECONDS = 0.2
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_+,][A-Za-z_]{2,8}){0,8}")
_CONTRACT = frozenset(OcrErrorCode)


class InlineImage(Struct, frozen=True, kw_only=True):
    """A picture that came with its request."""

    data: bytes
    index: int


class ImageResult(Struct, frozen=True, kw_only=True):
    """`is_passing`: another try of the whole job may give a text. `lines` are there if places were wanted."""

    text: ImageText
    is_passing: bool = False
    lines: tuple[TextLine, ...] = ()

    @property
    def is_valid(self) -> bool:
        return self.text.meta.is_valid and self.text.error is None


class ImageReading(Struct, frozen=True, kw_only=True):
    """What reading pictures needs. `folder` is private; `at_once` is per process, for pictures in memory."""

    sources: ImageSources
    reader: PictureTextReader
    folder: Path
    ids: Ids
    places: asyncio.Semaphore
    pause_seconds: float = FIRST_PAUSE_SECONDS
    max_text_bytes: int = MAX_TEXT_BYTES


async def read_images(
    reading: ImageReading, images: Collection[ImageRef | InlineImage], wish: PictureWish
) -> list[ImageResult]:
    """In the order of their indices. Raises Unavailable when this machine reads no pictures at all: that is
    no result of the job.
    """
    # What is no language must not reach the engines.
    valid = wish if _LANGUAGE.fullmatch(wish.language) else structs.replace(wish, language="en")
    ordered = sorted(images, key=lambda image: image.index)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_read_image(reading, image, valid)) for image in ordered]
    except* Unavailable as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


async def _read_image(reading: ImageReading, image: ImageRef | InlineImage, wish: PictureWish) -> ImageResult:
    spoken = wish.language
    try:
        async with reading.places:
            page = await _read_page(reading, image, wish)
    except Unavailable:
        raise
    except QuireError as error:
        code = error.code if error.code in _CONTRACT else OcrErrorCode.INTERNAL_ERROR
        failed = build_image_failure(image.index, str(code), str(error), language=spoken)
        return ImageResult(text=failed, is_passing=isinstance(error, Retry))
    except Exception as error:  # noqa: BLE001 one picture must not cost the others
        words = f"reading it failed ({type(error).__name__})"
        failed = build_image_failure(image.index, OcrErrorCode.INTERNAL_ERROR, words, language=spoken)
        return ImageResult(text=failed, is_passing=True)
    text = _build_text(image.index, page, spoken, reading.max_text_bytes)
    # What is no valid text does not come back by way of its words.
    lines = [line for paragraph in page.paragraphs for line in paragraph.lines] if text.error is None else []
    return ImageResult(text=text, lines=tuple(lines))


def _build_text(index: int, page: PageText, language: str, max_bytes: int) -> ImageText:
    tier = Tier(page.tier) if page.tier in set(Tier) else Tier.TESSERACT
    if not page.is_valid or not page.text.strip():
        why = page.reason or "no engine has read valid text"
        return build_image_failure(index, OcrErrorCode.NO_VALID_OUTPUT, why, language=language, tier=tier)
    kept, was_cut = cut_text(page.text, max_bytes)
    made = build_image_text(
        index, kept, language=language, confidence=page.confidence, is_valid=True, tier=tier
    )
    return structs.replace(made, truncated=made.truncated or was_cut)


async def _read_page(reading: ImageReading, image: ImageRef | InlineImage, wish: PictureWish) -> PageText:
    data = image.data if isinstance(image, InlineImage) else await _load(reading, image)
    path = reading.folder / f"picture-{reading.ids.ulid()}"
    try:
        await asyncio.to_thread(_write_private, path, data)
        del data  # the engine needs the memory
        return await reading.reader.read(path, wish)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


async def _load(reading: ImageReading, ref: ImageRef) -> bytes:
    for tried in range(1, LOAD_TRIES):
        try:
            return await load_image(reading.sources, ref)
        except Retry:
            await asyncio.sleep(reading.pause_seconds * 2 ** (tried - 1))
    return await load_image(reading.sources, ref)


def _write_private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(data)
