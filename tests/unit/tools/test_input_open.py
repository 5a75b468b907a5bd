"""Inputs are regular files behind no link, and opening them never waits."""

import os
import socket
from pathlib import Path

import pytest

from quire.tools.input_open import NotRegularError, open_regular
from quire.tools.mounts import is_below


@pytest.fixture
def found(tmp_path):
    """A file two folders below the given one."""
    path = tmp_path / "given" / "box" / "a.tif"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"scan")
    return path


def put_link(path):
    path.symlink_to("/etc/passwd")


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("put", [put_link, put_socket, os.mkfifo, os.mkdir])
def test_what_takes_the_place_of_a_file_is_not_opened(found, put):
    found.unlink()
    put(found)
    with pytest.raises(NotRegularError):
        open_regular(found, below=2)


def test_a_link_in_the_place_of_a_folder_above_is_not_followed(found, tmp_path):
    found.parent.rename(tmp_path / "elsewhere")
    found.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotRegularError):
        open_regular(found, below=2)


def test_the_given_folder_itself_may_be_a_link(found, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "given")
    descriptor = open_regular(tmp_path / "link" / "box" / "a.tif", below=2)
    assert os.read(descriptor, 10) == b"scan"
    os.close(descriptor)


def test_a_device_is_no_input():
    with pytest.raises(NotRegularError):
        open_regular(Path("/dev/zero"), below=0)


def test_paths_on_a_share_are_recognised_through_links_and_without_touching_it(tmp_path):
    share = tmp_path / "never-made"  # touching it would raise
    (tmp_path / "link").symlink_to(share)
    (tmp_path / "plain").mkdir()
    for path in (share, share / "a", tmp_path / "link" / "b", tmp_path / "plain" / ".." / "link"):
        assert is_below(path, [share])
    for path in (tmp_path, tmp_path / "plain", tmp_path / "never-made-either"):
        assert not is_below(path, [share])
