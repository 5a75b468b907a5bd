"""Child processes: limited, killed as a group, and known by the end of their standard error."""

import asyncio
import os
import select
import sys
import time
from pathlib import Path

import pytest

from quire.tools import child_process
from quire.tools.child_process import ChildProcess, ProgramMissing, describe_exit, run_child

OPEN_FILES = Path("/proc/self/fd")
ENVIRONMENT = {"PATH": os.environ["PATH"]}
# Starts a program that outlives it, and says its number.
LEAVES_ONE = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True)"


def python(program):
    return (sys.executable, "-c", program)


async def start(program, **limits):
    return await ChildProcess.start(python(program), ENVIRONMENT, **limits)


def has_ended(pid):
    """Waits for a process that need not be a child."""
    try:
        found = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([found], [], [], 30)[0])
    finally:
        os.close(found)


async def test_bytes_go_in_and_out():
    child = await start("import sys; sys.stdout.write(sys.stdin.readline())", stdin=True, stdout=True)
    child.write(b"hello\n")
    assert await child.read() == b"hello\n"
    assert await child.read() == b""
    assert describe_exit(await child.wait()) == "exit code 0"
    child.write(b"too late")
    child.close()


async def test_killing_ends_everything_that_it_started():
    child = await start(LEAVES_ONE + "; import time; time.sleep(1000)", stdout=True)
    other = int(await child.read())
    child.kill()
    child.kill()
    assert describe_exit(await child.wait()) == "signal SIGKILL"
    assert has_ended(other)
    child.kill()
    child.close()


async def test_what_it_left_running_ends_with_it():
    child = await start(LEAVES_ONE, stdout=True)
    other = int(await child.read())
    assert await child.wait() == 0
    assert has_ended(other)
    child.close()


async def test_only_the_end_of_its_standard_error_is_kept():
    seen = []
    program = "import sys; sys.stderr.write('x' * 100_000 + 'the end')"
    child = await start(program, on_stderr=seen.append)
    await child.wait()
    assert child.read_stderr().endswith("xthe end")
    assert len(child.read_stderr()) == child_process.STDERR_BYTES
    assert len(b"".join(seen)) == 100_007


async def test_a_program_that_left_the_group_with_the_pipe_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(child_process, "PIPE_SECONDS", 0.05)
    program = "import subprocess as s; print(s.Popen(['sleep','60'], start_new_session=True).pid, flush=True)"
    child = await start(program, stdout=True)
    other = int(await child.read())
    try:
        async with asyncio.timeout(20):
            assert await child.wait() == 0
    finally:
        child_process.kill_group(other)
    child.close()


async def test_its_memory_is_limited_and_it_has_only_its_own_environment(tmp_path):
    program = "import os, resource as r; print(r.getrlimit(r.RLIMIT_DATA)[0], os.getcwd(), len(os.environ))"
    child = await start(program, memory_mb=512, folder=tmp_path, stdout=True)
    limit, folder, variables = (await child.read()).split()
    assert (int(limit), folder.decode()) == (512 << 20, str(tmp_path))
    assert int(variables) <= len(ENVIRONMENT) + 1  # Python may add LC_CTYPE
    await child.wait()
    child.close()


async def test_what_cannot_be_started_leaves_no_pipe_open():
    before = list(OPEN_FILES.iterdir())
    with pytest.raises(OSError, match="No such file"):
        await ChildProcess.start(("/nowhere/program",), ENVIRONMENT, stdin=True, stdout=True)
    assert len(list(OPEN_FILES.iterdir())) == len(before)


def run(program, folder, *, seconds=30.0):
    with (folder / "out").open("wb") as stdout:
        return run_child(
            python(program), ENVIRONMENT, folder=folder, stdin=b"in", stdout=stdout, timeout_seconds=seconds
        )


def test_a_command_runs_to_its_end(tmp_path):
    ended = run("import sys; sys.stdout.write(sys.stdin.read() + 'put'); sys.exit('a fault')", tmp_path)
    assert (ended.code, ended.stderr) == (1, "a fault")
    assert (tmp_path / "out").read_text() == "input"


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path):
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run(LEAVES_ONE + "; import time; time.sleep(1000)", tmp_path, seconds=3.0)
    assert time.monotonic() - began < 30
    assert has_ended(int((tmp_path / "out").read_text()))


def test_a_program_that_is_not_installed_is_named(tmp_path):
    with (tmp_path / "out").open("wb") as stdout, pytest.raises(ProgramMissing, match="nowhere"):
        run_child(("nowhere",), ENVIRONMENT, folder=tmp_path, stdin=b"", stdout=stdout, timeout_seconds=1.0)
