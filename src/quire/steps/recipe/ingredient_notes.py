"""Takes remarks out of the name of an ingredient: preparation, alternatives, what is in brackets.

Linear in the length of the line; brackets that do not match are left where they are.
"""

import re

_ADJECTIVES = frozenset("""
boneless skinless fresh large small medium ripe dried cold hot warm unsalted salted extra-virgin extra
firm lean frozen cooked uncooked raw ground heavy light dark thick thin sweet sour hard soft plain whole
dry good big young organic free-range all-purpose low-sodium low-fat nonfat fat-free unsweetened
sweetened bone-in skin-on thick-cut medium-sized mild sharp spicy crusty long short baby red green
yellow white black brown tart fine coarse semi-sweet crisp juicy tender virgin extra-firm extra-large
""".split())  # fmt: skip
_PREPARED = frozenset("""
minced chopped diced sliced grated shredded melted softened peeled beaten toasted packed sifted cubed
halved quartered mashed drained rinsed julienned crumbled crushed torn trimmed pitted seeded deseeded
cored zested
""".split())  # fmt: skip
_MANNER = frozenset("finely roughly coarsely thinly thickly freshly lightly firmly loosely well very".split())
_MEATS = frozenset("beef pork lamb veal turkey chicken meat".split())
_PRODUCTS = frozenset("tomatoes tomato ice pineapple bread almonds".split())
_TAIL = re.compile(
    r"\s(?:(?:thinly|finely|roughly|coarsely|freshly) (?:sliced|chopped|diced|grated|minced|shredded|ground)"
    r"|(?:or )?to taste|optional|as (?:needed|desired|required)|if (?:desired|needed|using)"
    r"|(?:plus|\+) (?:more|extra)\b.{0,80}"
    r"|for (?:serving|garnish(?:ing)?|dusting|frying|greasing|brushing|sprinkling|decoration"
    r"|topping|drizzling|rolling)\b.{0,60}"
    r"|to (?:serve|garnish)|at room temperature|room temperature|nach Geschmack|nach Belieben"
    r"|à goût|q\.?b\.?)$",
    re.IGNORECASE,
)
_DASH = re.compile(r"\s[-–—]\s|;\s?|:\s")


def split_notes(text: str, *, canned: bool = False) -> tuple[str, list[str]]:
    """The name, and the notes in their order."""
    outside, notes = _take_brackets(text)
    name, tail = _cut_comma(outside)
    dash = _DASH.search(name)
    if dash and dash.start() > 0:
        tail = ", ".join(part for part in (name[dash.end() :].strip(" ,;"), tail) if part)
        name = name[: dash.start()]
    name = _tidy(name)
    ending = _TAIL.search(name)
    if ending and ending.start() > 0:
        notes.append(ending[0].strip())
        name = _tidy(name[: ending.start()])
    name, prepared = _take_preparation(name, canned=canned)
    if prepared:
        notes.insert(0, prepared)
    if tail:
        notes.append(tail)
    return name, [note for note in (_tidy(note) for note in notes) if note]


def join_notes(notes: list[str]) -> str | None:
    return ", ".join(notes) or None


def _take_brackets(text: str) -> tuple[str, list[str]]:
    """Text outside of matching brackets, and what is inside the outer ones."""
    if "(" not in text and "[" not in text:
        return text, []
    outside: list[str] = []
    inside: list[str] = []
    depth = begin = kept = 0
    for place, letter in enumerate(text):
        if letter in "([":
            if depth == 0:
                begin = place
            depth += 1
        elif letter in ")]" and depth:
            depth -= 1
            if depth == 0:
                outside.append(text[kept:begin])
                inside.append(text[begin + 1 : place].strip("()[] "))
                kept = place + 1
    outside.append(text[kept:])
    return _join_outside(outside), [note for note in inside if note]


def _join_outside(parts: list[str]) -> str:
    text = " ".join(part.strip() for part in parts if part.strip())
    return re.sub(r"\s+([,;:.])", r"\1", text)


def _cut_comma(text: str) -> tuple[str, str]:
    """Cut at the first comma that does not stand between adjectives or inside a number."""
    place = -1
    while (place := text.find(",", place + 1)) >= 0:
        if place > 0 and text[place - 1].isdigit() and text[place + 1 : place + 2].isdigit():
            continue
        words = text[:place].casefold().replace(",", " ").split()
        if (
            words
            and len(words) <= 4
            and all(word in _ADJECTIVES for word in words)
            and text[place + 1 :].strip()
        ):
            continue
        return text[:place], text[place + 1 :].strip(" ,")
    return text, ""


def _take_preparation(name: str, *, canned: bool) -> tuple[str, str]:
    """`finely chopped onion`: the preparation is a note; `crushed tomatoes` in a can are a product."""
    words = name.split(" ", 4)
    count = 0
    while count < len(words) and (
        words[count].casefold() in _PREPARED
        or (
            words[count].casefold() in _MANNER
            and count + 1 < len(words)
            and words[count + 1].casefold() in _PREPARED
        )
        or (
            count
            and words[count] in {"and", "&", "or"}
            and count + 1 < len(words)
            and words[count + 1].casefold() in _PREPARED
        )
    ):
        count += 1
    rest = " ".join(words[count:])
    if words[0].casefold() == "minced" and rest.split(" ", 1)[0].casefold() in _MEATS:
        return name, ""
    if not count or not rest or canned or words[count].casefold() in _PRODUCTS:
        return name, ""
    return rest, " ".join(words[:count])


def _tidy(text: str) -> str:
    return text.strip().strip(",;").removesuffix(".").strip(" ,;*")
