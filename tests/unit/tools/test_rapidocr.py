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


def test_the_turn_is_what_most_letters_say():
    wide = [(0.0, 0.0), (100.0, 0.0), (100.0, 10.0), (0.0, 10.0)]
    tall = [(0.0, 0.0), (10.0, 0.0), (10.0, 100.0), (0.0, 100.0)]
    sure, unsure = ("180", 0.99), ("180", 0.5)
    upright = ("0", 0.99)
    assert rapidocr._find_turn([wide], [upright], ("text",)) == 0
    assert rapidocr._find_turn([wide], [sure], ("text",)) == 180
    assert rapidocr._find_turn([wide], [unsure], ("text",)) == 0
    assert rapidocr._find_turn([tall], [upright], ("text",)) == 270
    assert rapidocr._find_turn([tall], [sure], ("text",)) == 90
    assert rapidocr._find_turn([wide, tall], [upright, upright], ("a long text", "I")) == 0
    assert rapidocr._find_turn([], [], ()) == 0
