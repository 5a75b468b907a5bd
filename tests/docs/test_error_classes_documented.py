"""Every class of error that the code can name is in `docs/reference/report.md`, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "report.md"
SOURCE = ROOT / "src" / "quire"
# Functions that take a class as an argument, by position: file, function, which argument.
TAKES_A_CLASS = {
    ("tools/folder_scan.py", "_skip"): 2,
    ("tools/folder_scan.py", "_fail"): 2,
    ("compute/failures.py", "AttemptFailure"): 1,
    ("cli/errors.py", "_print_error"): 0,
    ("engine/flow.py", "_doubt"): 1,
    ("engine/flow_claims.py", "_settle"): 2,
}

# `code = "…"` in a class of errors, and a code that stands under a name of its own.
NAMES_OF_CLASSES = {"code", "DAMAGED", "UNAVAILABLE"}


def _text(node: ast.AST | None) -> list[str]:
    return (
        [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value else []
    )


def _of_call(call: ast.Call, module: str) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg in {"code", "error_class"}:
            yield from _text(keyword.value)
        if keyword.arg == "skips" and isinstance(keyword.value, ast.Tuple):
            yield from _text(keyword.value.elts[0])
    name = ast.unparse(call.func).removeprefix("self.")
    place = TAKES_A_CLASS.get((module, name))
    if place is not None:
        yield from _text(call.args[place])


def _of_module(path: Path) -> Iterator[str]:
    module = path.relative_to(SOURCE).as_posix()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield from _of_call(node, module)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in NAMES_OF_CLASSES:
            yield from _text(node.value)
        if module == "batches/uploads.py" and isinstance(node, ast.Tuple) and len(node.elts) == 2:
            yield from _text(node.elts[0])  # error class, reason
        if module == "ledger/record_rows.py" and isinstance(node, ast.Tuple) and len(node.elts) == 3:
            yield from _text(node.elts[1])  # outcome, error class, reason
        if module == "blobs/s3/errors.py" and isinstance(node, ast.Tuple) and len(node.elts) == 4:
            yield from _text(node.elts[3])  # its table: fits, kind, advice, code


def _in_code() -> set[str]:
    modules = [path for path in SOURCE.rglob("*.py") if "testing" not in path.parts]
    return {code for path in modules for code in _of_module(path)}


def _documented() -> list[str]:
    text = PAGE.read_text("utf-8")
    classes = text[text.index("## Classes of files") :]
    rows = re.findall(r"^\| `(\w+)` \|", classes, re.MULTILINE)
    bugs = classes[classes.index("These say that something inside is wrong") :].partition("\n\n")[0]
    return rows + re.findall(r"`(\w+)`", bugs)


def test_the_code_is_read_right():
    known = {
        "symlink",
        "bad_name",
        "changed",
        "timeout",
        "truncated",
        "not_handled",
        "batch_cancelled",
        "batch_error",
        "interrupted",
    }
    assert known | {"unsupported_format", "storage_unavailable", "clock_skew", "home_busy"} <= _in_code()


@pytest.mark.parametrize("code", sorted(_in_code()))
def test_a_class_is_documented(code: str):
    assert code in _documented()


def test_no_class_is_documented_that_does_not_exist():
    assert set(_documented()) - _in_code() == set()


def test_no_class_is_documented_twice():
    assert sorted(_documented()) == sorted(set(_documented()))
