"""Work that leaves the server, and everything that can go wrong on the way out and on the way back."""

import os
import select
import subprocess
import sys
from contextlib import suppress

import httpx
import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import (
    BODIES,
    FAST,
    PROCESS,
    attempts,
    finished,
    gated,
    on_fly,
    opened,
    outcomes,
    picture,
    sent,
    strays,
)
from tests.standins.machines import TASK_COMMAND

pytestmark = pytest.mark.slow
ONE = {"/box/p1.tif": BODIES["/box/p1.tif"]}
UNHEARD = "os.environ['CALLBACK_URL']=os.environ['CALLBACK_URL'].replace('sig=','sig=0')"


def told(server, batch, path="/box/p1.tif"):
    """(attempt, outcome) of everything that was tried for this input."""
    return [(one.phase, one.attempt, one.outcome) for one in attempts(server, batch, path)]


def done(server, batch):
    assert finished(server, batch)["status"] == "DONE"
    return {path: outcome for path, (outcome, _, _) in outcomes(server, batch).items()}


@pytest.mark.parametrize(
    "before",
    [UNHEARD, f"{UNHEARD}; del os.environ['OUTPUT_URL_RESULT'], os.environ['QUIRE_STEP']"],
    ids=["its result is kept", "its output alone is there"],
)
def test_a_result_whose_callback_was_lost_is_found(tmp_path, before):
    command, gate = gated(tmp_path, before=before)
    with opened(gate), on_fly(tmp_path, command=command) as (server, _):
        batch = sent(server, ONE)
        assert done(server, batch) == {"/box/p1.tif": "done"}
        assert told(server, batch) == [("TIFF_CONVERSION", 1, "done"), ("IMAGE_PROCESSING", 1, "done")]
        (_, _, made) = outcomes(server, batch)["/box/p1.tif"]
        assert ("ref", "/box/p1.jpg.ref.json") in made


def test_a_failure_whose_callback_was_lost_is_found_too(tmp_path):
    command, gate = gated(tmp_path, before=UNHEARD)
    with opened(gate), on_fly(tmp_path, command=command) as (server, _):
        batch = sent(server, {"/box/broken.tif": BODIES["/box/broken.tif"]})
        assert done(server, batch) == {"/box/broken.tif": "failed"}
        assert told(server, batch, "/box/broken.tif") == [("TIFF_CONVERSION", 1, "rejected")]


def test_a_machine_that_dies_without_a_word_is_replaced_and_its_late_word_changes_nothing(tmp_path):
    command, gate = gated(tmp_path)
    with on_fly(tmp_path, command=command) as (server, machines):
        batch = sent(server, ONE)
        machines.wait_until(machines.running)
        machines.machines[0].kill()
        machines.wait_until(lambda: len(machines.machines) == 2)
        with opened(gate):
            assert done(server, batch) == {"/box/p1.tif": "done"}
        assert told(server, batch)[:2] == [("TIFF_CONVERSION", 1, "crashed"), ("TIFF_CONVERSION", 2, "done")]
        before = outcomes(server, batch)
        first = machines.bodies[0]["config"]["env"]
        # One that begins after all asks first, and does nothing.
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        late = subprocess.run(TASK_COMMAND, env=kept | first, capture_output=True, check=False)
        assert (late.returncode, late.stderr) == (0, b"")
        assert strays(server, batch) == []
        said = {"task_id": first["TASK_ID"], "batch_id": batch, "status": "error", "error": "of a ghost"}
        answer = httpx.post(first["CALLBACK_URL"], json=said)
        assert answer.json() == {"ok": True, "late": True}
        # Nor can it write over what its successor made: each attempt has a place of its own.
        assert httpx.put(first["OUTPUT_URL"], content=b"of a ghost").status_code == 200
        assert outcomes(server, batch) == before


def test_an_attempt_has_one_machine_whatever_the_provider_says(tmp_path):
    with on_fly(tmp_path) as (server, machines):
        machines.faults += ["429", "500", "lost after", "409 after"]
        bodies = ONE | {"/box/p2.tif": (picture("TIFF", (300, 200)), "image/tiff")}
        batch = sent(server, bodies)
        assert done(server, batch) == dict.fromkeys(bodies, "done")
        assert len({one.name for one in machines.machines}) == len(machines.machines) == 4
        assert strays(server, batch) == []


def test_a_batch_that_is_cancelled_takes_its_machines_with_it(tmp_path):
    command, _ = gated(tmp_path)
    with on_fly(tmp_path, command=command) as (server, machines):
        batch = sent(server, ONE)
        machines.wait_until(machines.running)
        with server.client() as client:
            client.post(f"/admin/cancel/{batch}", json={"reason": "no"}).raise_for_status()
        machines.wait_until(lambda: not machines.running())
        assert machines.destroyed == [machines.machines[0].name]


