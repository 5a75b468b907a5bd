"""Reads pictures with OCR engines in tiers: the first valid text counts.

Runs wherever pictures are read: in worker processes and in the OCR service. Promises: engines are opened when
a picture first needs them and stay open for many; a tier that is not there is passed over; a text that is not
valid is given back as doubtful, with the reason, and never as content. Must not know: where pictures come
from and what becomes of their text.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from quire.model.page_text import PageText
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.pictures import decode_picture
from quire.tools import tesseract
from quire.tools.pdfium import PageBitmap

__all__ = ["PictureReader", "ReadingOptions"]


class PictureReader:
    """A context manager. Belongs to one thread at a time: open one for each."""

    def __init__(self, options: ReadingOptions) -> None:
        self._options = options
        self._tesseract: tesseract.Tesseract | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._tesseract is not None:
            self._tesseract.close()
            self._tesseract = None

    def read_file(self, path: Path, *, page: int = 0, language: str = "") -> PageText:
        """The text of one page of a picture file; pages are counted from 0. Coordinates are of the picture as
        its own tags turn it, and then by `rotation`.

        Raises Reject: `unsupported_media` (no picture, or of a kind that is not decoded), `no_such_page`, and
        the codes of `tools.refusals` for what is damaged or too large; Retry or Reject `ocr_engine_error`
        when engines failed and none has read anything; Misconfigured when no engine is there.
        """
        picture = decode_picture(path, page=page, max_pixels=self._options.max_pixels)
        return self.read_bitmap(picture.bitmap, picture.dpi, language)

    def read_bitmap(self, bitmap: PageBitmap, dpi: int, language: str = "") -> PageText:  # noqa: ARG002 - for now
        """The same for pixels, such as of a drawn page. `dpi` 0: not known."""
        if self._tesseract is None:
            self._tesseract = tesseract.Tesseract("eng", self._options.tessdata)
        found = self._tesseract.read_page(bitmap, dpi, seconds=self._options.seconds)
        valid = len(found.text) >= self._options.min_valid_characters and found.confidence >= 0.6
        return structs.replace(found, is_valid=valid, reason="" if valid else "low confidence")
