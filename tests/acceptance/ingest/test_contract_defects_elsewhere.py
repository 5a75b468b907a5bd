"""Section 11 of the preprocessing contract, row by row: what has to do with workers that run elsewhere.

Names begin with the number of the row; the other rows are in `test_contract_defects`.
"""

import json
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import httpx
import pytest
from msgspec import structs
from tests.acceptance.ingest.conftest import Server, s3_environment, serving
from tests.acceptance.ingest.elsewhere import (
    BODIES,
    FAST,
    PROCESS,
    attempts,
    finished,
    gated,
    on_fly,
    outcomes,
    picture,
    sent,
    strays,
    until,
)
from tests.acceptance.ingest.home import at_home, settings_of

from quire.assembly.secrets import load_signing_secret
from quire.batches.remote.attempts import AttemptAddress, build_url
from quire.engine.flow_settler import FlowSettler
from quire.ledger.port import Settlement
from quire.model.batch import TaskState
from quire.model.ids import task_id
from quire.model.work import Outcome, Report

pytestmark = pytest.mark.slow
ONE = {"/box/p1.tif": BODIES["/box/p1.tif"]}
TWO = ONE | {"/box/p2.tif": (picture("TIFF", (300, 200)), "image/tiff")}
JPEG = picture("JPEG", (300, 250))
HOUR = "3600"


# The member that the tests invent holds no lock: a server that looks would take its tasks away.
QUIET = FAST | {"QUIRE_CREW_BEAT_SECONDS": "60", "QUIRE_CREW_STALE_SECONDS": "200"}


@pytest.fixture
def idle(tmp_path):
    """It conducts, but nobody works: tasks are for the test."""
    with serving(tmp_path, QUIET, "--workers", "0") as running:
        yield running


def claimed(server: Server, batch: str, prefix: str = "tiff") -> dict:
    """Somebody takes the tasks that wait: by path, the attempt, the input's key and the URL to report to."""

    async def look(office):
        known = await office.batches.get_batch(batch)
        member = await office.members.add_member("elsewhere", "machine", "far", now=office.clock.now())
        phase = ["pdf", "tiff", "img"].index(prefix) + 1
        claims = await office.flow.claim_phase(
            known.no, phase, member=member.no, limit=99, now=office.clock.now()
        )
        secret = load_signing_secret(settings_of(server))
        found = {}
        for order in (claim.order for claim in claims):
            about = AttemptAddress(
                batch_id=batch,
                task_id=task_id(prefix, batch, order.file.key),
                task_no=order.task_no,
                attempt=order.attempt,
            )
            found[order.file.path] = (about, order, build_url(server.url, secret, about))
        return found

    return at_home(server, look)


def waiting_tasks(server: Server, bodies) -> tuple[str, dict]:
    batch = sent(server, bodies)
    until(server, batch, lambda said: said["progress"]["tasks_total"] == len(bodies))
    return batch, claimed(server, batch)


def success(server: Server, taken, *, stored: bytes = JPEG, said: int | None = None) -> dict:
    about, order, _ = taken
    key = order.file.key.replace(".tif", ".jpg")
    at_home(server, lambda office: office.blobs.put(key, stored, content_type="image/jpeg"))
    return {
        "task_id": about.task_id,
        "batch_id": about.batch_id,
        "status": "success",
        "output_r2_key": key,
        "output_file_name": key.rpartition("/")[2],
        "output_file_size": len(stored) if said is None else said,
    }


def counted(server: Server, batch: str) -> dict:
    phases = httpx.get(f"{server.url}/status/{batch}").json()["phases"]
    return {name: (one["total"], one["completed"], one["failed"]) for name, one in phases.items()}


def told(server: Server, batch: str, path: str) -> list:
    return [(one.phase, one.attempt, one.outcome, one.error_class) for one in attempts(server, batch, path)]


