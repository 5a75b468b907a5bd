"""Git LFS as a process: hangs are ended, with their children; what it says is told."""

import os
import stat
import time
from pathlib import Path

import pytest

from quire.model.errors import Retry
from quire.tools import git_lfs

OID = "a" * 64


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def _program(tmp_path, script):
    path = tmp_path / "bin" / "git-lfs"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_process_that_hangs_is_ended_with_its_children(tmp_path, environment):
    _program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    started = time.monotonic()
    with pytest.raises(Retry) as late:
        git_lfs.fetch(
            tmp_path / "a.pdf",
            oid=OID,
            size=1,
            target=tmp_path / "target",
            environment=environment,
            timeout_seconds=1,
        )
    assert late.value.code == "lfs_timeout"
    assert time.monotonic() - started < 30
    child = int((tmp_path / "child").read_text())
    while time.monotonic() - started < 30:
        try:
            state = Path(f"/proc/{child}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
    pytest.fail("the child of git-lfs is still there")


def test_the_version_is_found(tmp_path, environment):
    assert not git_lfs.probe({"PATH": str(tmp_path)}).ok
    assert "install git-lfs" in git_lfs.probe({"PATH": str(tmp_path)}).advice
    _program(tmp_path, "echo 'git-lfs/3.4.1 (GitHub; linux amd64; go 1.22.2)'")
    found = git_lfs.probe(environment)
    assert (found.ok, found.detail) == (True, "3.4.1")
