"""Pages of the documentation that show commands: they are typed, and write what the page says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.situations.page_runs import ROOT, list_files, list_pages, run_page

PAGES = list_pages()


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_works_when_it_is_typed(page: Path, tmp_path: Path):
    run_page(page, tmp_path)


def test_code_on_pages_passes_the_strictest_type_check(tmp_path: Path):
    for page in PAGES:
        folder = tmp_path / _name(page).removesuffix(".md").replace("/", "_").replace("-", "_")
        for name, code in list_files(page):
            if name.endswith(".py"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(code, "utf-8")
    for folder in sorted(tmp_path.iterdir()):
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "mypy",
                "--strict",
                "--explicit-package-bases",
                "--cache-dir",
                ROOT / ".mypy_cache" / "pages",
                ".",
            ],
            cwd=folder,
            env={**os.environ, "MYPYPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{folder.name}\n{ran.stdout}{ran.stderr}"


def test_the_pages_for_authors_are_typed():
    typed = {_name(page) for page in PAGES}
    expected = {
        "README.md",
        "docs/how-to/first-pipeline.md",
        "docs/how-to/agents-side-by-side.md",
        "docs/how-to/folders.md",
        "docs/how-to/call-a-model.md",
        "docs/how-to/wait-for-somebody-else.md",
        "docs/how-to/test-a-step.md",
        "docs/how-to/deploy-a-pipeline.md",
        "docs/reference/python-api.md",
    }
    assert expected <= typed
