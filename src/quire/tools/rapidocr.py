"""RapidOCR: the models PP-OCRv6 on onnxruntime, both inside their packages. The engine of tier paddleocr.

Promises: nothing is fetched, reported or logged; one thread of computing for one engine; lines come in
reading order, column by column; a page that lies on its side or on its head is read upright. Has no languages
to choose from: the models know Latin, Chinese and Japanese letters, and take others for some of those.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, metadata
from threading import Lock
from typing import Any, NamedTuple

from quire.model.errors import Misconfigured, Retry
from quire.model.page_text import PageText, TextLine, Tier
from quire.model.probe import Probe
from quire.tools import bitmaps
from quire.tools.page_geometry import join_text, weigh_confidence
from quire.tools.pdfium import PageBitmap
from quire.tools.quad_lines import Quad, clip_line, extent, line_of_quad
from quire.tools.reading_order import arrange_lines

NAME = "rapidocr"
_ADVICE = 'pip install "quire[ocr]" (rapidocr and onnxruntime)'
_LONGEST_SIDE = 2000  # pixels: the models expect letters of screen size, and lose spaces above
_SHORTEST_SIDE = 3
_MOST_TURNS = 3
_TALL = 1.5  # of height to width, from which the engine takes a line for one that lies on its side
_SUSPECT = 0.2  # of the writing, from which on it is tried which way it reads better
_TRIED_LINES = 3
_FATAL = 4  # of the severities of onnxruntime
_MOST_BOXES = 3000
_MARGIN = 32


def probe() -> Probe:
    try:
        _rapidocr()
    except Misconfigured as error:
        return Probe(name="RapidOCR", ok=False, advice=str(error))
    return Probe(name="RapidOCR", ok=True, detail=metadata.version("rapidocr"))


class RapidOcr:
    """An open engine. Raises Misconfigured when the packages are not there."""

    def __init__(self) -> None:
        library = _rapidocr()
        self.version = metadata.version("rapidocr")
        self._lock = Lock()
        self._nothing_found: type[Exception] = import_module("rapidocr.main").RapidOCRError
        self._engine = library.RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.return_word_box": True,
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def close(self) -> None:
        self._engine = None

    def read_page(self, drawn: PageBitmap, dpi: int) -> PageText:
        """The text with its places. Raises Retry (`ocr_engine_error`) when the engine fails."""
        with self._lock:
            lines, rotation = self._read_upright(drawn)
        width, height = bitmaps.turned_size(drawn, rotation)
        paragraphs = arrange_lines(lines)
        return PageText(
            width=width,
            height=height,
            dpi=dpi,
            rotation=rotation,
            paragraphs=paragraphs,
            text=join_text(paragraphs),
            confidence=weigh_confidence(paragraphs),
            tier=Tier.PADDLEOCR,
            engine=f"{NAME} {self.version}",
        )

    def _read_upright(self, drawn: PageBitmap) -> tuple[list[TextLine], int]:
        """The lines, and by how many degrees the picture was turned for them."""
        if min(drawn.width, drawn.height) < _SHORTEST_SIDE:
            return [], 0
        small = bitmaps.shrink(drawn, max(drawn.width, drawn.height) / _LONGEST_SIDE)
        try:
            found, rotation = self._find_lines(small)
            if found is None:
                return [], 0
            read = self._engine.recognize_txt(found.crops)
        except self._nothing_found:
            return [], 0
        except Exception as error:  # any error of onnxruntime, OpenCV or numpy
            raise Retry(f"RapidOCR failed: {type(error).__name__}", code="ocr_engine_error") from error
        upright = bitmaps.turned_size(drawn, rotation)
        scale_x, scale_y = upright[0] / found.size[0], upright[1] / found.size[1]
        scaled = [[(x * scale_x, y * scale_y) for x, y in quad] for quad in found.quads]
        lines = [
            clip_line(line_of_quad(quad, text, float(score), columns), *upright)
            for quad, text, score, columns in zip(
                scaled, read.txts, read.scores, read.word_results, strict=False
            )
            if text.strip()
        ]
        return lines, rotation

    def _find_lines(self, small: PageBitmap) -> tuple["_FoundLines | None", int]:
        """Where lines are on the upright picture. All lines are turned together: some that are upright the
        model for that takes for lines on their head, and nonsense would be read on them.
        """
        rotation, first = 0, None
        for _ in range(_MOST_TURNS):
            turned = bitmaps.turn(small, rotation)
            crops, found = self._engine.detect_and_crop(_array(turned), {})
            quads = [[(x - _MARGIN, y - _MARGIN) for x, y in quad] for quad in found.boxes.tolist()]
            lines = _FoundLines(quads[:_MOST_BOXES], crops[:_MOST_BOXES], (turned.width, turned.height))
            first = first or lines
            _, classes = self._engine.cls_and_rotate(lines.crops)
            is_tall = lie_on_their_side(lines.quads)
            on_head = suspect_head(lines.quads, classes.cls_res or []) and self._stand_on_head(lines)
            # The engine has turned tall lines against the clock.
            turns = (90 if on_head else 270) if is_tall else (180 if on_head else 0)
            if not turns:
                return lines, rotation
            rotation = (rotation + turns) % 360
        return first, 0

    def _stand_on_head(self, lines: "_FoundLines") -> bool:
        """Whether a few lines read better the other way round."""
        middle = sorted(lines.crops, key=lambda crop: crop.shape[1])[len(lines.crops) // 3 :][:_TRIED_LINES]
        read = self._engine.recognize_txt([*middle, *(_head_over(crop) for crop in middle)])
        upright, turned = (read.scores[: len(middle)], read.scores[len(middle) :])
        return float(sum(turned)) > float(sum(upright))


class _FoundLines(NamedTuple):
    quads: list[Quad]
    crops: list[Any]
    size: tuple[int, int]


def _array(bitmap: PageBitmap) -> Any:
    """Blue, green, red, with a white margin: text at the very edge is not found otherwise."""
    import numpy as np

    flat = np.frombuffer(bitmap.data, dtype=np.uint8)
    rows = flat.reshape(bitmap.height, bitmap.width, bitmap.bands)
    colours = np.repeat(rows, 3, axis=2) if bitmap.bands == 1 else rows[:, :, ::-1]
    margins = ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0))
    return np.ascontiguousarray(np.pad(colours, margins, constant_values=255))


def _head_over(crop: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(np.rot90(crop, 2))


def lie_on_their_side(quads: list[Quad]) -> bool:
    """Whether most of the writing runs up or down. A single letter, or a column of Chinese, is tall as it
    stands.
    """
    sizes = [extent(quad) for quad in quads]
    tall = sum(height for width, height in sizes if height >= 2 * _TALL * width)
    return tall > sum(width for width, height in sizes if height < _TALL * width)


def suspect_head(quads: list[Quad], classes: list[tuple[str, float]]) -> bool:
    """Whether the model takes a good part of the lines for lines on their head."""
    lengths = [max(extent(quad)) for quad in quads]
    flipped = sum(length for length, (label, _) in zip(lengths, classes, strict=False) if label == "180")
    return flipped > _SUSPECT * sum(lengths)


@contextmanager
def _silence() -> Iterator[None]:
    """For native code that writes to the standard error before it can be told not to: onnxruntime complains
    of graphics cards that it may not look for.
    """
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


@cache
def _rapidocr() -> Any:
    # Before the import: onnxruntime would leave a number of this machine in the home folder, and report home.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        with _silence():
            import onnxruntime
        import rapidocr
    except (ImportError, OSError) as error:
        raise Misconfigured(f"RapidOCR cannot be loaded ({error}): {_ADVICE}", code="missing_tool") from error
    onnxruntime.disable_telemetry_events()  # where something else has imported it before
    onnxruntime.set_default_logger_severity(_FATAL)
    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    return rapidocr
