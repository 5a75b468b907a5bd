"""Steps that crash, hang or eat memory cost one attempt each, never the pool."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.situations.runs import run_names

from quire.model.batch import FileOutcome
from quire.model.errors import Misconfigured
from quire.testing.factories import phase, pipeline

pytestmark = pytest.mark.slow

MISBEHAVE = pipeline(
    # Five seconds: on a busy machine a step that fills its memory needs more than one.
    phase(step="misbehave", cached=False, timeout_seconds=5.0, memory_mb=400, max_attempts=2)
)
GOOD = [f"good{number:03}" for number in range(40)]


async def test_one_bad_file_of_each_kind_costs_its_own_attempts_only(tmp_path):
    bad = {
        "crash.tif": ("crash", 2, "SIGSEGV"),
        "exit.tif": ("crash", 2, "exit code 7"),
        "hang.tif": ("timeout", 2, "5 s"),
        "memory.tif": ("out_of_memory", 2, "400 MB"),
        "reject.tif": ("never", 1, "never works"),
        "transient.tif": ("busy", 2, "the line is busy"),
        "bug.tif": ("step_error", 2, "KeyError"),
        "costly.tif": ("no_answer", 2, "the model gave no answer"),
        "nonsense.tif": ("bad_result", 1, "the step misbehave returned a str"),
    }
    outcome = await run_names(tmp_path, MISBEHAVE, [*GOOD, *bad, "noise.tif"])
    assert outcome.batch.status == "DONE"
    for name, (error_class, attempts, words) in bad.items():
        record = outcome.files[name]
        assert (record.outcome, record.error_class) == (FileOutcome.FAILED, error_class), record
        assert record.attempts == attempts
        assert words in record.reason
    for name in (*GOOD, "noise.tif"):
        assert (outcome.files[name].outcome, outcome.files[name].attempts) == (FileOutcome.DONE, 1)
    (counts,) = outcome.counts
    assert (counts.done, counts.failed) == (len(GOOD) + 1, len(bad))


async def test_a_task_that_kills_its_worker_once_succeeds_the_second_time(tmp_path):
    (tmp_path / "markers").mkdir()
    one = phase(step="misbehave", cached=False, options={"markers": str(tmp_path / "markers")})
    outcome = await run_names(tmp_path / "home", pipeline(one), ["once.tif", *GOOD])
    record = outcome.files["once.tif"]
    assert (record.outcome, record.attempts) == (FileOutcome.DONE, 2)


async def test_workers_killed_from_outside_are_replaced_and_nothing_is_lost(tmp_path):
    names = [f"slow{number:03}" for number in range(24)]
    killed = []

    async def observe(_batch):
        children = workers_of(os.getpid())
        if len(killed) < 5 and children:
            os.kill(children[0], signal.SIGKILL)
            killed.append(children[0])

    generous = pipeline(phase(step="misbehave", cached=False, max_attempts=10))
    outcome = await run_names(tmp_path, generous, names, observe=observe)
    assert len(killed) == 5
    assert {record.outcome for record in outcome.files.values()} == {FileOutcome.DONE}
    assert outcome.counts[0].done == len(names)


async def test_a_worker_that_cannot_start_is_reported_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "quire.assembly.local_workers.WORKER_COMMAND",
        (os.path.realpath("/bin/sh"), "-c", "echo broken >&2; exit 3"),
    )
    with pytest.raises(Misconfigured, match="broken"):
        await run_names(tmp_path, MISBEHAVE, GOOD)


def workers_of(pid: int) -> list[int]:
    """The child processes that run workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"worker_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


HANGING = """
import asyncio, sys
from pathlib import Path
from quire.testing.factories import phase, pipeline
from tests.situations.runs import run_names
one = pipeline(phase(step="misbehave", cached=False, timeout_seconds=600))
asyncio.run(run_names(Path(sys.argv[1]), one, ["hang1", "hang2"]))
"""


def test_workers_die_with_their_parent_even_inside_a_call_that_holds_the_interpreter(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", HANGING, str(tmp_path)])
    try:
        workers = _when(lambda: [pid for pid in workers_of(parent.pid) if _is_asleep(pid)], enough=2)
    finally:
        parent.kill()
        parent.wait()
    _when(lambda: [pid for pid in workers if not _is_alive(pid)], enough=2)


def _when(look, enough):
    """Look until there are enough, for half a minute at most."""
    patience = time.monotonic() + 30
    while len(found := look()) < enough:
        assert time.monotonic() < patience, f"only {found}"
        os.sched_yield()
    return found


def _is_asleep(pid):
    number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    return number in {"35", "230", "101", "115"}  # nanosleep and clock_nanosleep on x86-64 and arm64


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
