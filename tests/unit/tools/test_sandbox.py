"""Where there is a sandbox, what the setting does where there is none, and who can enter it."""

import os
import subprocess
import sys

import pytest

from quire.assembly import examination
from quire.model.errors import Misconfigured
from quire.tools import landlock, sandbox, seccomp

TRIAL = (
    "from quire.tools import sandbox\n"
    "import os\n"
    "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    "sandbox.enter(sandbox.SandboxRules())\n"
    "for attempt in (os.fork, lambda: open('/etc/passwd'), lambda: open('/tmp/of-nobody', 'w')):\n"
    "    try: attempt()\n"
    "    except PermissionError: print('refused', end=' ')\n"
    "    else: print('let through', end=' ')\n"
)


@pytest.fixture
def plain_kernel(monkeypatch):
    """A kernel without Landlock."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    sandbox.find_obstacle.cache_clear()
    yield
    sandbox.find_obstacle.cache_clear()


def test_the_sandbox_needs_no_privileges():
    ended = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("refused refused refused ", "")


def test_a_process_with_threads_does_not_enter():
    code = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "from quire.tools import sandbox\n"
        "sandbox.enter(sandbox.SandboxRules())\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "starts a thread when it is imported" in ended.stderr


@pytest.mark.usefixtures("plain_kernel")
def test_without_landlock_auto_goes_on_and_on_does_not():
    assert not sandbox.check_mode("auto")
    with pytest.raises(Misconfigured, match="sandbox is on, and this machine has none: the kernel has no"):
        sandbox.check_mode("on")


@pytest.mark.usefixtures("plain_kernel")
@pytest.mark.parametrize(
    ("mode", "state", "words"),
    [
        ("auto", "warning", "no Landlock, or it is switched off: files are decoded with all"),
        ("on", "failed", "workers do not start"),
        ("off", "warning", "switched off"),
    ],
)
def test_doctor_says_why_there_is_none(mode, state, words):
    (check,) = examination._check_sandbox(mode)
    assert (check.name, check.state) == ("mechanism", state)
    assert words in check.detail
    assert check.advice


@pytest.mark.parametrize("name", seccomp.ARCHITECTURES)
def test_the_filter_of_each_architecture_is_one_that_the_kernel_takes(name):
    """As long as allowed, with jumps that end within it."""
    program = seccomp.build_filter(seccomp.ARCHITECTURES[name], os.getpid())
    count = len(program) // 8
    assert 0 < count <= 4096
    for at in range(count):
        code, if_true, if_false = program[at * 8], program[at * 8 + 2], program[at * 8 + 3]
        if code in {0x15, 0x35}:
            assert at + 1 + max(if_true, if_false) < count
