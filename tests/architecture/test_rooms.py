"""The house keeps its own rules: imports go one way, modules stay small and say what they are for."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quire"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_MODULE_LINES = 400


def _name(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def test_imports_go_down_only():
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ]
    ran = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 broken" in ran.stdout


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_is_small(module: Path):
    assert len(module.read_text("utf-8").splitlines()) <= LONGEST_MODULE_LINES


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_says_what_it_is_for(module: Path):
    text = module.read_text("utf-8")
    # An `__init__.py` that only makes a folder a package has nothing to say.
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_every_target_of_the_makefile_has_a_help_line():
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    targets = [line for line in lines if re.match(r"[a-z][a-z-]*:(?!=)", line)]
    assert targets
    assert [line for line in targets if "##" not in line] == []


def test_every_phony_target_exists():
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z][a-z-]*):(?!=)", text, re.MULTILINE))
