"""A user's own pipeline through every kind of process, killed in the middle: the results of `quire run`."""

import json
import os
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.servers import postgres

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
LETTERS = ROOT / "tests" / "processes" / "letters.py"
WORDS = ROOT / "docs" / "examples" / "words.py"
QUICK = {
    "QUIRE_CREW_BEAT_SECONDS": "0.2",
    "QUIRE_CREW_STALE_SECONDS": "1.5",
    "QUIRE_RETRY_FIRST_DELAY_SECONDS": "0.05",
    "QUIRE_COMPUTE_LOOK_SECONDS": "0.2",
    "QUIRE_SERVE_PORT": "0",
}


@pytest.fixture
def letters(folder):
    """A small collection: texts in folders, one of which is refused, and a file of another kind."""
    (folder / "box" / "deep").mkdir(parents=True)
    (folder / "empty" / "below").mkdir(parents=True)
    for path in ("a.txt", "gate.txt", "box/b.txt", "box/deep/c.txt", "empty/below/d.txt"):
        (folder / path).write_text(f"dear {path} and friends", "utf-8")
    (folder / "box" / "bad.txt").write_text("never", "utf-8")
    (folder / "box" / "note.md").write_text("# note", "utf-8")
    return folder


@pytest.fixture
def gate(tmp_path):
    """A named pipe that holds the text `gate.txt`."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def results(out):
    """What was made, byte for byte."""
    ours = {"report.json", "index.html", ".quire-out"}
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in ours
    }


def ends(report):
    return {
        one["path"].lstrip("/"): (one["status"], one["error_class"], sorted(one["outputs"]))
        for one in report["files"]
    }


@pytest.fixture
def expected(quire, letters, tmp_path):
    """What `quire run` makes of the letters in one process."""
    ran = quire("run", str(letters), "--pipeline", str(LETTERS), "--out", str(tmp_path / "plain"))
    assert ran.returncode == 3, ran.stderr
    report = json.loads((tmp_path / "plain" / "report.json").read_text("utf-8"))
    assert report["counts"]["failed"] == 1
    quire.home = tmp_path / "other-home"
    return results(tmp_path / "plain"), ends(report)


@contextmanager
def started(quire, *arguments, **more):
    """A process of Quire that has said that it runs; gone at the end, with all that it started."""
    log = quire.folder / f"{arguments[0]}.log"
    with log.open("ab") as talk:
        process = subprocess.Popen(
            quire.command(*arguments, "--json"),
            cwd=quire.folder,
            env=quire.environment(PYTHONUNBUFFERED="1", **QUICK, **more),
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            start_new_session=True,
        )
    try:
        process.said = said = []
        while not said or said[-1]["event"] != "started":
            line = process.stdout.readline()
            assert line, log.read_text("utf-8")
            said.append(json.loads(line))
        yield process
    finally:
        kill(process)
        process.stdout.close()


def kill(process):
    """kill -9 of a process and of all that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def wait_for_reader(gate):
    """Until the step that waits there is running; the pipe, open for writing."""
    return os.open(gate, os.O_WRONLY)


def let_pass(gate):
    """Whoever waits there, and whoever comes later: an attempt may be run again."""
    passage = Path(gate).with_name("passage")
    passage.touch()
    both = os.open(gate, os.O_RDWR)  # lets in who waits, and does not wait itself
    passage.replace(gate)
    os.close(both)


