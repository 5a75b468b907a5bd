"""EasyOCR: the engine behind tier easyocr. Not part of any extra: its weights come from a hub.

Promises: nothing is fetched; it is there only when the package and the weights of the languages are.
"""

from collections.abc import Sequence
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from quire.model.errors import Misconfigured, Retry
from quire.model.page_text import PageText, Tier
from quire.model.probe import Probe
from quire.tools.page_geometry import join_text, weigh_confidence
from quire.tools.pdfium import PageBitmap
from quire.tools.quad_lines import clip_line, line_of_quad
from quire.tools.reading_order import arrange_lines

NAME = "easyocr"
_ADVICE = "pip install easyocr, and put its weights (craft_mlt_25k.pth, latin_g2.pth) into ~/.EasyOCR/model"
_DETECTOR = "craft_mlt_25k.pth"


def probe() -> Probe:
    try:
        folder = _weights()
    except Misconfigured as error:
        return Probe(name="EasyOCR", ok=False, advice=str(error))
    return Probe(name="EasyOCR", ok=True, detail=f"{metadata.version(NAME)}, weights in {folder.name}")


class EasyOcr:
    """An open engine for languages by their short names. Raises Misconfigured when it cannot be had."""

    def __init__(self, languages: Sequence[str]) -> None:
        folder = _weights()
        self.languages = tuple(languages) or ("en",)
        self._lock = Lock()
        try:
            self._reader: Any = _easyocr().Reader(
                list(self.languages),
                gpu=False,
                download_enabled=False,
                verbose=False,
                model_storage_directory=str(folder),
            )
        except Exception as error:  # it raises errors of many kinds for languages and weights
            raise Misconfigured(
                f"EasyOCR does not start ({error}): {_ADVICE}", code="missing_tool"
            ) from error
        self.version = metadata.version(NAME)

    def close(self) -> None:
        self._reader = None

    def read_page(self, drawn: PageBitmap, dpi: int) -> PageText:
        """The text with its places. Raises Retry (`ocr_engine_error`) when the engine fails."""
        import numpy as np

        flat = np.frombuffer(drawn.data, dtype=np.uint8)
        shape = (drawn.height, drawn.width) if drawn.bands == 1 else (drawn.height, drawn.width, drawn.bands)
        try:
            with self._lock:
                found = self._reader.readtext(flat.reshape(shape))
        except Exception as error:  # any error of torch or OpenCV
            raise Retry(f"EasyOCR failed: {type(error).__name__}", code="ocr_engine_error") from error
        lines = [
            clip_line(
                line_of_quad([(float(x), float(y)) for x, y in quad], text, float(score)),
                drawn.width,
                drawn.height,
            )
            for quad, text, score in found
            if text.strip()
        ]
        paragraphs = arrange_lines(lines)
        return PageText(
            width=drawn.width,
            height=drawn.height,
            dpi=dpi,
            paragraphs=paragraphs,
            text=join_text(paragraphs),
            language="+".join(self.languages),
            confidence=weigh_confidence(paragraphs),
            tier=Tier.EASYOCR,
            engine=f"{NAME} {self.version}",
        )


def _weights() -> Path:
    if find_spec(NAME) is None:
        raise Misconfigured(f"EasyOCR is not installed: {_ADVICE}", code="missing_tool")
    folder = Path.home() / ".EasyOCR" / "model"
    if not (folder / _DETECTOR).is_file():
        raise Misconfigured(f"EasyOCR has no weights in {folder}: {_ADVICE}", code="missing_tool")
    return folder


@cache
def _easyocr() -> Any:
    import easyocr

    return easyocr