def test_row_05_machines_that_cannot_be_started_are_counted_and_the_task_fails(tmp_path):
    """The provider refuses for good: its token is wrong."""
    more = {"QUIRE_FLY_TOKEN": "revoked", "QUIRE_PREPROCESS_MAX_ATTEMPTS": "5"}
    with on_fly(tmp_path, more=more) as (server, machines):
        batch = sent(server, ONE)
        assert finished(server, batch)["status"] == "DONE"
        refused = [("TIFF_CONVERSION", number, "erred", "not_launched") for number in range(1, 6)]
        assert told(server, batch, "/box/p1.tif") == refused
        assert counted(server, batch)["TIFF_CONVERSION"] == (1, 0, 1)
        assert outcomes(server, batch)["/box/p1.tif"][:2] == ("failed", "not_launched")
        assert machines.bodies == []
        assert "fly.token" in attempts(server, batch, "/box/p1.tif")[-1].error


def test_row_05_a_fault_that_may_pass_is_counted_apart_and_has_an_end_too(tmp_path):
    """No process can be started: its command is longer than any system takes."""
    (tmp_path / "quire.toml").write_text(f'[compute]\ncommand = "true {"x" * 200_000}"\n', encoding="utf-8")
    more = {"QUIRE_RETRY_MAX_INTERRUPTIONS": "1"}
    with serving(tmp_path, FAST | PROCESS | more) as server:
        batch = sent(server, ONE)
        assert finished(server, batch)["status"] == "DONE"
        refused = [("TIFF_CONVERSION", number, "interrupted", "not_launched") for number in (1, 2)]
        assert told(server, batch, "/box/p1.tif") == refused
        assert counted(server, batch)["TIFF_CONVERSION"] == (1, 0, 1)
        assert outcomes(server, batch)["/box/p1.tif"][:2] == ("failed", "not_launched")


def test_row_06_a_picture_that_hangs_is_ended_while_others_still_wait(tmp_path):
    command, _ = gated(tmp_path)
    more = {
        "QUIRE_COMPUTE_IMAGE": "process",
        "QUIRE_COMPUTE_COMMAND": shlex.join(command),
        "QUIRE_COMPUTE_PROCESSES": "1",
        "QUIRE_COMPUTE_START_SECONDS": "0",
        "QUIRE_PREPROCESS_IMAGE_TIMEOUT_SECONDS": "0.3",
        "QUIRE_PREPROCESS_TIFF_TIMEOUT_SECONDS": HOUR,
        "QUIRE_PREPROCESS_MAX_ATTEMPTS": "1",
    }
    bodies = {
        f"/box/{name}.jpg": (picture("JPEG", (300, 200 + number)), "image/jpeg")
        for number, name in enumerate("abc")
    }
    with serving(tmp_path, FAST | more) as server:
        batch = sent(server, bodies)
        assert finished(server, batch)["status"] == "DONE"
        tried = [attempts(server, batch, path) for path in bodies]
        assert [[one.outcome for one in some] for some in tried] == [["timed_out"]] * 3
        began = sorted((one.started_at, one.seconds) for some in tried for one in some)
        # One at a time: each was ended while the later ones had not even been started.
        for (start, seconds), (following, _) in pairwise(began):
            assert seconds >= 0.3
            assert following >= start + 0.3
        assert set(listed_paths(server, batch)) == set(bodies)  # they pass unchanged


def listed_paths(server: Server, batch: str) -> list[str]:
    from tests.acceptance.ingest.home import manifest

    return [file["logical_path"] for one in manifest(server, batch)["directories"] for file in one["files"]]


def test_row_07_pictures_do_not_wait_for_the_delay_of_tiffs(tmp_path):
    (tmp_path / "after").mkdir()
    slow = {"QUIRE_PREPROCESS_TIFF_FIRST_SECONDS": HOUR, "QUIRE_PREPROCESS_TIFF_BETWEEN_SECONDS": HOUR}
    slow |= {"QUIRE_PREPROCESS_TIFF_AT_ONCE": "1", "QUIRE_PREPROCESS_IMAGE_AT_ONCE": "1"}
    bodies = {
        f"/box/{number}.jpg": (picture("JPEG", (300, 200 + number)), "image/jpeg") for number in range(3)
    }
    with serving(tmp_path, FAST | slow, "--workers", "1") as server:
        batch = sent(server, bodies)
        assert finished(server, batch)["status"] == "DONE"
        assert counted(server, batch)["IMAGE_PROCESSING"] == (3, 3, 0)
    # The wait after its last dispatch is the phase's own too.
    slow["QUIRE_PREPROCESS_TIFF_FIRST_SECONDS"] = "0"
    with serving(tmp_path / "after", FAST | slow, "--workers", "1") as server:
        batch = sent(server, bodies | ONE)
        assert finished(server, batch)["status"] == "DONE"
        assert counted(server, batch)["IMAGE_PROCESSING"] == (4, 4, 0)