def upload(quire, letters, url, **more):
    return subprocess.Popen(
        quire.command("upload", str(letters), "--to", url, "--wait", "--json"),
        cwd=quire.folder,
        env=quire.environment(**more) | {"QUIRE_HOME": str(quire.folder / "uploader")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    said, troubles = process.communicate(timeout=100)
    events = [json.loads(line) for line in said.splitlines()]
    assert events, troubles
    return process.returncode, events


def exported(quire, batch, out, **more):
    ran = quire("batch", "export", batch, "--out", str(out), **more)
    assert ran.returncode in {0, 3}, ran.stderr + ran.stdout
    return results(out)


@pytest.fixture
def on_sqlite():
    return {}


@pytest.fixture
def on_postgres_and_s3(postgres_server, s3_server, tmp_path):
    """A schema and a prefix of its own."""
    return {
        "QUIRE_LEDGER": "postgres",
        "QUIRE_POSTGRES_DSN": postgres.fresh_schema(postgres_server),
        **in_bucket(s3_server, tmp_path.name),
    }


def in_bucket(server, prefix):
    return {
        "QUIRE_STORE": "s3",
        "QUIRE_S3_BUCKET": server.bucket,
        "QUIRE_S3_ENDPOINT": server.endpoint,
        "QUIRE_S3_ACCESS_KEY_ID": server.access_key_id,
        "QUIRE_S3_SECRET_ACCESS_KEY": server.secret_access_key,
        "QUIRE_S3_ALLOW_HTTP": "true",
        "QUIRE_S3_PREFIX": prefix,
    }


PLACES = ["on_sqlite", pytest.param("on_postgres_and_s3", marks=pytest.mark.service)]


@pytest.mark.parametrize("place", PLACES)
def test_served_and_worked_on_in_another_process_that_is_killed_it_gives_the_same(
    quire, letters, gate, expected, tmp_path, place, request
):
    told = request.getfixturevalue(place) | {"LETTERS_GATE": str(gate)}
    served = told | {"QUIRE_INGEST_PIPELINE": "letters", "QUIRE_PIPELINES": str(LETTERS)}
    with started(quire, "serve", "--workers", "0", **served) as server:
        sending = upload(quire, letters, server.said[-1]["url"])
        with started(quire, "worker", "--workers", "2", "--pipeline", str(LETTERS), **told) as worker:
            held = wait_for_reader(gate)
            kill(worker)
            os.close(held)
        with started(quire, "worker", "--workers", "2", **served):
            let_pass(gate)
            code, events = ended(sending)
        batch = next(one["batch_id"] for one in events if "batch_id" in one)
        assert code == 3, events
    assert exported(quire, batch, tmp_path / "out", **served) == expected[0]
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert ends(report) == expected[1]


@pytest.mark.parametrize("place", PLACES)
def test_a_server_that_is_killed_goes_on_where_it_was(
    quire, letters, gate, expected, tmp_path, place, request
):
    told = request.getfixturevalue(place) | {"LETTERS_GATE": str(gate)}
    served = told | {"QUIRE_INGEST_PIPELINE": "letters", "QUIRE_PIPELINES": str(LETTERS)}
    with started(quire, "serve", "--workers", "2", **served) as server:
        sending = upload(quire, letters, server.said[-1]["url"])
        batch = next(event["batch_id"] for event in map(json.loads, sending.stdout) if "batch_id" in event)
        held = wait_for_reader(gate)
        kill(server)
        os.close(held)
        sending.kill()
        sending.communicate(timeout=30)
    with started(quire, "scheduler", "--workers", "2", "--until-idle", **served) as scheduler:
        let_pass(gate)
        assert scheduler.wait(60) == 0
    assert exported(quire, batch, tmp_path / "out", **served) == expected[0]


@pytest.mark.parametrize("place", PLACES)
def test_in_a_process_for_each_task_it_gives_the_same(quire, letters, expected, tmp_path, place, request):
    own = on_compute("process", tmp_path)
    served = request.getfixturevalue(place) | {
        "QUIRE_INGEST_PIPELINE": "letters",
        "QUIRE_PIPELINES": str(own),
        "QUIRE_COMPUTE_GRACE_SECONDS": "0.1",
    }
    with started(quire, "serve", "--workers", "2", **served) as server:
        code, events = ended(upload(quire, letters, server.said[-1]["url"]))
        batch = next(one["batch_id"] for one in events if "batch_id" in one)
        assert code == 3, events
    assert exported(quire, batch, tmp_path / "out", **served) == expected[0]
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert ends(report) == expected[1]


def on_compute(compute, folder):
    """The pipeline of the letters, whose steps run on this compute."""
    path = folder / "letters.py"
    text = LETTERS.read_text("utf-8")
    path.write_text(text.replace("@letters.step(", f'@letters.step(runs_on="{compute}", '), "utf-8")
    return path


def running_in(quire, letters, own, **more):
    return subprocess.Popen(
        quire.command("run", str(letters), "--pipeline", str(own), "--out", str(quire.out)),
        cwd=quire.folder,
        env=quire.environment(**more, **QUICK),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_ended(running):
    """With one file failed."""
    try:
        _, troubles = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)
        raise
    assert running.returncode == 3, troubles


@pytest.fixture
def on_redis(redis_server, tmp_path):
    return {
        "QUIRE_QUEUE_STORE": "redis",
        "QUIRE_REDIS_URL": redis_server,
        "QUIRE_REDIS_PREFIX": tmp_path.name,
    }


@pytest.mark.service
def test_workers_on_a_queue_that_are_killed_give_the_same_and_leave_unknown_steps_to_others(
    quire, letters, gate, expected, tmp_path, on_redis, s3_server
):
    told = {**on_redis, **in_bucket(s3_server, tmp_path.name), "LETTERS_GATE": str(gate)}
    own = on_compute("queue", tmp_path)
    leased = {"QUIRE_CONFIG": str(tmp_path / "quire.toml")}
    (tmp_path / "quire.toml").write_text('[queues."quire-tasks"]\nlease_seconds = 2\n', "utf-8")
    with started(quire, "worker", "--from-queue", **told, **leased) as stranger:
        running = running_in(quire, letters, own, **told)
        notice = json.loads(stranger.stdout.readline())
        assert "no step letters.read version 1 here" in json.dumps(notice)
        assert "pipelines" in json.dumps(notice)
        with started(quire, "worker", "--from-queue", "--pipeline", str(own), **told, **leased) as worker:
            held = wait_for_reader(gate)
            kill(worker)
            os.close(held)
        with started(quire, "worker", "--from-queue", "--pipeline", str(own), **told, **leased):
            let_pass(gate)
            assert_ended(running)
    assert results(quire.out) == expected[0]
    assert ends(quire.report()) == expected[1]


@pytest.mark.service
def test_on_ray_it_gives_the_same(quire, letters, expected, tmp_path, s3_server):
    told = {"QUIRE_RAY_WORKERS": "2", **in_bucket(s3_server, tmp_path.name)}
    own = on_compute("ray", tmp_path)
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:  # short: Ray has its sockets there
        ran = quire.run(str(letters), "--pipeline", str(own), TMPDIR=folder, **told)
    assert ran.returncode == 3, ran.stderr
    assert results(quire.out) == expected[0]
    assert ends(quire.report()) == expected[1]


@pytest.mark.service
def test_a_host_on_ray_that_is_killed_is_replaced(quire, letters, gate, expected, tmp_path, s3_server):
    told = {"QUIRE_RAY_WORKERS": "1", **in_bucket(s3_server, tmp_path.name), "LETTERS_GATE": str(gate)}
    own = on_compute("ray", tmp_path)
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        running = running_in(quire, letters, own, **told, TMPDIR=folder)
        held = wait_for_reader(gate)
        os.kill(readers_of(gate)[0], signal.SIGKILL)
        while readers_of(gate):
            os.sched_yield()
        os.close(held)
        let_pass(gate)
        assert_ended(running)
    assert results(quire.out) == expected[0]


def readers_of(pipe):
    """The processes that have the named pipe open, beside this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if path.readlink() == pipe and int(path.parts[2]) != os.getpid():
                found.append(int(path.parts[2]))
    return found
