"""Recipe cards as text, as OCR gives them: printed forms of the free recipe texts, with and without noise."""

import random
import textwrap
from collections.abc import Callable

from tests.situations.recipe_texts import RecipeTruth, read_truth


def _labels(truth: RecipeTruth) -> list[str]:
    return [
        *([f"Prep time: {truth.prep} min"] if truth.prep else []),
        *([f"Cook time: {truth.cook} min"] if truth.cook else []),
        *([f"Serves {truth.servings}"] if truth.servings else []),
    ]


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _flat(lists: list[list[str]]) -> list[str]:
    return [line for lines in lists for line in lines]


def plain_card(truth: RecipeTruth) -> str:
    """Headings, numbers, wrapped lines."""
    lines = [truth.title.upper(), "", *_labels(truth), "", "Ingredients"]
    lines += _flat([_wrap(line, 60) for line in truth.lines])
    lines += ["", "Directions"]
    lines += _flat([_wrap(f"{n}. {step}", 60) for n, step in enumerate(truth.steps, 1)])
    return "\n".join(lines)


def bulleted_card(truth: RecipeTruth) -> str:
    lines = [truth.title, *_labels(truth), "INGREDIENTS:"]
    lines += _flat([_wrap(f"• {line}", 44) for line in truth.lines])
    lines += ["METHOD:", *_flat([[*_wrap(step, 50), ""] for step in truth.steps])]
    return "\n".join(lines)


def two_pages(truth: RecipeTruth) -> str:
    """Ingredients on one page, steps on the next, with page numbers and a running header."""
    first = ["Grandma's Kitchen", "", truth.title, "", "Ingredients", *truth.lines, "", "- 12 -"]
    second = ["Grandma's Kitchen", "", "Instructions"]
    second += _flat([_wrap(f"{n}) {step}", 64) for n, step in enumerate(truth.steps, 1)])
    return "\n".join(first[2:]) + "\n\n" + "\n".join([*second[2:], "", "13"])


def two_columns(truth: RecipeTruth) -> str:
    """Ingredients on the left, steps on the right, and wide gaps between them."""
    left = ["Ingredients", *_flat([_wrap(line, 36) for line in truth.lines])]
    right = ["Directions", *_flat([_wrap(f"{n}. {step}", 50) for n, step in enumerate(truth.steps, 1)])]
    height = max(len(left), len(right))
    left += [""] * (height - len(left))
    right += [""] * (height - len(right))
    rows = [f"{one:<44}{other}".rstrip() for one, other in zip(left, right, strict=True)]
    return "\n".join([truth.title, "", *_labels(truth), "", *rows])


def without_headings(truth: RecipeTruth) -> str:
    lines = [truth.title, "", *truth.lines, ""]
    lines += _flat([_wrap(f"{n}. {step}", 60) for n, step in enumerate(truth.steps, 1)])
    return "\n".join(lines)


def hyphenated(truth: RecipeTruth) -> str:
    """Long words of the steps cut at the ends of lines."""
    lines = [truth.title, "", "Ingredients", *truth.lines, "", "Directions"]
    for n, step in enumerate(truth.steps, 1):
        lines += textwrap.wrap(f"{n}. {_cut_words(step)}", 56, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\x00", "-\n")


def _cut_words(step: str) -> str:
    words = step.split(" ")
    for place, word in enumerate(words):
        if place % 9 == 8 and len(word) >= 8 and word.isalpha() and word.islower():
            words[place] = f"{word[:4]}\x00{word[4:]}"
    return " ".join(words)


_SHAPES: dict[str, Callable[[RecipeTruth], str]] = {
    "plain_card": plain_card,
    "bulleted_card": bulleted_card,
    "two_pages": two_pages,
    "two_columns": two_columns,
    "without_headings": without_headings,
    "hyphenated": hyphenated,
}


def _of_markdown(shape: Callable[[RecipeTruth], str]) -> Callable[[str], str]:
    return lambda markdown: shape(read_truth(markdown))


CARDS: dict[str, Callable[[str], str]] = {name: _of_markdown(shape) for name, shape in _SHAPES.items()}
_MISREAD = {
    "l": "1",
    "1": "l",
    "o": "0",
    "0": "O",
    "e": "c",
    "rn": "m",
    "i": "!",
    "a": "o",
    "t": "f",
    "h": "b",
    "n": "r",
}


def add_noise(text: str, *, share: float, seed: int) -> str:
    """Letters read wrongly at this share, single ones lost, specks as lines of their own."""
    chance = random.Random(seed)
    out: list[str] = []
    for letter in text:
        if letter.isspace() or chance.random() >= share:
            out.append(letter)
        elif chance.random() < 0.8:
            out.append(_MISREAD.get(letter, letter))
    lines = "".join(out).split("\n")
    for _ in range(max(1, len(lines) // 12)):
        lines.insert(chance.randrange(1, len(lines) + 1), chance.choice([". ,", "~", "' ,", "|", "—"]))
    return "\n".join(lines)
