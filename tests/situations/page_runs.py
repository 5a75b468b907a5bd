"""Runs a page of the documentation as its reader would: writes its files, types its commands.

A block of Python or TOML whose first line is a comment with a path is written to that file. In a block
`console`, lines that begin with `$ ` are typed into a shell, in order, in one folder; the lines below are
what must appear, in this order: `…` stands for any text within a line, and alone for any lines. A command
ends with 0 unless `# exit code 3` stands behind it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))(?: .*)?\n")
_EXIT = re.compile(r"\s+# exit code (\d+)$")


class Command(NamedTuple):
    text: str
    exit_code: int
    expected: list[str]


def list_pages() -> list[Path]:
    """Pages with commands to type."""
    pages = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    return [page for page in pages if "```console\n" in page.read_text("utf-8")]


def list_files(page: Path) -> Iterator[tuple[str, str]]:
    """The files that the page shows, by name; a later one of the same name takes its place."""
    for kind, code in _BLOCK.findall(page.read_text("utf-8")):
        if kind in {"python", "toml"} and (found := _FILE.match(code)):
            yield found[1], code


def list_commands(block: str) -> Iterator[Command]:
    for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        first, *expected = typed.rstrip("\n").split("\n")
        found = _EXIT.search(first)
        yield Command(_EXIT.sub("", first), int(found[1]) if found else 0, expected)


def run_page(page: Path, folder: Path) -> None:
    """Raises AssertionError with what a command wrote."""
    for kind, block in _BLOCK.findall(page.read_text("utf-8")):
        if kind in {"python", "toml"} and (found := _FILE.match(block)):
            target = folder / found[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block, "utf-8")
        if kind == "console":
            for command in list_commands(block):
                _type(command, folder)


def _type(command: Command, folder: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "QUIRE_HOME": str(folder / ".home"),
        "QUIRE_WORKERS": "1",
        "COLUMNS": "100",
    }
    ran = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == command.exit_code, f"$ {command.text}\n{ran.stdout}"
    missing = _find_missing(command.expected, ran.stdout.splitlines())
    assert missing is None, f"$ {command.text}\n{ran.stdout}\nThe page says: {missing}"


def _find_missing(expected: list[str], written: list[str]) -> str | None:
    """The first line that does not appear after those before it; lines between them are allowed."""
    at = 0
    for line in expected:
        if not line.strip() or line.strip() == "…":
            continue
        pattern = re.compile(r".*".join(map(re.escape, re.split(r"\s*…\s*", line.strip()))))
        found = next((n for n in range(at, len(written)) if pattern.fullmatch(written[n].strip())), None)
        if found is None:
            return line
        at = found + 1
    return None
