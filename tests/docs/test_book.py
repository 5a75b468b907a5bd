"""Editors one after the other, seven agents side by side, one page per folder: as an author writes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import quire

ROOT = Path(__file__).parents[2]
BOOK = """\
import msgspec
from quire import Document, Folder, Model, Output, Pipeline

class Notes(msgspec.Struct):
    score: float

book = Pipeline("book", version=3)

@book.step(accepts="*.txt", timeout=600, retries=3, on_failure="stop")
async def developmental(document: Document, model: Model) -> Notes:
    return await model.ask(f"Judge: {document.text()}", answer=Notes)

@book.step
async def line_edit(document: Document, developmental: Notes, model: Model) -> Notes:  # by name
    return await model.ask(f"Edit: {document.text()}", answer=Notes)

@book.step(each={"agent": ["blurb", "synopsis", "cover", "query", "bio", "keywords", "comps"]}, at_once=20)
async def asset(document: Document, agent: str, line_edit: Notes, model: Model) -> Output:  # seven tasks
    return Output.text(f"{agent}.md", await model.ask(f"Write the {agent} of {document.stem}"))

@book.step(unit="folder")
def overview(folder: Folder) -> Output:  # waits for the folder's documents and for the folders below
    return Output.json("overview.json", [d.value(line_edit).score for d in folder.documents])
"""
MODEL = """\
async def answer(prompt: str) -> str:
    word, _, text = prompt.partition(": ")
    return f'{{"score": {len(text.split())}}}' if word in {"Judge", "Edit"} else prompt
"""
AGENTS = {"blurb", "synopsis", "cover", "query", "bio", "keywords", "comps"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "book.py").write_text(BOOK, "utf-8")
    (tmp_path / "stub.py").write_text(MODEL, "utf-8")
    (tmp_path / "chapters" / "part two").mkdir(parents=True)
    (tmp_path / "chapters" / "one.txt").write_text("so many words", "utf-8")
    (tmp_path / "chapters" / "part two" / "two.txt").write_text("two words", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_book_goes_through_its_editors_and_agents(folder: Path):
    result = quire.run(
        "chapters",
        pipeline="book.py",
        out="out",
        home=folder / "home",
        settings={"model": "stub.py:answer", "workers": 1},
        quiet=True,
    )

    assert (result.counts["done"], result.counts["failed"], result.counts["outputs"]) == (2, 0, 16)
    assert result.report_path == Path("out/report.json")
    made = {file.path: set(file.outputs) for file in result.files}
    assert made["one.txt"] == {f"one.txt.{agent}.md" for agent in AGENTS} | {"overview.json"}
    assert json.loads((folder / "out" / "overview.json").read_text("utf-8")) == [3.0]
    assert json.loads((folder / "out" / "part two" / "overview.json").read_text("utf-8")) == [2.0]
    blurb = folder / "out" / "part two" / "two.txt.blurb.md"
    assert blurb.read_text("utf-8") == "Write the blurb of two"


def test_it_passes_the_strictest_type_check(folder: Path):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache" / "pages", "book.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