def test_a_server_that_is_killed_goes_on_and_the_reaper_ends_what_it_left(tmp_path):
    command, gate = gated(tmp_path)
    with on_fly(tmp_path, command=command) as (server, machines):
        bodies = ONE | {"/box/p2.tif": (picture("TIFF", (300, 200)), "image/tiff")}
        batch = sent(server, bodies)
        machines.wait_until(lambda: len(machines.running()) == 2)
        left = {one.name for one in machines.running()}
        server.restart()
        machines.wait_until(lambda: len(machines.machines) == 4 and left <= set(machines.destroyed))
        with opened(gate):
            assert done(server, batch) == dict.fromkeys(bodies, "done")
            machines.wait_until(lambda: not machines.running())
        assert strays(server, batch) == []
        counts = finished(server, batch)["phases"]["TIFF_CONVERSION"]
        assert (counts["total"], counts["completed"], counts["failed"]) == (2, 2, 0)
        ends = [outcome for _, _, outcome in told(server, batch)]
        assert ends == ["interrupted", "done", "done"]


def test_a_server_that_is_stopped_leaves_no_machine(tmp_path):
    command, gate = gated(tmp_path)
    with on_fly(tmp_path, command=command) as (server, machines):
        batch = sent(server, ONE)
        machines.wait_until(machines.running)
        assert server.stop() == 0
        assert not machines.running()
        server.start()
        with opened(gate):
            assert done(server, batch) == {"/box/p1.tif": "done"}
        assert [outcome for _, _, outcome in told(server, batch)][-2:] == ["done", "done"]


def test_what_a_machine_costs_is_counted(tmp_path):
    with on_fly(tmp_path) as (server, _):
        batch = sent(server, ONE)
        done(server, batch)
        assert spent(server, batch) > 0


def spent(server, batch):
    from tests.acceptance.ingest.home import at_home

    async def look(office):
        known = await office.batches.get_batch(batch)
        return sum(one.spent.money_micros for one in await office.records.count_tasks(known.no))

    return at_home(server, look)


def process_settings(command):
    import shlex

    return FAST | PROCESS | {"QUIRE_COMPUTE_COMMAND": shlex.join(command)}


def test_processes_end_with_the_server_that_is_killed(tmp_path):
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    command, gate = gated(tmp_path, before=f"open({str(pids)!r},'w').write(str(os.getpid()))")
    with serving(tmp_path, process_settings(command)) as server:
        batch = sent(server, ONE)
        pid = int(pids.read_text())
        handle = os.pidfd_open(pid)
        server.kill()
        assert select.select([handle], [], [], 30)[0]
        os.close(handle)
        server.start()
        assert int(pids.read_text()) != pid
        with opened(gate), _drained(pids):
            assert done(server, batch) == {"/box/p1.tif": "done"}


def test_a_process_that_is_killed_is_replaced(tmp_path):
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    command, gate = gated(tmp_path, before=f"open({str(pids)!r},'w').write(str(os.getpid()))")
    with serving(tmp_path, process_settings(command)) as server:
        batch = sent(server, ONE)
        os.kill(int(pids.read_text()), 9)
        pids.read_text()
        with opened(gate), _drained(pids):
            assert done(server, batch) == {"/box/p1.tif": "done"}
        assert told(server, batch)[0] == ("TIFF_CONVERSION", 1, "crashed")
        (first, *_) = attempts(server, batch, "/box/p1.tif")
        assert "SIGKILL" in first.error


def test_a_process_that_hangs_is_ended_in_time(tmp_path):
    command, _ = gated(tmp_path)
    limits = {"QUIRE_PREPROCESS_TIFF_TIMEOUT_SECONDS": "0.2", "QUIRE_COMPUTE_START_SECONDS": "0"}
    with serving(tmp_path, process_settings(command) | limits) as server:
        batch = sent(server, ONE)
        assert done(server, batch) == {"/box/p1.tif": "failed"}
        assert [outcome for _, _, outcome in told(server, batch)] == ["timed_out"] * 3


def test_only_a_server_that_answers_sends_work_away(tmp_path):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tif").write_bytes(BODIES["/box/p1.tif"][0])
    ran = subprocess.run(
        [sys.executable, "-m", "quire.cli.main", "run", "in", "--out", "out"],
        cwd=tmp_path,
        env=kept | PROCESS | {"QUIRE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "only `quire serve` answers" in ran.stderr


def _drained(pipe):
    """Whoever else writes its number finds a reader."""
    from contextlib import contextmanager

    @contextmanager
    def held():
        reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            yield
        finally:
            with suppress(OSError):
                os.close(reading)

    return held()
