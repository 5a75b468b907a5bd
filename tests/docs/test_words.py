"""One vocabulary: the words of the product are few and explained, and retired words do not come back."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quire"
MOST_WORDS = 35
RETIRED = re.compile(
    r"(bell|berth|conductor|crew|desk|doorkeeper|errand|estate|fate|foreman|glance|grave|greeting|hire|house"
    r"|landing|loan|mishap|office|reception|roster|ruling|standing|switchboard|toolbox|whereabouts|wheel)s?",
    re.IGNORECASE,
)
# Published names, by the files that may use them: they stay as they are until a release changes them.
ALLOWED = {
    r"\bcrew\.(beat|stale)_seconds|\bQUIRE_CREW_\w+|\bsettings\.crew\b": ("*", "settings keys"),
    r"^ +crew: Member\w*.*": ("src/quire/settings/values.py", "the section of these settings"),
    r"\"crew\"|`crew\b": ("*", "a folder of the home, and a table of the ledger"),
    r"\"conductor\"|`(quire )?conductor\b": ("src/quire/cli/*", "the former name of a command"),
    r"\bformerly `quire conductor`|`quire conductor`[^.]*\bold name\b": (
        "*.md",
        "the former name of a command",
    ),
    r"^ +conductor: str.*|\bconductor=\"|\"conductor\":|`conductor`": (
        "*",
        "a field of the answer of /health",
    ),
    r"\bconductor_\w+": ("*", "names of log events"),
    r"^WITHOUT_TASKS = \"conductor\"": ("src/quire/engine/membership.py", "a kind of member in databases"),
    r"name=\"house\"|`house` in the JSON|\"quire_house\"": (
        "src/quire/compute/*",
        "messages, machines' metadata",
    ),
    r"b\"quire landing 1": ("src/quire/blobs/local/tokens.py", "part of what signed URLs are made of"),
    r"\"fate\"": ("src/quire/cli/library/*", "a field of --json"),
    r"\"standing\"|\b(standings?|mishaps?)(?=[:=.\[)])|\.(standings?|mishaps?)\b": (
        "src/quire/*library/*",
        "fields of --json",
    ),
    r"`(standing|fate|mishaps?)`": ("docs/reference/commands.md", "fields of --json"),
    r"\"(loans|graves)\"|\b(loans|graves):": ("src/quire/queues/redis_streams/*", "keys in Redis"),
    r"\bat a glance\b|\boffice document\b|\bthe wheel\b": (
        "*",
        "ordinary English; the Python package format",
    ),
}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
FILES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".py"}),
        *(path for path in SOURCE.rglob("*") if path.suffix in {".py", ".sql", ".lua"}),
    ]
)


def test_the_words_of_the_product_are_few_and_each_has_one_line():
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    table = page.split("## Words", 1)[1].split("\n## ", 1)[0]
    words = re.findall(r"^\| ([^|`]+) \| [^|]+ \|$", table, re.MULTILINE)[1:]
    assert 25 <= len(words) <= MOST_WORDS
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_retired_word_is_used(path: Path):
    found = [
        f"{number}: {line.strip()}"
        for number, line in _read_lines(path)
        if any(RETIRED.fullmatch(part) for word in WORD.findall(line) for part in PART.findall(word))
    ]
    assert found == []


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines without what is allowed; of SQL and Lua only comments: tables, columns and keys are published."""
    if re.match(r"\d+_", path.name) and path.suffix == ".sql":
        return  # a migration is history
    name = path.relative_to(ROOT).as_posix()
    allowed = [pattern for pattern, (files, _) in ALLOWED.items() if fnmatch(name, files)]
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line
        if path.suffix in {".sql", ".lua"}:
            text = "" if line.startswith("-- name:") else line.partition("--")[2]
        for pattern in allowed:
            text = re.sub(pattern, "", text)
        yield number, text
