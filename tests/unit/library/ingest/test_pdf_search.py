"""What is found in folders, by patterns and by name; what hostile trees can do."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.libraries import digest, pdf, pointer

from quire.library.ingest.pdf_search import FoundPdf, OtherFile, RefusedFile, find_pdfs, matches
from quire.model.errors import Reject


def _write(root, relative, body=b"%PDF-1.4"):
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


def _pdfs(*sources):
    return [one.relative for one in find_pdfs(sources) if isinstance(one, FoundPdf)]


def _refused(*sources):
    return {one.path: one.code for one in find_pdfs(sources) if isinstance(one, RefusedFile)}


def test_a_folder_gives_its_pdfs_in_order_with_tags(tmp_path):
    root = tmp_path / "rpg"
    for name in ("b/Zwei.PDF", "a.pdf", "b/a/Eins.pdf", "b.pdf", "notes.txt"):
        _write(root, name)
    found = list(find_pdfs([root]))
    pdfs = [one for one in found if isinstance(one, FoundPdf)]
    assert [one.relative for one in pdfs] == ["a.pdf", "b/Zwei.PDF", "b/a/Eins.pdf", "b.pdf"]
    assert [one.tags for one in pdfs] == [["a"], ["b", "Zwei"], ["b", "a", "Eins"], ["b"]]
    assert {one.source for one in pdfs} == {"rpg"}
    assert sum(isinstance(one, OtherFile) for one in found) == 1
    assert found == list(find_pdfs([root]))


def test_a_file_is_relative_to_its_folder_and_may_have_any_name(tmp_path):
    path = _write(tmp_path / "rpg", "scan.bin")
    (one,) = find_pdfs([str(path)])
    assert (one.relative, one.source, one.tags) == ("scan.bin", "rpg", ["scan.bin"])


def test_a_pattern_is_relative_to_the_folder_before_the_first_star(tmp_path):
    for name in ("x/a.pdf", "x/deep/er/b.pdf", "x/deep/er/c.txt", "y/d.pdf"):
        _write(tmp_path, name)
    assert _pdfs(f"{tmp_path}/x/**/*.pdf") == ["a.pdf", "deep/er/b.pdf"]
    assert _pdfs(f"{tmp_path}/x/*.pdf") == ["a.pdf"]
    assert _pdfs(f"{tmp_path}/*") == ["x/a.pdf", "x/deep/er/b.pdf", "y/d.pdf"]
    assert _pdfs(f"{tmp_path}/[x]") == ["x/a.pdf", "x/deep/er/b.pdf"]
    assert _pdfs(f"{tmp_path}/?/d.pdf") == ["y/d.pdf"]


def test_a_name_with_a_star_that_exists_is_no_pattern(tmp_path):
    path = _write(tmp_path, "a[1].pdf")
    _write(tmp_path, "a1.pdf")
    assert _pdfs(path) == ["a[1].pdf"]


def test_what_does_not_exist_is_told_before_anything_is_done(tmp_path):
    _write(tmp_path, "a.pdf")
    with pytest.raises(Reject, match="Give a folder"):
        next(find_pdfs([tmp_path, tmp_path / "nowhere"]))
    with pytest.raises(Reject, match="no folder"):
        next(find_pdfs([f"{tmp_path}/nowhere/*.pdf"]))


def test_what_is_called_a_pdf_and_is_none_is_told(tmp_path):
    _write(tmp_path, "text.pdf", b"hello")
    _write(tmp_path, "empty.pdf", b"")
    _write(tmp_path, "late.pdf", b"\n\n%PDF-1.4")
    os.mkfifo(tmp_path / "pipe.pdf")
    assert _refused(tmp_path) == {
        "text.pdf": "not_a_pdf",
        "empty.pdf": "not_a_pdf",
        "late.pdf": "not_a_pdf",
        "pipe.pdf": "not_a_file",
    }


def test_links_do_not_lead_out_of_the_folder_nor_round_in_circles(tmp_path):
    root = tmp_path / "root"
    inside = _write(root, "a.pdf")
    _write(tmp_path, "secret.pdf")
    (root / "out.pdf").symlink_to(tmp_path / "secret.pdf")
    (root / "gone.pdf").symlink_to("nowhere.pdf")
    (root / "same.pdf").symlink_to(inside)
    (root / "loop").symlink_to(root)
    (root / "up").symlink_to(tmp_path)
    assert _pdfs(root) == ["a.pdf", "same.pdf"]
    assert _refused(root) == {"out.pdf": "link_outside", "gone.pdf": "link_outside"}
    assert _pdfs(f"{root}/**/*.pdf") == ["a.pdf", "same.pdf"]


def test_a_link_that_is_named_is_followed(tmp_path):
    target = _write(tmp_path, "elsewhere/real.pdf")
    link = tmp_path / "link.pdf"
    link.symlink_to(target)
    assert _pdfs(link) == ["link.pdf"]


def test_names_with_newlines_are_kept_and_names_that_are_no_text_are_told(tmp_path):
    _write(tmp_path, "two\nlines/a\tb.pdf")
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff.pdf", os.O_CREAT | os.O_WRONLY))
    assert _pdfs(tmp_path) == ["two\nlines/a\tb.pdf"]
    assert _refused(tmp_path) == {"bad\\xff.pdf": "bad_name"}


def test_a_repository_shows_its_files_and_not_its_inside(tmp_path):
    _write(tmp_path, ".git/lfs/objects/x.pdf")
    _write(tmp_path, "book.pdf", pointer(pdf("book")))
    (one,) = find_pdfs([tmp_path])
    assert one.pointer.oid == digest(pdf("book"))
    assert one.size == len(pdf("book"))


def test_folders_may_be_nested_deeper_than_functions(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("a.pdf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    try:
        assert set(_refused(tmp_path).values()) == {"not_a_pdf"}
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # Python's own would nest too deep


@given(names=st.lists(st.text("ab*[", min_size=1, max_size=3), min_size=1, max_size=4))
def test_double_stars_fit_every_path(names):
    assert matches(["**"], names)
    assert matches(["**", "*"], names)
    assert not matches(["c", "**"], names)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**/x/*.pdf", "x/a.pdf", True),
        ("**/x/*.pdf", "a/b/x/a.pdf", True),
        ("**/x/*.pdf", "a/b/xx/a.pdf", False),
        ("a/**/b/**/c.pdf", "a/b/c.pdf", True),
        ("a/**/b/**/c.pdf", "a/1/b/2/3/c.pdf", True),
        ("a/**", "a", False),
        ("*.pdf", "a/b.pdf", False),
        ("a*", "ab/c/d.pdf", True),
    ],
)
def test_patterns(pattern, path, expected):
    assert matches(pattern.split("/"), path.split("/")) is expected
