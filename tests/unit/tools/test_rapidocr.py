"""The engine as a guest: it leaves nothing behind and says nothing. What it reads: tests/documents."""

import subprocess
import sys

from quire.tools import rapidocr

OPEN = """
from quire.tools.rapidocr import RapidOcr
from quire.tools.pdfium import PageBitmap
engine = RapidOcr()
for side in (1, 2, 40):
    page = engine.read_page(PageBitmap(memoryview(b"\\xff" * side * side), side, side, 1), 0)
    assert (page.text, page.confidence, page.width) == ("", 0.0, side)
import logging
print(len(logging.getLogger().handlers))
"""


def test_it_is_here():
    assert rapidocr.probe().ok


def test_empty_pictures_are_read_without_a_word_in_the_logs_or_the_home_folder(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", OPEN],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    assert list(tmp_path.iterdir()) == []


WIDE = [(0.0, 0.0), (100.0, 0.0), (100.0, 10.0), (0.0, 10.0)]
TALL = [(0.0, 0.0), (10.0, 0.0), (10.0, 100.0), (0.0, 100.0)]
LETTER = [(0.0, 0.0), (10.0, 0.0), (10.0, 20.0), (0.0, 20.0)]


def test_a_page_lies_on_its_side_when_most_of_its_writing_is_tall():
    assert rapidocr.lie_on_their_side([TALL])
    assert rapidocr.lie_on_their_side([TALL, TALL, WIDE])
    assert not rapidocr.lie_on_their_side([WIDE, LETTER, LETTER])
    assert not rapidocr.lie_on_their_side([])


def test_a_few_lines_on_their_head_are_no_reason_to_turn_the_page():
    upright, head = ("0", 0.99), ("180", 0.99)
    assert not rapidocr.suspect_head([WIDE] * 6, [upright] * 5 + [head])
    assert rapidocr.suspect_head([WIDE] * 6, [upright] * 4 + [head] * 2)
    assert not rapidocr.suspect_head([], [])
