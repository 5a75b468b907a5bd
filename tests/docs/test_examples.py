"""The examples of the documentation run, end to end, with real workers; links lead somewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.txt").write_text("so many words", "utf-8")
    (folder / "sub" / "two.txt").write_text("two words", "utf-8")
    (folder / "old.txt").write_bytes(b"caf\xe9 noir and some more")
    (folder / "data.bin").write_bytes(b"\0\1\2")
    return folder


def test_a_step_of_ones_own_runs_over_a_folder(texts: Path, tmp_path: Path):
    out = tmp_path / "out"
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")},
        "PYTHONPATH": str(EXAMPLES),
        "QUIRE_HOME": str(tmp_path / "home"),
        "QUIRE_WORKERS": "1",
    }
    command = [sys.executable, "-m", "own_step", str(texts), str(out)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

    assert json.loads((out / "one.txt.words.json").read_text("utf-8")) == {"words": 3}
    assert json.loads((out / "sub" / "two.txt.words.json").read_text("utf-8")) == {"words": 2}
    report = json.loads((out / "report.json").read_text("utf-8"))
    ends = {file["path"]: (file["status"], file["error_class"], file["attempts"]) for file in report["files"]}
    assert ends == {
        "one.txt": ("done", None, 1),
        "sub/two.txt": ("done", None, 1),
        "old.txt": ("failed", "not_utf8", 1),
        "data.bin": ("skipped", "not_handled", 0),
    }
    _assert_every_field_is_documented(report)


def _assert_every_field_is_documented(report: dict) -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text("utf-8")
    fields = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    plain = {name for name, value in report.items() if not isinstance(value, dict | list)}
    nested = {f"counts.{name}" for name in report["counts"]} | {
        f"files[].{name}" for name in report["files"][0]
    }
    assert {name for name in plain | nested if f"`{name}`" not in fields} == set()
    assert {name for name in report["phases"][0] if f"`{name}`" not in fields} == set()


def test_the_readme_shows_the_example_as_it_is():
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert shown
    example = (EXAMPLES / "own_step.py").read_text("utf-8")
    assert all(piece in example for piece in shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_link_within_the_repository_leads_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    broken = []
    for link in links:
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (heading and heading not in _headings(target)):
            broken.append(link)
    assert broken == []


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    missing = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name not in index]
    assert missing == []
