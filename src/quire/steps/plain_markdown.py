"""Markdown from plain lines, for pages whose converter failed or whose text was recognised.

Promises: every word of the lines is there, in their order and their lines; nothing in them is taken for
markup. Larger letters make headings, bullets make lists, a short line ends its paragraph; tables are not
looked for.
"""

import re
from collections import Counter
from collections.abc import Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")
_AT_START = re.compile(r"^(#{1,6}|[-+=>~]+|\d{1,9}[.)])(?=\s|$)|^([-=~]{3,})")
_BULLET = re.compile(r"^[•‣◦▪●·∙]\s*|^[-\u2013\u2014*]\s+")
_NUMBERED = re.compile(r"^(\d{1,3})[.)]\s+(?=\S)")
_BROKEN = ("\ufffe", "\u00ad", "\x02")  # a hyphen at the end of a line, as PDFium tells it
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_LONGEST_HEADING = 120
_HEADINGS = ((1.6, "# "), (1.3, "## "), (1.15, "### "))  # by how much larger than most letters
_FULL = 0.8  # of the usual width: a line this long goes on in the next one


def escape(words: str) -> str:
    """Escape one line of text, so that Markdown shows it unchanged."""
    return _AT_START.sub(r"\\\g<0>", _SPECIAL.sub(r"\\\1", words))


def from_lines(lines: Sequence[tuple[str, float]]) -> str:
    """`lines` with the sizes of their letters, 0 where not known."""
    body = _body_size(lines)
    widths = sorted(len(words) for words, _ in lines)
    usual = widths[len(widths) * 9 // 10] if widths else 0
    blocks: list[str] = []
    paragraph = ""
    for words, size in lines:
        level = _heading(words, size, body)
        listed = "" if level else _list_mark(words)
        if level or listed:
            blocks += [paragraph] if paragraph else []
            paragraph = ""
        if level:
            blocks.append(level + _clean(words))
            continue
        text = listed + _clean(_strip_list_mark(words)) if listed else _clean(words)
        paragraph = _join_lines(paragraph, text)
        if len(words) < _FULL * usual and not words.endswith(_BROKEN):
            blocks.append(paragraph)
            paragraph = ""
        elif words.endswith(_BROKEN):
            paragraph += _BROKEN[0]
    blocks += [paragraph] if paragraph else []
    return "\n\n".join(_CONTROL.sub("", block) for block in blocks if block.strip())


def from_recognised(text: str) -> str:
    """Recognised text separates paragraphs by empty lines."""
    blocks = (block.split("\n") for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")))
    joined = (" ".join(line.strip() for line in block if line.strip()) for block in blocks)
    return "\n\n".join(_CONTROL.sub("", escape(block)) for block in joined if block)


def _join_lines(paragraph: str, text: str) -> str:
    if paragraph.endswith(_BROKEN):
        return paragraph.rstrip("".join(_BROKEN)) + text
    return f"{paragraph}\n{text}" if paragraph else text


def _clean(words: str) -> str:
    return escape(words.rstrip("".join(_BROKEN)))


def _body_size(lines: Sequence[tuple[str, float]]) -> float:
    sizes: Counter[float] = Counter()
    for words, size in lines:
        sizes[round(size, 1)] += len(words)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _heading(words: str, size: float, body: float) -> str:
    if body <= 0 or len(words) > _LONGEST_HEADING or size < _HEADINGS[-1][0] * body:
        return ""
    if not any(letter.isalpha() for letter in words):
        return ""
    return next(mark for ratio, mark in _HEADINGS if size >= ratio * body)


def _list_mark(words: str) -> str:
    if _BULLET.match(words):
        return "- "
    numbered = _NUMBERED.match(words)
    return f"{numbered[1]}. " if numbered else ""


def _strip_list_mark(words: str) -> str:
    return _NUMBERED.sub("", _BULLET.sub("", words, count=1), count=1)