def test_row_07_the_delay_of_pictures_is_their_own(tmp_path):
    slow = {"QUIRE_PREPROCESS_IMAGE_FIRST_SECONDS": HOUR}
    with serving(tmp_path, FAST | slow, "--workers", "1") as server:
        batch = sent(server, ONE)
        until(server, batch, lambda said: said["phases"].get("IMAGE_PROCESSING", {}).get("total") == 1)
        assert counted(server, batch)["TIFF_CONVERSION"] == (1, 1, 0)

        async def alarm(office):
            return await office.batches.next_alarm(now=office.clock.now()) - office.clock.now()

        assert 3500 < at_home(server, alarm) <= 3600


def test_row_08_the_last_callback_and_the_timer_make_one_phase_change(tmp_path):
    """Two conductors turn, and both are told the last callback again and again at the same time."""
    with ExitStack() as stack:
        first = stack.enter_context(serving(tmp_path, QUIET, "--workers", "0"))
        second = stack.enter_context(serving(tmp_path, QUIET, "--workers", "0"))
        batch, taken = waiting_tasks(first, TWO)
        bodies = {path: success(first, one) for path, one in taken.items()}
        assert httpx.post(taken["/box/p1.tif"][2], json=bodies["/box/p1.tif"]).json() == {"ok": True}
        last = taken["/box/p2.tif"][2]
        urls = [last, last.replace(first.url, second.url)] * 8
        with ThreadPoolExecutor(len(urls)) as threads:
            answers = list(
                threads.map(lambda one: httpx.post(one, json=bodies["/box/p2.tif"], timeout=30), urls)
            )
        assert {one.status_code for one in answers} == {200}
        assert [one.json() for one in answers].count({"ok": True}) == 1
        until(first, batch, lambda said: said["status"] == "IMAGE_PROCESSING")
        assert counted(first, batch) == {
            "PDF_SPLIT": (0, 0, 0),
            "TIFF_CONVERSION": (2, 2, 0),
            "IMAGE_PROCESSING": (2, 0, 0),
        }
        assert phases_begun(first, batch) == ["PDF_SPLIT", "TIFF_CONVERSION", "IMAGE_PROCESSING"]


def phases_begun(server: Server, batch: str) -> list[str]:
    async def look(office):
        known = await office.batches.get_batch(batch)
        happened = await office.records.list_events(known.no, after=0, limit=1000)
        return [data["phase"] for _, _, kind, data in happened if kind == "phase_started"]

    return at_home(server, look)


def test_row_09_a_repeated_callback_counts_once_and_a_late_one_is_no_error(idle):
    batch, taken = waiting_tasks(idle, TWO)
    first, second = taken["/box/p1.tif"], taken["/box/p2.tif"]
    body = success(idle, first)
    assert httpx.post(first[2], json=body).json() == {"ok": True}
    for again in (body, {"task_id": first[0].task_id, "batch_id": batch, "status": "error", "error": "no"}):
        answer = httpx.post(first[2], json=again)
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "duplicate": True})
    assert counted(idle, batch)["TIFF_CONVERSION"] == (2, 1, 0)
    assert httpx.post(second[2], json=success(idle, second)).json() == {"ok": True}
    until(idle, batch, lambda said: said["status"] == "IMAGE_PROCESSING")
    answer = httpx.post(first[2], json=body)
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "late": True})
    assert counted(idle, batch)["TIFF_CONVERSION"] == (2, 2, 0)
    assert len(strays(idle, batch)) == 3  # kept for the record


