"""Files that strangers name: what lies below the folder is read, and nothing else."""

import os

import pytest

from quire.tools import rooted_files
from quire.tools.rooted_files import FileTooLargeError, read_below


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "images"
    (folder / "7").mkdir(parents=True)
    (folder / "7" / "0.jpg").write_bytes(b"picture")
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    (tmp_path / "images2").mkdir()
    (tmp_path / "images2" / "0.jpg").write_bytes(b"secret")
    return folder


def read(root, name, max_bytes=100):
    return read_below(root, name, max_bytes=max_bytes)


def test_a_file_is_read_by_its_relative_and_by_its_absolute_path(root):
    assert read(root, "7/0.jpg") == b"picture"
    assert read(root, str(root / "7" / "0.jpg")) == b"picture"
    assert read(root, "7/../7/./0.jpg") == b"picture"


@pytest.mark.parametrize(
    "name",
    [
        *("../secret.jpg", "7/../../secret.jpg", "{parent}/secret.jpg", "{parent}/images2/0.jpg"),
        *("/etc/passwd", "", ".", "7", "7/", "..", "7/1.jpg", "7/0.jpg/x", "a\x00b", "x" * 5000, "x" * 300),
        *("/proc/self/environ", "file:///etc/passwd", "~/secret.jpg", "\udcff\udcfe"),
    ],
)
def test_nothing_else_is_there(root, name):
    with pytest.raises(FileNotFoundError):
        read(root, name.format(parent=root.parent))


def test_a_link_that_leads_outside_is_not_followed(root):
    (root / "out.jpg").symlink_to(root.parent / "secret.jpg")
    (root / "elsewhere").symlink_to(root.parent)
    (root / "loop").symlink_to(root / "loop")
    for name in ("out.jpg", "elsewhere/secret.jpg", "loop"):
        with pytest.raises(FileNotFoundError):
            read(root, name)


def test_a_link_that_stays_inside_is_followed(root):
    (root / "also.jpg").symlink_to("7/0.jpg")
    assert read(root, "also.jpg") == b"picture"


def test_the_folder_itself_may_be_reached_through_a_link(root, tmp_path):
    (tmp_path / "mounted").symlink_to(root)
    assert read(tmp_path / "mounted", "7/0.jpg") == b"picture"
    assert read(tmp_path / "mounted", str(tmp_path / "mounted" / "7" / "0.jpg")) == b"picture"


def test_a_link_put_there_after_the_check_is_not_followed(root, monkeypatch):
    opening = rooted_files.open_regular

    def swap_then_open(path, *, below):
        (root / "7" / "0.jpg").unlink()
        (root / "7" / "0.jpg").symlink_to(root.parent / "secret.jpg")
        return opening(path, below=below)

    monkeypatch.setattr(rooted_files, "open_regular", swap_then_open)
    with pytest.raises(FileNotFoundError):
        read(root, "7/0.jpg")


def test_a_pipe_is_not_waited_for(root):
    os.mkfifo(root / "pipe.jpg")
    with pytest.raises(FileNotFoundError):
        read(root, "pipe.jpg")


def test_a_file_over_the_limit_is_not_read(root):
    assert read(root, "7/0.jpg", max_bytes=7) == b"picture"
    with pytest.raises(FileTooLargeError):
        read(root, "7/0.jpg", max_bytes=6)
