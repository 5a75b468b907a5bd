"""The map of the source is generated from it, and names only what exists."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quire"
PAGE = (ROOT / "docs" / "map.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", PAGE)))
FOLDERS = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+)`", PAGE)))


def test_the_drawing_and_the_tables_are_as_the_source_is():
    script = ROOT / "docs" / "make_map.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"run python docs/make_map.py\n{ran.stderr}"


def test_every_room_is_on_the_map():
    rooms = {folder.parent.name for folder in SOURCE.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) - {"system"}


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_a_named_module_or_function_exists(module: str, name: str):
    tree = ast.parse((SOURCE / module).read_text("utf-8"))
    assert not name or name in _list_names(tree)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_named_folder_exists(folder: str):
    assert (SOURCE / folder / "__init__.py").exists()


def _list_names(tree: ast.Module) -> set[str]:
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    names = {node.name for node in tree.body if isinstance(node, functions | ast.ClassDef)}
    return names | {
        f"{node.name}.{method.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, functions)
    }
