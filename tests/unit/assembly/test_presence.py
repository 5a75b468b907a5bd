"""Lock files say who lives: nobody alive is taken for dead, whatever others are tidying up meanwhile."""

import os
import signal
import subprocess
import sys

import pytest

from quire.assembly.presence import hold_lock, join_home, lock_request
from quire.ledger.port import Member
from quire.model.errors import Misconfigured

HOLDER = """
import sys, signal
from pathlib import Path
from quire.assembly.presence import join_home
with join_home(Path(sys.argv[1]), sys.argv[2]) as presence:
    (presence.scratch / "work").touch()
    print("here", flush=True)
    signal.pause()
"""
# Comes and goes as fast as it can, and looks after itself each time; says what it found missing.
COMING_AND_GOING = """
import sys
from pathlib import Path
from quire.assembly.presence import join_home, lock_request
from quire.model.errors import Misconfigured
home, name, wrong = Path(sys.argv[1]), sys.argv[2], 0
for number in range(150):
    with join_home(home, f"{name}-{number}") as presence:
        wrong += not presence.scratch.exists()
        wrong += not (home / "crew" / f"{name}-{number}.lock").exists()
        try:
            with lock_request(home, "k" * 40):
                mark = home / "mark"
                try:
                    mark.touch(exist_ok=False)
                except FileExistsError:
                    wrong += 1
                mark.unlink(missing_ok=True)
        except Misconfigured:
            pass
print(wrong)
"""


def member(name):
    return Member(no=1, name=name, kind="run", place="here", beat=0, enlisted_at=0.0)


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def test_the_dead_are_known_at_once_and_tidied_up(tmp_path):
    with join_home(tmp_path, "me") as mine, start(HOLDER, tmp_path, "other") as other:
        assert other.stdout.readline() == "here\n"
        assert not mine.is_gone(member("other"))
        mine.sweep()
        assert (tmp_path / "scratch" / "other" / "work").exists()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert mine.is_gone(member("other"))
        mine.sweep()
        assert [one.name for one in (tmp_path / "scratch").iterdir()] == ["me"]
        assert [one.name for one in (tmp_path / "crew").iterdir()] == ["me.lock"]
    assert list((tmp_path / "crew").iterdir()) == []


def test_one_that_never_came_is_dead(tmp_path):
    with join_home(tmp_path, "me") as mine:
        assert mine.is_gone(member("nobody"))
        assert not mine.is_gone(member("me"))


def test_a_request_is_for_one_at_a_time(tmp_path):
    with join_home(tmp_path, "me"), lock_request(tmp_path, "k"):
        with pytest.raises(Misconfigured, match=str(os.getpid())), lock_request(tmp_path, "k"):
            pass
        with lock_request(tmp_path, "other"):
            pass


def test_a_lock_whose_file_was_replaced_is_not_mistaken_for_held(tmp_path):
    path = tmp_path / "x.lock"
    with hold_lock(path):
        path.unlink()
        with hold_lock(path, "busy"):
            assert path.exists()


def test_one_that_comes_while_others_sweep_keeps_its_folder(tmp_path, monkeypatch):
    with join_home(tmp_path, "me") as mine:
        lock = tmp_path / "crew" / "new.lock"

        def listed(_folder, _pattern):
            yield lock  # seen for a moment, before it was locked, and swept away by somebody else
            lock.touch()  # it has come again

        (tmp_path / "scratch" / "new").mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(type(tmp_path), "glob", listed)
            mine.sweep()
        assert lock.exists()
        assert (tmp_path / "scratch" / "new").exists()


def test_who_lives_keeps_lock_and_scratch_while_others_come_and_go(tmp_path):
    crowd = [start(COMING_AND_GOING, tmp_path, name) for name in "abcd"]
    assert [one.communicate(timeout=100)[0] for one in crowd] == ["0\n"] * 4
