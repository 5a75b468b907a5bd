"""Checks a converter's Markdown against the text of the page, as PDFium or the converter read it.

Promises: lost text and text out of order are found; a page with all lines in order passes after a few
searches, because every page of every document goes through here. PDFium's order is the one of the content,
which beat every engine's own on the sets that were measured. Knows no pages and no files.
"""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

_ENOUGH_IN_ORDER = 0.9  # of the letters, in lines found one after the other: nothing else is looked at
_LEAST_KEPT = 0.9  # of the letters and digits, wherever they stand
_LEAST_IN_ORDER = 0.8  # of the neighbouring words; columns read across have about 0.75
_MARGIN = 0.05  # by which the two texts of one page may differ in these shares
_FEWEST_WORDS = 40  # below, a caption read before its picture makes half a page out of order
# Markup is left away, and signs are made alike that converters write in the simpler way.
_MARKUP = str.maketrans(
    dict.fromkeys("*`#\\•\x02\u00ad\ufffe")
    | {"|": " "}
    | dict.fromkeys("\u2018\u2019", "'")
    | dict.fromkeys("\u201c\u201d", '"')
    | dict.fromkeys("\u2013\u2014\u2212", "-")
)
_WORD = re.compile(r"[^\s|*_`#\\<>\[\]()]+")
_RULE = "|---"
_ALPHABET = 150


def is_doubtful(markdown: str, text: str) -> bool:
    """Whether there is a fault, or nearly one: for text that is close to PDFium's, but not the same."""
    return bool(find_fault(markdown, text, _MARGIN))


def find_fault(markdown: str, text: str, margin: float = 0.0) -> str:
    """What is wrong with the Markdown; empty when nothing is."""
    if _in_order(markdown, text):
        return ""
    kept = _kept(markdown, text)
    if kept < _LEAST_KEPT + margin:
        return f"the converter lost {1 - kept:.0%} of the text"
    # A table is read by rows here and by columns there, and both are right.
    if _RULE not in markdown:
        order = _neighbours_kept(markdown, text)
        if order < _LEAST_IN_ORDER + margin:
            return (
                f"the converter changed the order of the text ({order:.0%} of the words stand as on the page)"
            )
    return ""


def _in_order(markdown: str, text: str) -> bool:
    plain = " ".join(markdown.translate(_MARKUP).split())
    at = found = whole = 0
    for line in text.translate(_MARKUP).split("\n"):
        words = line.strip()
        whole += len(words)
        place = plain.find(words, at)
        if place >= 0:
            found += len(words)
            at = place + len(words)
    return found >= _ENOUGH_IN_ORDER * whole


def _kept(markdown: str, text: str) -> float:
    """By letters, not words: readers split words differently."""
    letters = set(text)
    # Counting one by one is faster for an alphabet, but too slow for a page with thousands of signs.
    few = len(letters) <= _ALPHABET
    here: Mapping[str, int] = {one: text.count(one) for one in letters} if few else Counter(text)
    there: Mapping[str, int] = {one: markdown.count(one) for one in letters} if few else Counter(markdown)
    whole = lost = 0
    for letter, count in here.items():
        if letter.isalnum():
            whole += count
            lost += max(0, count - there.get(letter, 0))
    return 1 - lost / whole if whole else 1.0


def _neighbours_kept(markdown: str, text: str) -> float:
    expected = _WORD.findall(text)
    if len(expected) < _FEWEST_WORDS:
        return 1.0
    pairs = Counter(pairwise(expected))
    kept = pairs & Counter(pairwise(_WORD.findall(markdown)))
    return kept.total() / pairs.total()
