"""Quantities at the beginning of a line: digits, fractions, ranges, and number words.

Every pattern is anchored and has bounded repeats, so that hostile lines cost no more than plain ones.
"""

import re

from msgspec import Struct

_VULGAR = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_DIGITS = r"\d{1,6}(?:[.,]\d{1,4})?"
NUMBER = (
    rf"(?:\d{{1,4}}(?:\s{{1,2}}|\s?[-–]\s?|\s?&\s?|\s?\+\s?|\sand\s)\d{{1,2}}\s?[/⁄]\s?\d{{1,3}}"
    rf"|\d{{1,4}}\s?[/⁄]\s?\d{{1,4}}"
    rf"|\d{{1,4}}\s?(?:and\s)?[{_VULGAR}]"
    rf"|[{_VULGAR}]"
    rf"|{_DIGITS}|\.\d{{1,3}})"
)
_BETWEEN = r"(?:\s?(?:-|–|—|‐|‑|~)\s?|\s(?:to|or|bis|oder|à|a|ou|o)\s)"
_RANGE = re.compile(rf"(?:{NUMBER})(?:{_BETWEEN}{NUMBER})?\+?(?![\d/⁄])")
_ONES = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|"
    "ein|eine|einen|zwei|drei|vier|fünf|sechs|un|une|deux|trois|quatre|uno|una|due|tre|dos|tres"
)
_FRACTION_WORD = r"(?:half|halbe[rsn]?|(?:a |one )?quarter|third|(?:two|three)[- ](?:thirds|quarters))"
_WORDS = re.compile(
    rf"(?:(?:half an?|an? half|one[- ]half|{_FRACTION_WORD}|one[- ](?:quarter|third"
    rf"|fourth))(?: a)?(?: dozen)?"
    rf"|(?:a|half a|one|two|three)\s(?:dozen|couple|few)"
    rf"|(?:{_ONES})(?:\sand\sa\s(?:half|quarter))?(?:\s(?:to|or|bis|oder|ou)\s(?:{_ONES}))?"
    rf"|several|an?|dozen)(?=\s)",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:about|around|approximately|approx\.?|roughly|circa|ca\.?|etwa|environ|circa|at least"
    r"|up to|~|≈)\s?(?=[\w~" + _VULGAR + r".])",
    re.IGNORECASE,
)
_TIMES = re.compile(rf"\s?[x×X]\s?(?={NUMBER})")
# A lower case L, a capital I or a bar is a misread 1 where a unit follows that nobody writes after a word.
_MISREAD_ONE = re.compile(
    r"[lI|!](?=\s(?:cups?|tbsps?|tsps?|tablespoons?|teaspoons?|lbs?|oz|ounces?|pounds?|pints?|quarts?|kg)\b)"
)
_MISREAD_AFTER = re.compile(r"(?<=\d)[lI](?=\s?(?:/\s?\d|\d))")
_CAPITAL_OF_ONE = re.compile(r"[lI](?=/\d)")
# The space of `1 1/2` is lost: nobody writes eleven halves of a cup.
_LOST_SPACE = re.compile(r"(?P<whole>[1-9])(?P<part>1/[234568]|2/3|3/[48]|5/8|7/8)(?![\d/⁄])")
# The bar of a fraction is read as a seven, before a unit of which nobody takes a hundred.
_LOST_BAR = re.compile(
    r"(?:(?P<whole>[1-9])\s?)?(?P<part>1(?=7[23468])|2(?=73)|3(?=7[48]))7(?P<of>[23468])"
    r"(?=\s(?:cups?|tbsps?|tsps?|tablespoons?|teaspoons?)\b)"
)
# The unit of `225g` is read as a nine.
_LOST_GRAM = re.compile(r"(\d{1,2}[05])9(?=\s(?!(?:k?g|[mcd]?l|gr|grams?|oz)\b)[a-z]{2})")
_SPOON = re.compile(r"(?<=\s)thsp(?=s?\b)")


class Quantity(Struct, frozen=True):
    """The quantity as text, what stands before it (`about`), and where the rest of the line begins."""

    text: str
    about: str
    end: int
    in_words: bool = False


def read_quantity(line: str, start: int = 0) -> Quantity | None:
    """The quantity at this place of the line."""
    about = _ABOUT.match(line, start)
    begin = about.end() if about else start
    lead = about[0].strip() if about else ""
    found = _RANGE.match(line, begin)
    if found and not _is_no_quantity(line, found.end()):
        return Quantity(found[0].strip(), lead, found.end())
    words = _WORDS.match(line, begin)
    if words:
        return Quantity(words[0].strip(), lead, words.end(), in_words=True)
    return None


def times_at(line: str, place: int) -> int | None:
    """Where the size begins in `2 x 400 g`; None where no multiplication sign follows."""
    found = _TIMES.match(line, place)
    return found.end() if found else None


def repair_misread(line: str) -> str:
    """Undo the misreadings of OCR that can mean nothing else: `l cup`, `1l/2 cup`, `11/2 cups`, `172 tsp`,
    `2259 butter` and `3 thsp`.
    """
    repaired = _MISREAD_ONE.sub("1", line, count=1) if line[:1] in "lI|!" else line
    if line[:1] in "lI":
        repaired = _CAPITAL_OF_ONE.sub("1", repaired, count=1) if repaired[:1] in "lI" else repaired
    repaired = _SPOON.sub("tbsp", repaired, count=1)
    if gram := _LOST_GRAM.match(repaired):
        return f"{gram[1]}g{repaired[gram.end() :]}"
    if bar := _LOST_BAR.match(repaired):
        whole = f"{bar['whole']} " if bar["whole"] else ""
        return f"{whole}{bar['part']}/{bar['of']}{repaired[bar.end() :]}"
    lost = _LOST_SPACE.match(repaired)
    return f"{lost['whole']} {repaired[1:]}" if lost else repaired


def _is_no_quantity(line: str, end: int) -> bool:
    rest = line[end : end + 3].casefold()
    if rest[:1] in {".", ")"} and (rest[1:2].isspace() or rest[1:2].isalpha()) and "(" not in line[:end]:
        return True  # a number of a list
    return (rest[:2] in {"st", "nd", "rd", "th"} and not rest[2:3].isalpha()) or rest[:1] in {"°", "%"}
