"""What `import quire` offers: ten names and not one more, each where it says, and none loaded in advance."""

import ast
import subprocess
import sys
from pathlib import Path

import quire

NAMES = [
    "Document",
    "External",
    "Folder",
    "Model",
    "Output",
    "Pipeline",
    "Reject",
    "Result",
    "TryLater",
    "run",
]


def test_there_are_ten_public_names_and_not_one_more():
    assert sorted(quire.__all__) == NAMES
    assert sorted(dir(quire)) == sorted([*NAMES, "__version__"])
    assert all(getattr(quire, name).__name__ == name for name in NAMES)
    alone = "import quire; print(*(one for one in vars(quire) if not one.startswith('_')))"
    shown = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, check=True).stdout
    assert shown.split() == []


def test_type_checkers_see_the_same_names():
    stub = ast.parse(Path(quire.__file__).with_suffix(".pyi").read_text("utf-8"))
    found = [name.asname for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert sorted(filter(None, found)) == NAMES


def test_the_reference_page_describes_each_of_them():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "python-api.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}" not in page] == []
