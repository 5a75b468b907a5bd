"""Times: from ISO 8601 durations and from words to minutes.

Wrong forms that real pages hold are read as they were meant (`PT1H20`, `P0DT30M`, `1H30M`); negative and
absurd times are refused. Linear in the length of the text, of which only the beginning is looked at.
"""

import re
from fractions import Fraction

MOST_MINUTES = 30 * 24 * 60
_OVERNIGHT_MINUTES = 480
_LONGEST_TEXT = 2000
_LONGEST_ISO = 60

_ISO = re.compile(
    r"P\s?(?:(?P<years>\d{1,6}(?:[.,]\d{1,3})?)Y)?(?:(?P<months>\d{1,6}(?:[.,]\d{1,3})?)M)?"
    r"(?:(?P<weeks>\d{1,6}(?:[.,]\d{1,3})?)W)?(?:(?P<days>\d{1,9}(?:[.,]\d{1,3})?)D)?"
    r"(?:\s?T?\s?(?:(?P<hours>\d{1,9}(?:[.,]\d{1,3})?)H)?\s?(?:(?P<minutes>\d{1,9}(?:[.,]\d{1,3})?)(?:MINS?"
    r"|M))?"
    r"\s?(?:(?P<seconds>\d{1,9}(?:[.,]\d{1,9})?)S)?)?\s?(?P<tail>\d{0,6})",
    re.IGNORECASE,
)
_NUMBER = (
    r"(?:\d{1,5}\s\d{1,2}/\d{1,2}|\d{1,5}/\d{1,2}|\d{1,5}(?:[.,]\d{1,2})?\s?[½¼¾⅓⅔]?|[½¼¾⅓⅔]|an?|one"
    r"|two|three|four|five|six|eight|ten|twelve|half an?)"
)
_DAYS = r"(?:days?|tage?n?|jours?|giorn[oi]|d[ií]as?)"
_HOURS = r"(?:hours?|hrs?|h|stunden?|std|heures?|or[ae]|horas?|uur)"
_MINUTES = r"(?:minutes?|minutos?|minuti?|minuten?|mins?|min|m|′|')"
_SECONDS = r"(?:seconds?|secs?|sekunden?|s)"
_AMOUNT = re.compile(
    rf"(?<![\d.,/\w])(?P<low>{_NUMBER})(?:\s?(?:-|–|—|to|or|bis|à"
    rf"|a)\s?(?P<high>{_NUMBER}))?\s?(?:and a half\s)?"
    rf"(?P<unit>{_DAYS}|{_HOURS}|{_MINUTES}|{_SECONDS})(?![^\W\d_])\.?(?P<half>\sand a half)?",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    rf"[\s,]{{0,3}}(?:and|und|et|e|y|&|\+)?\s{{0,2}}(?P<low>{_NUMBER})\s?(?P<unit>{_HOURS}"
    rf"|{_MINUTES})?(?![\w/.])",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2}):([0-5]\d)(?::[0-5]\d)?(?![\d:])(?!\s?[ap]\.?m\b)", re.IGNORECASE)
_HALF_HOUR = re.compile(r"\bhalf[- ](?:an )?hour|\bhalbe stunde|\bdemi-heure", re.IGNORECASE)
_OVERNIGHT = re.compile(r"\bovernight\b|\bover night\b|\büber nacht\b", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:P\s?T?\s?)?[-−]", re.IGNORECASE)
_BARE = re.compile(r"\s{0,3}(\d{1,5})\s{0,3}\Z")
_VULGAR = {
    "½": Fraction(1, 2),
    "¼": Fraction(1, 4),
    "¾": Fraction(3, 4),
    "⅓": Fraction(1, 3),
    "⅔": Fraction(2, 3),
}
_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10,
    "twelve": 12,
}  # fmt: skip


def parse_minutes(text: str) -> int | None:
    """Read the first time in the text: `PT1H20M`, `1 hr 10`, `20-25 minutes` (25), `overnight` (480).

    None for no time, a negative one, or one above 30 days.
    """
    shown = text[:_LONGEST_TEXT].strip()
    if not shown or _NEGATIVE.match(shown):
        return None
    if len(shown) <= _LONGEST_ISO and shown[0] in "pP" and (iso := _ISO.fullmatch(shown)):
        return _read_iso(iso)
    bare = _BARE.match(shown)
    if bare:
        return _within(int(bare[1]))
    return _read_words(shown)


def _read_iso(found: re.Match[str]) -> int | None:
    parts = {name: _decimal(value) for name, value in found.groupdict().items() if value}
    tail = parts.pop("tail", Fraction(0))
    if not parts:
        return None
    minutes = (
        parts.get("years", 0) * 525_600
        + parts.get("months", 0) * 43_200
        + parts.get("weeks", 0) * 10_080
        + parts.get("days", 0) * 1440
        + parts.get("hours", 0) * 60
        + parts.get("minutes", 0)
        + parts.get("seconds", Fraction(0)) / 60
        + tail
    )
    return _within(minutes)


def _read_words(text: str) -> int | None:
    places = [
        (found.start(), rank, found)
        for rank, found in enumerate(
            (_AMOUNT.search(text), _CLOCK.search(text), _HALF_HOUR.search(text), _OVERNIGHT.search(text))
        )
        if found
    ]
    if not places:
        return None
    _, rank, first = min(places, key=lambda place: place[:2])
    if rank == 1:
        return _within(int(first[1]) * 60 + int(first[2]))
    if rank == 2:
        return 30
    if rank == 3:
        return _OVERNIGHT_MINUTES
    return _read_amount(text, first)


def _read_amount(text: str, first: re.Match[str]) -> int | None:
    factor = _minutes_of(first["unit"])
    total = _value(first["high"] or first["low"]) * factor
    if first["half"]:
        total += Fraction(factor) / 2
    place, smaller = first.end(), factor
    # `1 hr 10` and `1 day 2 hours 5 min`: units only become smaller.
    while smaller > 1 and (more := _FOLLOWS.match(text, place)):
        unit = _minutes_of(more["unit"]) if more["unit"] else Fraction(1)
        if unit >= smaller or (more["unit"] is None and (smaller != 60 or more.end() != len(text))):
            break
        total += _value(more["low"]) * unit
        place, smaller = more.end(), unit
    return _within(total)


def _minutes_of(unit: str) -> Fraction:
    name = unit.casefold().rstrip(".")
    if re.fullmatch(_DAYS, name):
        return Fraction(1440)
    if re.fullmatch(_HOURS, name):
        return Fraction(60)
    return Fraction(1) if re.fullmatch(_MINUTES, name) else Fraction(1, 60)


def _value(text: str) -> Fraction:
    word = text.casefold().strip()
    if word in _WORDS:
        return Fraction(_WORDS[word])
    if word.startswith("half"):
        return Fraction(1, 2)
    total = Fraction(0)
    for part in re.sub(r"([½¼¾⅓⅔])", r" \1", word).split():
        if part in _VULGAR:
            total += _VULGAR[part]
        elif "/" in part:
            above, _, below = part.partition("/")
            total += Fraction(int(above), int(below)) if int(below) else 0
        else:
            total += _decimal(part)
    return total


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", "."))


def _within(minutes: Fraction | int) -> int | None:
    rounded = int(minutes + Fraction(1, 2))
    return rounded if 0 < rounded <= MOST_MINUTES else None
