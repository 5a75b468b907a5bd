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
from importlib import metadata
from threading import Lock
from typing import Any

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
_SHORTEST_SIDE = 30
_TALL = 1.5  # of height to width, from which the engine takes a line for one that lies on its side
_CERTAIN = 0.9  # that a line stands on its head
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
        width, height = (drawn.height, drawn.width) if rotation % 180 else (drawn.width, drawn.height)
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
        lines, turns = self._read_lines(drawn)
        if not turns:
            return lines, 0
        # Lines on their side are found only in part, and those on their head are in the wrong order.
        again, still = self._read_lines(bitmaps.turn(drawn, turns))
        return (lines, 0) if still else (again, turns)

    def _read_lines(self, drawn: PageBitmap) -> tuple[list[TextLine], int]:
        """The lines, and by how many degrees the picture should be turned."""
        if min(drawn.width, drawn.height) < _SHORTEST_SIDE // 10:
            return [], 0
        factor = max(1.0, max(drawn.width, drawn.height) / _LONGEST_SIDE)
        small = bitmaps.shrink(drawn, factor)
        try:
            found, classes, read, _ = self._engine.run_ocr_steps(_array(small), {})
        except Exception as error:  # any error of onnxruntime, OpenCV or numpy
            raise Retry(f"RapidOCR failed: {type(error).__name__}", code="ocr_engine_error") from error
        if found.boxes is None or not read.txts:
            return [], 0
        scale_x, scale_y = drawn.width / small.width, drawn.height / small.height
        quads = [
            [((x - _MARGIN) * scale_x, (y - _MARGIN) * scale_y) for x, y in quad]
            for quad in found.boxes.tolist()
        ][:_MOST_BOXES]
        turns = _find_turn(quads, classes.cls_res or [], read.txts)
        lines = [
            line_of_quad(quad, text, float(score), columns)
            for quad, text, score, columns in zip(
                quads, read.txts, read.scores, read.word_results, strict=False
            )
            if text.strip()
        ]
        return [clip_line(line, drawn) for line in lines], turns


def _array(bitmap: PageBitmap) -> Any:
    """Blue, green, red, with a white margin: text at the very edge is not found otherwise."""
    import numpy as np

    flat = np.frombuffer(bitmap.data, dtype=np.uint8)
    rows = flat.reshape(bitmap.height, bitmap.width, bitmap.bands)
    colours = np.repeat(rows, 3, axis=2) if bitmap.bands == 1 else rows[:, :, ::-1]
    margins = ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0))
    return np.ascontiguousarray(np.pad(colours, margins, constant_values=255))


def _find_turn(quads: list[Quad], classes: list[tuple[str, float]], texts: tuple[str, ...]) -> int:
    """How far the picture should be turned clockwise, by what most letters say. The engine turns a tall line
    against the clock before it looks whether it stands on its head.
    """
    votes = {0: 0, 90: 0, 180: 0, 270: 0}
    for quad, (label, certainty), text in zip(quads, classes, texts, strict=False):
        flipped = label == "180" and certainty > _CERTAIN
        width, height = extent(quad)
        turns = (90 if flipped else 270) if height >= _TALL * width else (180 if flipped else 0)
        # A single letter, or a column of Chinese, is tall as it stands.
        if turns in {0, 180} or height >= 2 * _TALL * width:
            votes[turns] += len(text)
    most = max(votes, key=lambda turns: votes[turns])
    return most if votes[most] > sum(votes.values()) / 2 else 0


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
