"""Pages as engines read them, and small scans for engines to read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.steps.ocr.read_pages import PageKind, ReadPage

PHOTOTEST = Path(__file__).resolve().parents[1] / "documents" / "corpus" / "image" / "phototest-rotated-R.png"
WORD_WIDTH, LETTER_HEIGHT, LINE_PITCH = 18, 30, 60


def make_line(
    words: Sequence[str], left: int, baseline: int, *, slope: float = 0.0, ascent: float = 30.0
) -> TextLine:
    """Words of equal letters beside each other on a line that falls by `slope`."""
    found = []
    at = left
    for word in words:
        right = at + max(1, WORD_WIDTH * len(word))
        low = baseline + round(slope * (at - left))
        found.append(TextWord(word, Box(at, low - LETTER_HEIGHT, right, low), 0.9))
        at = right + WORD_WIDTH
    boxes = [one.box for one in found]
    box = Box(
        left, min(one.top for one in boxes), max(one.right for one in boxes), max(one.bottom for one in boxes)
    )
    return TextLine(tuple(found), box, float(baseline), slope, ascent)


def make_page(
    lines: Iterable[Sequence[str]], *, width: int = 1000, height: int = 800, **fields: Any
) -> PageText:
    made = [make_line(words, 100, 100 + LINE_PITCH * place) for place, words in enumerate(lines)]
    paragraphs = (TextParagraph(tuple(made), Box(0, 0, width, height)),) if made else ()
    text = "\n".join(" ".join(word.text for word in line.words) for line in made)
    given: dict[str, Any] = {
        "dpi": 100,
        "confidence": 0.9,
        "engine": "tesseract 5",
        "is_valid": True,
        "text": text,
    }
    return PageText(width=width, height=height, paragraphs=paragraphs, **(given | fields))


def make_read(
    number: int, lines: Iterable[Sequence[str]], kind: PageKind = "read", **fields: Any
) -> ReadPage:
    reason = fields.pop("reason", "")
    return ReadPage(number=number, kind=kind, page=make_page(lines, **fields), reason=reason)


def open_scan() -> Image.Image:
    """A page of large type, black and white, at 200 dpi."""
    with Image.open(PHOTOTEST) as lying:
        return (
            lying.convert("L").rotate(90, expand=True).point(lambda level: 255 * (level > 128)).convert("1")
        )


def write_scan(target: Path, **options: Any) -> Path:
    open_scan().save(target, dpi=(200, 200), **options)
    return target


def write_book(target: Path, pages: int) -> Path:
    """A TIFF of this many equal pages."""
    page = open_scan()
    page.save(target, save_all=True, append_images=[page] * (pages - 1), compression="group4", dpi=(200, 200))
    return target
