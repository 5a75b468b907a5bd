"""Texts beside each other, and pictures of text."""

import re
import unicodedata
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_QUOTES = {0x201C: '"', 0x201D: '"', 0x201E: '"', 0x2018: "'", 0x2019: "'", ord("`"): "'"}
_FOLDED = _QUOTES | {0x2014: "-", 0x2013: "-"}


def fold(text: str) -> str:
    """Without what does not count: kinds of blanks, quotes and dashes."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text).translate(_FOLDED)).strip()


def error_rate(found: str, truth: str) -> float:
    """Characters that must be changed, put in or taken out, by those of the truth."""
    one, other = fold(found), fold(truth)
    letters = np.array([ord(character) for character in other])
    places = np.arange(len(other) + 1)
    row = places
    for number, character in enumerate(one, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(character)))
        row = np.minimum.accumulate(np.concatenate(([number], changed)) - places) + places
    return float(row[-1]) / max(1, len(other))


def picture_of(text: str, *, size: int = 40, width: int = 1200) -> Image.Image:
    """Lines of text in Pillow's own font, black on white."""
    font = ImageFont.load_default(size)
    lines = text.split("\n")
    picture = Image.new("L", (width, 60 + int(size * 1.6) * len(lines)), 255)
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((60, 30 + number * int(size * 1.6)), line, font=font, fill=0)
    return picture


def save_picture_of(text: str, path: Path, **options: int) -> Path:
    picture_of(text, **options).save(path)
    return path
