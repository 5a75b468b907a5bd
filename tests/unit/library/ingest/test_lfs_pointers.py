"""Git LFS pointers, strictly read; and objects found in stores of real repositories, without git's help."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.libraries import digest, pdf, pointer

from quire.library.ingest.lfs_pointers import LfsPointer, find_object, find_repository, parse_pointer

BODY = pdf("book")
OID = digest(BODY)


def _git(folder, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, env=environment)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    _git(root, "init", "-q")
    (root / "book.pdf").write_bytes(pointer(BODY))
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "a book")
    return root


def _store(folder, oid=OID, body=BODY):
    path = folder / "objects" / oid[:2] / oid[2:4] / oid
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    return path


def test_a_pointer_tells_its_object_and_the_size_of_that():
    assert parse_pointer(pointer(BODY)) == LfsPointer(OID, len(BODY))
    assert parse_pointer(f"version 1\r\noid sha256:{OID}\r\nsize 7\r\n".encode()) == LfsPointer(OID, 7)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"%PDF-1.4\noid sha256:" + OID.encode(),
        b"oid sha256:" + OID[:-1].encode(),
        b"oid sha256:" + OID.encode() + b"0",
        b"oid sha256:" + OID.upper().encode(),
        b"void sha256:" + OID.encode(),
        b"\xff\noid sha256:" + OID.encode(),
        b"x" * 200 + b"\noid sha256:" + OID.encode(),
        b"oid sha256:" + OID.encode() + b"\n" + b"x" * 1024,
    ],
)
def test_what_is_no_pointer(content):
    assert parse_pointer(content) is None


@pytest.mark.parametrize("size", ["-1", "1e9", "007", "9" * 40, "\u0661", ""])
def test_a_size_that_is_none_is_not_taken(size):
    assert parse_pointer(f"oid sha256:{OID}\nsize {size}\n".encode()) == LfsPointer(OID, None)


@given(st.binary(max_size=1100))
def test_nothing_breaks_the_parser(content):
    found = parse_pointer(content)
    assert found is None or (len(found.oid) == 64 and b"oid sha256:" in content[:200])


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_line_that_names_the_object_is_found_where_it_should_be(before, after):
    content = before + b"\noid sha256:" + OID.encode() + b"\n" + after
    expected = OID
    try:
        content.decode()
    except UnicodeDecodeError:
        expected = None
    found = parse_pointer(content)
    assert (found and found.oid) == (None if content.startswith(b"%PDF") else expected)


def test_the_object_lies_in_the_store_of_the_repository(tree):
    assert find_object(OID, tree) is None
    path = _store(tree / ".git" / "lfs")
    (tree / "deep").mkdir()
    assert find_object(OID, tree / "deep") == path


def test_a_further_work_tree_has_the_store_of_the_first(tree, tmp_path):
    _git(tree, "worktree", "add", "-q", str(tmp_path / "second"))
    path = _store(tree / ".git" / "lfs")
    found = find_object(OID, tmp_path / "second")
    assert found is not None
    assert found.samefile(path)


def test_the_store_may_be_elsewhere(tree, tmp_path):
    _git(tree, "config", "lfs.storage", str(tmp_path / "big"))
    path = _store(tmp_path / "big")
    assert find_object(OID, tree) == path
    _git(tree, "config", "lfs.storage", "near")
    path = _store(tree / ".git" / "near")
    assert find_object(OID, tree) == path


def test_storage_of_another_section_is_not_it(tree):
    with (tree / ".git" / "config").open("a") as config:
        config.write('[lfs "https://example.org"]\n\tstorage = wrong\n[other]\n\tstorage = wrong\n')
    path = _store(tree / ".git" / "lfs")
    assert find_object(OID, tree) == path


def test_a_link_in_the_store_is_not_followed(tree, tmp_path):
    path = _store(tree / ".git" / "lfs")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    path.unlink()
    path.symlink_to(secret)
    assert find_object(OID, tree) is None


@given(st.binary(max_size=80))
def test_nothing_in_a_git_file_breaks_the_search(tmp_path_factory, content):
    root = tmp_path_factory.mktemp("r")
    (root / ".git").write_bytes(b"gitdir: " + content)
    find_repository(root)
    (root / ".git").unlink()
    (root / ".git").mkdir()
    (root / ".git" / "config").write_bytes(b"[lfs]\nstorage = " + content)
    find_object(OID, root)
