"""RapidOCR: the models PP-OCRv6 on onnxruntime, both inside their wheels. The engine behind tier paddleocr.

Promises: nothing is fetched and nothing logged; one thread of computing for one engine; lines come in reading
order, column by column; a page that lies on its side or on its head is read upright. Has no languages to
choose from: the models know Latin, Greek, Chinese and Japanese letters, and take others for some of those.
"""

import logging
import re
from functools import cache
from importlib import metadata
from math import dist
from threading import Lock
from typing import Any

from msgspec import structs

from quire.model.errors import Misconfigured, Retry
from quire.model.page_text import Box, PageText, TextLine, TextWord
from quire.model.probe import Probe
from quire.tools import bitmaps
from quire.tools.page_geometry import join_text, weigh_confidence
from quire.tools.pdfium import PageBitmap
from quire.tools.reading_order import arrange_lines

TIER = "paddleocr"
NAME = "rapidocr"
_ADVICE = 'pip install "quire[ocr]" (rapidocr and onnxruntime)'
_LONGEST_SIDE = 2000  # pixels: the models expect letters of screen size, and lose spaces above
_SHORTEST_SIDE = 30
_TALL = 1.5  # of height to width, from which the engine takes a line for one that lies on its side
_CERTAIN = 0.9  # that a line stands on its head
_ASCENT = 0.75  # of the height of a line's box, above the baseline
_PADDING = 0.1  # of it, above tall letters
_MOST_BOXES = 3000
_MARGIN = 32
_WORD = re.compile(r"\S+")

Quad = list[tuple[float, float]]


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
            tier=TIER,
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
            _line(quad, text, float(score), columns)
            for quad, text, score, columns in zip(
                quads, read.txts, read.scores, read.word_results, strict=False
            )
            if text.strip()
        ]
        return [_clip(line, drawn) for line in lines], turns


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
        width, height = _extent(quad)
        turns = (90 if flipped else 270) if height >= _TALL * width else (180 if flipped else 0)
        # A single letter, or a column of Chinese, is tall as it stands.
        if turns in {0, 180} or height >= 2 * _TALL * width:
            votes[turns] += len(text)
    most = max(votes, key=lambda turns: votes[turns])
    return most if votes[most] > sum(votes.values()) / 2 else 0


def _extent(quad: Quad) -> tuple[float, float]:
    return dist(quad[0], quad[1]), dist(quad[1], quad[2])


def _line(quad: Quad, text: str, score: float, columns: Any) -> TextLine:
    """A line with its words, whose places follow from the columns in which the model saw their letters."""
    left, right = min(x for x, _ in quad), max(x for x, _ in quad)
    top, bottom = min(y for _, y in quad), max(y for _, y in quad)
    (left_x, left_y), (right_x, right_y) = quad[3], quad[2]
    slope = (right_y - left_y) / (right_x - left_x) if right_x - left_x >= 1 else 0.0
    height = _extent(quad)[1]
    centres, certainties = _letters(text, score, columns)
    words = []
    for found in _WORD.finditer(text):
        span = centres[found.start() : found.end()]
        half = (
            0.5 * (span[-1] - span[0]) / (len(span) - 1) if len(span) > 1 else 0.3 * height / (right - left)
        )
        start, end = max(0.0, span[0] - half), min(1.0, span[-1] + half)
        sunk = slope * (right - left)
        upper, lower = min(start * sunk, end * sunk), max(start * sunk, end * sunk)
        first = top if sunk >= 0 else top - sunk
        box = Box(
            round(left + start * (right - left)),
            round(first + upper),
            max(round(left + end * (right - left)), round(left + start * (right - left)) + 1),
            max(round(first + lower + height), round(first + upper) + 1),
        )
        certain = certainties[found.start() : found.end()]
        words.append(TextWord(found[0], box, round(sum(certain) / len(certain), 4)))
    around = Box(
        round(left), round(top), max(round(right), round(left) + 1), max(round(bottom), round(top) + 1)
    )
    baseline = left_y - (1 - _ASCENT - _PADDING) * height
    return TextLine(
        tuple(words), around, round(baseline, 2), round(slope, 5), round((_ASCENT - _PADDING) * height, 2)
    )


def _letters(text: str, score: float, columns: Any) -> tuple[list[float], list[float]]:
    """For each letter its middle, from 0 to 1 along the line, and how certain it is."""
    places = [column for word in getattr(columns, "word_cols", ()) for column in word]
    certainties = [float(one) for one in getattr(columns, "confs", ())]
    length = getattr(columns, "line_txt_len", 0)
    if not length or len(certainties) != len(text) or len(places) != sum(not one.isspace() for one in text):
        return [(at + 0.5) / len(text) for at in range(len(text))], [score] * len(text)
    following = iter(places)
    centres = [0.0 if one.isspace() else min(1.0, (next(following) + 0.5) / length) for one in text]
    return centres, certainties


def _clip(line: TextLine, picture: PageBitmap) -> TextLine:
    """Within the picture: a box may reach into the margin that was put around it."""

    def within(box: Box) -> Box:
        left, top = min(max(box.left, 0), picture.width - 1), min(max(box.top, 0), picture.height - 1)
        right, bottom = min(box.right, picture.width), min(box.bottom, picture.height)
        return Box(left, top, max(right, left + 1), max(bottom, top + 1))

    words = tuple(TextWord(word.text, within(word.box), word.confidence) for word in line.words)
    return structs.replace(line, words=words, box=within(line.box))


@cache
def _rapidocr() -> Any:
    try:
        import onnxruntime  # noqa: F401 - rapidocr looks for it when the engine is opened
        import rapidocr
    except (ImportError, OSError) as error:
        raise Misconfigured(f"RapidOCR cannot be loaded ({error}): {_ADVICE}", code="missing_tool") from error
    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    return rapidocr
