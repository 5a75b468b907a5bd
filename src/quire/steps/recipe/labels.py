"""Times and servings by their labels: `Prep: 15 min`, `Serves 4`, `Makes 12 cookies`, `Yield`.

Labels and values may stand in one line, several in a line, or the value in the next line.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from quire.steps.recipe.duration import parse_minutes

_KINDS = (
    ("prep",
        (
            r"prep(?:aration)?(?:[ -]?time)?|active(?: time)?|hands[- ]on(?: time)?|vorbereitung(?:szeit)?"
            r"|zubereitungszeit|temps de pr[ée]paration|tempo di preparazione"
        )),
    ("cook",
        (
            r"(?:cook(?:ing)?|bak(?:e|ing)|roast(?:ing)?|grill(?:ing)?)(?:[ -]?time)?"
            r"|koch-?/?(?:back)?zeit|kochzeit|backzeit|garzeit|(?:temps de )?cuisson|tempo di cottura"
        )),
    ("total",
        (
            r"total(?:[ -]?time)?|ready in|(?:^|[|•·;]\s?)time|gesamtzeit|gesamt|temps total|tempo totale"
            r"|duration|takes"
        )),
)  # fmt: skip
_TIME = tuple(
    (
        kind,
        re.compile(
            rf"(?<![\w-])(?:{label})(?:\s?\([a-z ]{{0,20}}\))?\s{{0,2}}(?:(?P<mark>[:=–-])\s{{0,3}}"
            rf"|\s(?=\d)|$)",
            re.IGNORECASE,
        ),
    )
    for kind, label in _KINDS
)
_VALUE = re.compile(
    r"(?:about |approx\.? |ca\.? |~)?(?:\d[\d\s./½¼¾⅓⅔:,–-]{0,12}(?:to \d{1,4} )?\s?(?:d(?:ays?)?"
    r"|h(?:ou)?rs?|hours?|h|std\.?|stunden?|min(?:ute[sn]?|s|uti)?\.?"
    r"|m)(?![a-z])[\s,]{0,2}(?:and )?){1,3}(?:\d{1,2}(?!\d))?|overnight|(?:half )?an hour"
    r"|PT\w{2,12}",
    re.IGNORECASE,
)
_SERVINGS = re.compile(
    r"(?<![\w-])(?:(?P<label>servings?|serves|yields?|makes|portions?|portionen|personen|porzioni"
    r"|raciones|für)(?P<mark>\s?[:=])?\s{0,3}(?:about |approx\.? |up to )?(?P<value>(?:\d|a dozen"
    r"|one|two|three|four|six|eight|ten|twelve)[^|•;\n]{0,50})?"
    r"|(?P<before>\d{1,3}(?:\s?[-–]\s?\d{1,3})?)\s(?:servings?|portionen|personen|portions|people"
    r"|personnes|persone|personas)\b)",
    re.IGNORECASE,
)
_VARIES = re.compile(r"servings?:?\s{1,3}(varies)\b", re.IGNORECASE)
_LONGEST_LINE = 160


class Labels(Struct, frozen=True):
    """What the labels said. `used` are the numbers of the lines that hold nothing else."""

    prep: int | None = None
    cook: int | None = None
    total: int | None = None
    servings: str = ""
    used: frozenset[int] = frozenset()


def read_labels(lines: Sequence[str]) -> Labels:
    """Look for labels in lines that come before the steps."""
    times: dict[str, int] = {}
    servings = ""
    used: set[int] = set()
    for number, line in enumerate(lines):
        # A wrapped sentence may begin with `time 3 mins, this depends on …`.
        if len(line) > _LONGEST_LINE or (line[:1].islower() and len(line.split()) > 5):
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        for kind, pattern in _TIME:
            found = pattern.search(line)
            if found is None or kind in times:
                continue
            value = _VALUE.match(line, found.end())
            if value is None and found.end() >= len(line.rstrip()) and (value := _VALUE.match(following)):
                used.add(number + 1)
            minutes = parse_minutes(value[0]) if value else None
            if minutes:
                times[kind] = minutes
                used.add(number)
        if not servings:
            servings, at_next = _read_servings(line, following)
            if servings:
                used.update((number, number + 1) if at_next else (number,))
    return Labels(times.get("prep"), times.get("cook"), times.get("total"), servings, frozenset(used))


def _read_servings(line: str, following: str) -> tuple[str, bool]:
    varies = _VARIES.search(line)
    if varies:
        return varies[1], False
    found = _SERVINGS.search(line)
    if found is None:
        return "", False
    if found["before"]:
        return found["before"], False
    label = found["label"].casefold()
    if found["value"]:
        # `Serves many people` and sentences such as `makes 2 trips to the shop worth it` are no labels.
        if not found["mark"] and found.start() > 30:
            return "", False
        return _cut_value(found["value"]), False
    if found.end() >= len(line.rstrip()) and re.match(r"\d{1,3}\b.{0,40}$", following) and label != "für":
        return _cut_value(following), True
    return "", False


def _cut_value(text: str) -> str:
    return re.split(
        r"\s{2,}|(?<!\d)[.,]\s|\s(?=(?:prep|cook|total|bak|time)\b)|\.$",
        text.strip(),
        maxsplit=1,
        flags=re.IGNORECASE,
    )[0].strip(" .,-–")
