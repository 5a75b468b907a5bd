"""`.ci/isolated` shows a command nothing of the machine's past, passes on its exit code, leaves nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TMP = "/tmp"  # noqa: S108 - what is to be covered
SCRIPT = Path(__file__).parents[2] / ".ci" / "isolated"
# Looks first, then leaves something everywhere: also a folder that cannot be listed.
PROBE = """
import json, os, pathlib, sys
seen = {name: os.listdir(name) for name in (os.environ["HOME"], os.environ["TMPDIR"], "/tmp")}
json.dump({"environment": dict(os.environ), "seen": seen, "folder": os.getcwd()}, sys.stdout)
for place in (os.environ["HOME"], os.environ["TMPDIR"], os.environ["XDG_RUNTIME_DIR"]):
    left = pathlib.Path(place, "left", "behind")
    left.mkdir(parents=True)
    left.parent.chmod(0)
sys.exit(int(sys.argv[1]))
"""
KNOWN = {"PATH", "LANG", "CI", "HOME", "TMPDIR", "LC_CTYPE", "PWD", "SHLVL", "_", "OLDPWD"}


class Ran:
    def __init__(self, script: Path, code: int = 0) -> None:
        with tempfile.NamedTemporaryFile(dir=TMP, prefix="quire-callers-") as mark:
            ran = subprocess.run(
                ["bash", script, sys.executable, "-c", PROBE, str(code)],
                env={
                    **os.environ,
                    "CALLERS_SECRET": "1",
                    "PIP_INDEX_URL": "https://example.org",
                    "CI": "yes",
                },
                cwd=script.parent,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.mark = Path(mark.name).name
        self.code, self.stderr = ran.returncode, ran.stderr
        assert ran.stdout, ran.stderr
        told = json.loads(ran.stdout)
        self.environment, self.seen, self.folder = told["environment"], told["seen"], told["folder"]
        self.home = Path(self.environment["HOME"])
        self.temporary = Path(self.environment["TMPDIR"])


def copied(to: str) -> Path:
    folder = Path(to, ".ci")
    folder.mkdir()
    return Path(shutil.copy(SCRIPT, folder))


def interpreter_is_hidden() -> bool:
    return Path(sys.executable).resolve().is_relative_to(TMP) or Path(sys.prefix).is_relative_to(TMP)


def may_mount() -> bool:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        command = ["unshare", "--mount", "mount", "--bind", folder, TMP]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False


def check(ran: Ran) -> None:
    assert ran.seen[str(ran.home)] == ran.seen[str(ran.temporary)] == []
    assert ran.home != Path.home()
    kept = {name for name in ran.environment if not name.startswith("XDG_")}
    assert kept <= KNOWN, "something else of the caller's environment came through"
    assert ran.environment["CI"] == "yes"
    xdg = [value for name, value in ran.environment.items() if name.startswith("XDG_")]
    assert len(xdg) == 5
    assert all(Path(value).is_relative_to(ran.home.parent) for value in xdg)
    assert not ran.home.parent.exists(), "something was left behind"
    assert not Path(TMP, "left").exists()


@pytest.mark.parametrize("code", [0, 7])
def test_a_project_below_tmp_gets_a_home_and_a_temporary_folder(code: int):
    with tempfile.TemporaryDirectory(dir=TMP) as project:
        ran = Ran(copied(project), code)
        assert ran.folder.startswith(os.path.realpath(project))
    check(ran)
    assert ran.code == code
    assert ran.temporary == ran.home.parent / "tmp"
    assert ran.mark in ran.seen[TMP]
    assert "is the machine's" in ran.stderr


@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.skipif(interpreter_is_hidden(), reason="the interpreter lies in /tmp, which is to be covered")
def test_a_project_elsewhere_gets_a_tmp_of_its_own_too(code: int):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as project:
        ran = Ran(copied(project), code)
    check(ran)
    assert ran.code == code
    if may_mount():
        assert ran.temporary == Path(TMP)
        assert ran.seen[TMP] == []
        assert "of its own" in ran.stderr
    else:
        assert ran.mark in ran.seen[TMP]
        assert "is the machine's: this user or kernel may not mount" in ran.stderr
