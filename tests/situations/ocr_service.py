"""Pictures, requests and readers for tests of the OCR service: an engine that says what a picture holds."""

import asyncio
from pathlib import Path

import msgspec

from quire.model.envelope_writing import build_ocr_request, encode_envelope
from quire.model.envelopes import ImageRef
from quire.model.errors import QuireError, Reject, Retry
from quire.model.page_text import PageText
from quire.ocr.image_jobs import ImageReading
from quire.ocr.image_refs import ImageSources
from quire.ocr.port import PictureWish
from quire.testing.time import CountingIds

RECIPES = "jarvis.recipes.jobs"


class SayingReader:
    """Instead of an engine: a picture holds what is read. `doubtful …` is no valid text, `crash` and `broken`
    are a passing fault and a final one. Faults are counted, and `heals` lets them pass after so many.
    """

    def __init__(self, *, heals: int = 0) -> None:
        self.heals = heals
        self.faults = 0
        self.languages: list[str] = []
        self.paths: list[Path] = []

    async def read(self, path: Path, wish: PictureWish) -> PageText:
        self.languages.append(wish.language)
        self.paths.append(path)
        said = path.read_bytes().decode()
        fault = self._find_fault(said)
        if fault is not None:
            self.faults += 1
            raise fault
        text = "healed" if said == "crash" else said.removeprefix("doubtful ")
        valid = not said.startswith("doubtful")
        return PageText(
            width=1, height=1, text=text, confidence=0.9 if valid else 0.2, tier="paddleocr", is_valid=valid,
            reason="" if valid else "low confidence",
        )  # fmt: skip

    def _find_fault(self, said: str) -> QuireError | None:
        if said == "crash" and not 0 < self.heals <= self.faults:
            return Retry("the engine has crashed", code="ocr_engine_error")
        if said == "broken":
            return Reject("this is no picture", code="unsupported_media")
        if said == "bug":
            raise ZeroDivisionError
        return None


def reading_of(root: Path, reader: SayingReader, *, at_once: int = 2, **sources: object) -> ImageReading:
    """With an image folder `images` below `root`, made if need be."""
    for name in ("images", "private"):
        (root / name).mkdir(exist_ok=True)
    found = ImageSources(root=root / "images", **sources)  # type: ignore[arg-type]
    return ImageReading(
        sources=found,
        reader=reader,
        folder=root / "private",
        ids=CountingIds(),
        places=asyncio.Semaphore(at_once),
        pause_seconds=0.0,
    )


def keep_pictures(root: Path, **said: str) -> None:
    """A picture for each name, saying that text."""
    (root / "images").mkdir(exist_ok=True)
    for name, text in said.items():
        (root / "images" / name).write_text(text)


def refs_of(*values: str) -> tuple[ImageRef, ...]:
    return tuple(ImageRef(kind="local_path", value=value, index=index) for index, value in enumerate(values))


def request_body(*values: str, reply_to: str = RECIPES, job_id: str = "job-1", **changes: object) -> bytes:
    request = build_ocr_request(
        job_id=job_id,
        source="jarvis-recipes-server",
        reply_to=reply_to,
        image_refs=refs_of(*values),
        now=1_700_000_000.0,
    )
    return encode_envelope(msgspec.structs.replace(request, **changes))
