"""The examples of the documentation run, end to end, with real workers; links lead somewhere."""

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
CORPUS = ROOT / "tests" / "documents" / "corpus"
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


@pytest.fixture
def pdfs(tmp_path: Path) -> Path:
    folder = tmp_path / "pdfs"
    folder.mkdir()
    for source in (*sorted((CORPUS / "pdf").glob("*.pdf")), CORPUS / "tiff" / "hopper_lzw.tif"):
        shutil.copy(source, folder)
    shutil.copy(CORPUS / "pdf" / "crazyones.pdf", folder / "named.pdf")
    (folder / "named.pdf.txt").write_text("somebody's own notes", "utf-8")
    return folder


def _environment(tmp_path: Path) -> dict[str, str]:
    return {
        **{name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")},
        "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{ROOT / 'src'}",  # of this checkout, whatever is installed
        "QUIRE_HOME": str(tmp_path / "home"),
        "QUIRE_WORKERS": "1",
    }


def _run(example: str, folder: Path, tmp_path: Path) -> Path:
    """As the page says it is run; where the results lie."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "quire.cli.main", "run", str(folder), "--out", str(out)]
    command += ["--pipeline", str(EXAMPLES / example)]
    environment = _environment(tmp_path)
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 3, ran.stderr
    return out


def _ends(report: dict) -> dict[str, tuple[str, str | None, int]]:
    return {file["path"]: (file["status"], file["error_class"], file["attempts"]) for file in report["files"]}


def test_the_step_of_the_readme_runs_over_a_folder(texts: Path, tmp_path: Path):
    (tmp_path / "words.py").write_text(_readme_code(), "utf-8")
    command = [sys.executable, "-m", "quire.cli.main", "run", str(texts), "--pipeline", "words.py"]
    ran = subprocess.run(
        [*command, "--out", "out"],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    out = tmp_path / "out"
    assert json.loads((out / "one.txt.words.json").read_text("utf-8")) == {"words": 3}
    assert json.loads((out / "sub" / "two.txt.words.json").read_text("utf-8")) == {"words": 2}
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert _ends(report) == {
        "one.txt": ("done", None, 1),
        "sub/two.txt": ("done", None, 1),
        "old.txt": ("failed", "not_utf8", 1),
        "data.bin": ("skipped", "not_handled", 0),
    }
    _assert_every_field_is_documented(report)


def _readme_code() -> str:
    readme = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    return code


def test_the_step_of_the_readme_has_twelve_lines_and_one_import():
    code = _readme_code()
    assert len(code.splitlines()) == 12
    assert len(re.findall(r"^(?:from|import) ", code, re.MULTILINE)) == 1


@pytest.mark.slow
def test_a_step_of_ones_own_gives_every_pdf_its_text(pdfs: Path, tmp_path: Path):
    out = _run("pdf_ocr.py", pdfs, tmp_path)

    report = json.loads((out / "report.json").read_text("utf-8"))
    assert [phase["name"] for phase in report["phases"]] == ["read_pdf"]
    assert _ends(report) == {
        "bug1980958.pdf": ("failed", "unreadable_pdf", 1),
        "c02-22-scan.pdf": ("done", None, 1),
        "code_and_formula.pdf": ("done", None, 1),
        "crazyones-encrypted-256.pdf": ("failed", "encrypted", 1),
        "crazyones.pdf": ("done", None, 1),
        "header-test-doc.pdf": ("done", None, 1),
        "hopper_lzw.tif": ("skipped", "not_handled", 0),
        "issue9105_other.pdf": ("failed", "unreadable_pdf", 1),
        "manual-3-pages.pdf": ("done", None, 1),
        "multi_page.pdf": ("done", None, 1),
        "named.pdf": ("done", None, 0),  # the same bytes are read once
        "named.pdf.txt": ("skipped", "not_handled", 0),
        "picture_classification.pdf": ("done", None, 1),
        "rotation.pdf": ("done", None, 1),
        "zero-pages.pdf": ("failed", "unreadable_pdf", 1),
    }
    layer = (out / "crazyones.pdf.txt").read_text("utf-8")
    assert layer.startswith("The Crazy Ones\nOctober 14, 1998\n")
    recognised = (out / "c02-22-scan.pdf.txt").read_text("utf-8")
    assert "went tip-toeing along a path amongst" in recognised
    assert "I fell over a root and made a noise." in recognised
    named = next(file for file in report["files"] if file["path"] == "named.pdf")
    assert named["outputs"] != ["named.pdf.txt"]
    assert (out / named["outputs"][0]).read_text("utf-8") == layer


def _assert_every_field_is_documented(report: dict) -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text("utf-8")
    fields = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    plain = {name for name, value in report.items() if not isinstance(value, dict | list)}
    nested = {f"counts.{name}" for name in report["counts"]} | {
        f"files[].{name}" for name in report["files"][0]
    }
    assert {name for name in plain | nested if f"`{name}`" not in fields} == set()
    assert {name for name in report["phases"][0] if f"`{name}`" not in fields} == set()


def test_the_page_on_the_text_of_pdfs_shows_the_example_as_it_is():
    page = (ROOT / "docs" / "how-to" / "extract-pdf-text.md").read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert shown
    example = (EXAMPLES / "pdf_ocr.py").read_text("utf-8")
    assert all(piece in example for piece in shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_on_a_page_imports_names_that_exist(page: Path):
    missing = []
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        for line in re.findall(r"^from quire.*$", code, re.MULTILINE):
            imported = ast.parse(line).body[0]
            assert isinstance(imported, ast.ImportFrom)
            assert imported.module is not None
            module = importlib.import_module(imported.module)
            missing += [
                f"{imported.module}.{name.name}" for name in imported.names if not hasattr(module, name.name)
            ]
    assert missing == []


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
