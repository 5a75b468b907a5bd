"""Takes ingredients apart that were written as one string."""

import re

from quire.steps.recipe.ingredient import clean_line
from quire.steps.recipe.quantity import read_quantity

_BULLETS = re.compile(r"\s[•·▢◦‣|;]\s|;\s")
_COMMA = re.compile(r",\s(?=(?:\d|[½¼¾⅓⅔⅛]|an? |one |two |pinch ))", re.IGNORECASE)
_SHORTEST = 3


def split_ingredients(lines: list[str]) -> list[str]:
    """The ingredients of these lines: more than the lines only if there is one, which holds a list."""
    if len(lines) == 1:
        for separator in (_BULLETS, _COMMA):
            parts = [part.strip(" ,;") for part in separator.split(lines[0]) if part.strip(" ,;")]
            if len(parts) >= _SHORTEST and _look_like_ingredients(parts):
                lines = parts
                break
        else:
            commas = [part.strip() for part in lines[0].split(",") if part.strip()]
            if len(commas) >= 4 and all(len(part.split()) <= 4 for part in commas):
                lines = commas
    return [line for line in (clean_line(line) for line in lines) if line]


def _look_like_ingredients(parts: list[str]) -> bool:
    counted = sum(1 for part in parts if read_quantity(part) or len(part.split()) <= 3)
    return counted * 2 >= len(parts)
