"""What lies in the repository works on any machine: pinned with hashes, bound to no host and no folder."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
PINNED = re.compile(r"^[a-z0-9][a-z0-9._-]*(\[[a-z,]+\])?==\S+", re.MULTILINE | re.IGNORECASE)
# In pieces, so that this file does not match itself. What goes on after the folder is a path of a machine.
MACHINE_PATH = re.compile(r"(?<![\w.~$})>-])/" + "(work|root|home|Users)" + r"/[A-Za-z0-9_.-]+")


def _files() -> Iterator[Path]:
    """All files but those that .gitignore leaves out; its patterns are names and paths, nothing more."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf-8").split()] + [".git"]
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        folders[:] = [name for name in folders if not _matches(here / name, ignored)]
        yield from (here / name for name in names if not _matches(here / name, ignored))


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    names = (path.name, path.relative_to(ROOT).as_posix())
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def test_every_requirement_is_pinned_with_a_hash():
    blocks = re.split(r"\n(?=[A-Za-z0-9])", LOCK.read_text("utf-8").strip())
    assert len(blocks) > 10
    for block in blocks:
        assert PINNED.match(block), block.splitlines()[0]
        assert "--hash=sha256:" in block, block.splitlines()[0]


@pytest.mark.parametrize("trace", ["://", "--index-url", "--extra-index-url", "--find-links", "file:", " @ "])
def test_the_lock_file_names_no_host_and_no_folder(trace: str):
    assert trace not in LOCK.read_text("utf-8")


def test_there_is_no_second_lock_file():
    # uv would write the address of whatever index it was given into it.
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "uv.lock" in ignored
    assert not (ROOT / "uv.lock").exists()


def test_no_file_holds_a_path_of_somebodys_machine():
    found = []
    for path in _files():
        if not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        text = data.decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_a_path_of_a_machine_is_recognised(folder: str):
    assert MACHINE_PATH.search(f"see /{folder}/ada/scans")
    assert MACHINE_PATH.search(f"file:///{folder}/ada")
    assert not MACHINE_PATH.search(
        f"https://example.org/{folder}/ada, $XDG/{folder}/x, the /{folder}/ folder"
    )
