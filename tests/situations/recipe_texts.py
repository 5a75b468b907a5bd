"""The free recipe texts of `tests/documents/recipe` as truth: what every page and card built from them must give."""

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "documents" / "recipe"
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LABEL = re.compile(r"^\W*(Prep time|Cook time|Servings)\W\s*(.+)$")


@dataclass
class RecipeTruth:
    """`ingredients` are (line, is_group) in their order."""

    title: str
    tags: list[str] = field(default_factory=list)
    description: str = ""
    intro: str = ""
    prep: int | None = None
    cook: int | None = None
    servings: str = ""
    ingredients: list[tuple[str, bool]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [line for line, is_group in self.ingredients if not is_group]

    def groups(self) -> list[tuple[str, list[str]]]:
        """The ingredients under their headings; the first heading may be empty."""
        groups: list[tuple[str, list[str]]] = [("", [])]
        for line, is_group in self.ingredients:
            if is_group:
                groups.append((line, []))
            else:
                groups[-1][1].append(line)
        return [group for group in groups if group[1]]


def recipe_texts() -> dict[str, str]:
    """The Markdown of each recipe by its name."""
    return {
        path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md")) if path.stem != "INDEX"
    }


def read_truth(markdown: str) -> RecipeTruth:
    _, front, body = markdown.split("---\n", 2)
    title = re.search(r"^title:\s*(.+)$", front, re.MULTILINE)
    tags = re.search(r"^tags:\s*\[(.*)\]$", front, re.MULTILINE)
    assert title is not None
    truth = RecipeTruth(title[1].strip().strip("\"'"))
    truth.tags = re.findall(r"'([^']*)'", tags[1]) if tags else []
    sections = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    _read_head(truth, sections[0])
    for name, text in zip(sections[1::2], sections[2::2], strict=True):
        if name.strip() == "Ingredients":
            _read_ingredients(truth, text)
        elif name.strip() == "Directions":
            _read_steps(truth, text)
        else:
            truth.notes.extend(_plain(line.lstrip("- ")) for line in text.splitlines() if _plain(line))
    return truth


def _plain(line: str) -> str:
    text = _LINK.sub(r"\1", _IMAGE.sub("", line)).replace("_", "")
    return " ".join(text.split())


def _read_head(truth: RecipeTruth, text: str) -> None:
    paragraphs: list[str] = []
    for line in text.splitlines():
        label = _LABEL.match(line)
        plain = _plain(line)
        if label:
            value = label[2].strip()
            if label[1] == "Servings":
                truth.servings = "" if "Varies" in value else value
            else:
                minutes = int(re.findall(r"\d+", value)[0])
                truth.prep, truth.cook = (
                    (minutes, truth.cook) if label[1] == "Prep time" else (truth.prep, minutes)
                )
        elif plain and not line.startswith("- "):
            paragraphs.append(plain)
    truth.description = " ".join(paragraphs)


def _read_ingredients(truth: RecipeTruth, text: str) -> None:
    for line in text.splitlines():
        item = re.match(r"\s*[-*]\s+(.*)$", line)
        plain = _plain(item[1] if item else line.lstrip("# "))
        if not plain:
            continue
        if item:
            truth.ingredients.append((plain, plain.endswith(":")))
        elif len(plain.split()) > 4:
            truth.intro = f"{truth.intro} {plain}".strip()
        else:
            truth.ingredients.append((plain, True))


def _read_steps(truth: RecipeTruth, text: str) -> None:
    inside = False
    for line in text.splitlines():
        numbered = re.match(r"\s*\d+\.\s+(.*)$", line)
        plain = _plain(numbered[1] if numbered else line)
        if numbered:
            truth.steps.append(plain)
            inside = True
        elif not plain:
            inside = inside and bool(_IMAGE.search(line))
        elif inside:
            truth.steps[-1] += f" {plain}"
        else:
            truth.notes.append(plain)