def test_row_09_unknown_is_not_found_and_a_success_after_a_timeout_counts(idle):
    batch, taken = waiting_tasks(idle, TWO)
    about, order, callback = taken["/box/p1.tif"]
    secret = load_signing_secret(settings_of(idle))
    for wrong in ({"batch_id": "01KB0000000000000000000000"}, {"task_no": 99}):
        other = structs.replace(about, **wrong)
        said = {"task_id": other.task_id, "batch_id": other.batch_id, "status": "error"}
        assert httpx.post(build_url(idle.url, secret, other), json=said).status_code == 404
    spent = (1.0, 60.0, "w")
    report = Report(
        *(order.batch_no, order.task_no, 1, Outcome.TIMED_OUT), *spent, error_class="timeout", error="late"
    )

    async def give_up(office):
        failed = Settlement(report=report, state=TaskState.FAILED, blame=True)
        await FlowSettler(office.flow).settle(order.batch_no, [(failed, None)], now=office.clock.now())

    at_home(idle, give_up)
    assert counted(idle, batch)["TIFF_CONVERSION"] == (2, 0, 1)
    assert httpx.post(callback, json=success(idle, taken["/box/p1.tif"])).json() == {"ok": True}
    assert counted(idle, batch)["TIFF_CONVERSION"] == (2, 1, 0)


@pytest.mark.parametrize(
    ("stored", "said", "error_class"),
    [(b"", 0, "bad_callback"), (b"", 7, "size_mismatch"), (JPEG, len(JPEG) + 1, "size_mismatch")],
    ids=["nothing, and says so", "nothing, and says otherwise", "another size"],
)
def test_row_15_an_output_of_no_bytes_or_of_another_size_is_refused(tmp_path, stored, said, error_class):
    with serving(tmp_path, FAST | {"QUIRE_PREPROCESS_MAX_ATTEMPTS": "1"}, "--workers", "0") as server:
        batch, taken = waiting_tasks(server, ONE)
        one = taken["/box/p1.tif"]
        assert httpx.post(one[2], json=success(server, one, stored=stored, said=said)).json() == {"ok": True}
        assert finished(server, batch)["status"] == "DONE"
        assert outcomes(server, batch)["/box/p1.tif"][:2] == ("failed", error_class)
        assert listed_paths(server, batch) == ["/box/p1.tif"]


SECRETS = ("R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY", "R2_ACCOUNT_ID", "AWS_SECRET_ACCESS_KEY")


@pytest.mark.service
def test_row_16_no_key_of_the_store_is_in_the_environment_of_a_machine(tmp_path, s3_server):
    bodies = ONE | {"/box/x.jpg": BODIES["/box/x.jpg"]}
    with on_fly(tmp_path, more=s3_environment(s3_server, f"row16/{tmp_path.name}")) as (server, machines):
        batch = sent(server, bodies)
        assert finished(server, batch)["status"] == "DONE"
        assert counted(server, batch)["IMAGE_PROCESSING"] == (2, 2, 0)
        assert len(machines.bodies) == 3
        for body in machines.bodies:
            environment = body["config"]["env"]
            assert not set(SECRETS) & set(environment)
            text = json.dumps(body)
            assert s3_server.secret_access_key not in text
            assert machines.token not in json.dumps(environment)
            assert {"INPUT_URL", "CALLBACK_URL"} <= set(environment)


def test_row_16_nor_in_that_of_a_process(tmp_path):
    """What the server itself was given stays with it."""
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    keep = f"import os,json\nopen({str(seen)!r},'w').write(json.dumps(dict(os.environ)))"
    more = {"QUIRE_COMPUTE_COMMAND": shlex.join((sys.executable, "-c", keep)), "SOME_PASSWORD": "hunter2"}
    more |= {"AWS_SECRET_ACCESS_KEY": "hunter2", "QUIRE_FLY_TOKEN": "hunter2"}
    with serving(tmp_path, FAST | PROCESS | more | {"QUIRE_PREPROCESS_MAX_ATTEMPTS": "1"}) as server:
        sent(server, ONE)
        environment = json.loads(seen.read_text(encoding="utf-8"))
    assert environment["TASK_ID"].startswith("tiff_")
    assert "hunter2" not in json.dumps(environment)
