"""Batches of own pipelines: the commands for batches, Ctrl-C, and members with other code or none."""

import json
import os
import signal
import subprocess

import pytest
from tests.acceptance.test_own_pipelines import QUICK, kill, let_pass, results, started, wait_for_reader

pytestmark = pytest.mark.slow

COUNT = """
import asyncio
import os
from pathlib import Path

from quire import Document, Output, Pipeline

count = Pipeline("count", version={version})


@count.step(accepts="*.txt", retries=0, timeout=60)
async def words(document: Document) -> Output:
    if document.name == "gate.txt":
        await asyncio.to_thread(Path(os.environ["GATE"]).read_bytes)
    if document.name == "bad.txt" and not Path(os.environ["CURE"]).exists():
        raise ValueError("it is ill")
    return Output.json("words.json", {result})


@count.step(accepts="*.txt")
def {shout}(document: Document) -> Output:
    return Output.text("loud.md", document.text().upper())
"""


@pytest.fixture
def counting(quire, folder, tmp_path):
    """Writes a version of the pipeline; the texts are in `folder`, and a gate and a cure in the
    environment.
    """
    for name in ("a", "bad", "gate"):
        (folder / f"{name}.txt").write_text(f"dear {name}", "utf-8")
    os.mkfifo(tmp_path / "gate")

    def write(path="count.py", version=1, shout="shout", result='{"words": len(document.text().split())}'):
        target = tmp_path / path
        target.parent.mkdir(exist_ok=True)
        text = COUNT.replace("{version}", str(version)).replace("{shout}", shout)
        target.write_text(text.replace("{result}", result), "utf-8")
        return str(target)

    return write


@pytest.fixture
def around(tmp_path):
    return {"GATE": str(tmp_path / "gate"), "CURE": str(tmp_path / "cure"), **QUICK}


def begin(quire, folder, pipeline, **more):
    return subprocess.Popen(
        quire.command("run", str(folder), "--pipeline", pipeline, "--out", str(quire.out)),
        cwd=quire.folder,
        env=quire.environment(PYTHONUNBUFFERED="1", **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def stop_at_the_gate(quire, folder, pipeline, around, how):
    """Stop a run while a step waits at the gate; the id of its batch, and how the run ended."""
    process = begin(quire, folder, pipeline, **around)
    held = wait_for_reader(around["GATE"])
    if how is signal.SIGKILL:
        kill(process)
    else:
        os.killpg(process.pid, how)
    said, troubles = process.communicate(timeout=60)
    os.close(held)
    (batch,) = json.loads(quire("batch", "list", "--json").stdout)["batches"]
    return batch["batch_id"], process.returncode, said + troubles


def test_show_retry_and_export_work_as_for_built_in_pipelines(quire, folder, counting, around, tmp_path):
    own = counting()
    (folder / "gate.txt").unlink()
    ran = quire("run", str(folder), "--pipeline", own, "--out", str(quire.out), **around)
    assert ran.returncode == 3, ran.stderr
    assert "it is ill" in ran.stdout
    batch = quire.report()["batch_id"]
    assert set(results(quire.out)) == {"a.txt.words.json", "a.txt.loud.md", "bad.txt.loud.md"}
    shown = quire("batch", "show", batch)
    assert shown.returncode == 0
    assert "words" in shown.stdout.lower()
    assert "it is ill" in shown.stdout + quire("batch", "files", batch).stdout
    (tmp_path / "cure").touch()
    again = quire("batch", "retry", batch, **around)
    assert again.returncode == 0, again.stderr
    with started(
        quire, "scheduler", "--workers", "1", "--until-idle", "--pipeline", own, **_own(around)
    ) as engine:
        assert engine.wait(60) == 0
    exported = quire("batch", "export", batch, "--out", str(tmp_path / "after"), **around)
    assert exported.returncode == 0, exported.stderr
    assert set(results(tmp_path / "after")) == {
        f"{name}.txt.{made}" for name in ("a", "bad") for made in ("words.json", "loud.md")
    }


def _own(around):
    return {name: text for name, text in around.items() if name not in QUICK}


def test_ctrl_c_stops_cleanly_and_the_same_command_resumes(quire, folder, counting, around):
    own = counting()
    batch, code, said = stop_at_the_gate(quire, folder, own, around, signal.SIGINT)
    assert code == 130, said
    assert "again" in said
    assert not (quire.out / "report.json").exists()
    process = begin(quire, folder, own, **around)
    let_pass(around["GATE"])
    said, troubles = process.communicate(timeout=60)
    assert process.returncode == 3, troubles
    assert f"Resuming {batch}" in troubles
    assert len(results(quire.out)) == 5


def test_a_cancelled_batch_keeps_what_it_has(quire, folder, counting, around, tmp_path):
    own = counting()
    process = begin(quire, folder, own, **around)
    held = wait_for_reader(around["GATE"])
    (batch,) = json.loads(quire("batch", "list", "--json").stdout)["batches"]
    cancelled = quire("batch", "cancel", batch["batch_id"], **around)
    assert cancelled.returncode == 0, cancelled.stderr
    said, troubles = process.communicate(timeout=60)
    os.close(held)
    assert process.returncode != 0
    assert "cancel" in (said + troubles).lower()
    exported = quire("batch", "export", batch["batch_id"], "--out", str(tmp_path / "after"), **around)
    assert exported.returncode in {0, 3}, exported.stderr
    assert set(results(tmp_path / "after")) <= {"a.txt.words.json", "a.txt.loud.md", "bad.txt.loud.md"}


def test_a_worker_without_the_pipeline_leaves_its_batch_alone_and_says_so(quire, folder, counting, around):
    own = counting()
    stop_at_the_gate(quire, folder, own, around, signal.SIGKILL)
    told = _own(around)
    with started(quire, "scheduler", "--workers", "1", **told) as stranger:
        said = json.loads(stranger.stdout.readline())
        assert said["event"] == "notice"
        assert "count" in said["message"]
        assert "left alone" in said["message"]
    with started(quire, "scheduler", "--workers", "1", "--until-idle", "--pipeline", own, **told) as engine:
        let_pass(around["GATE"])
        assert engine.wait(60) == 0


def test_a_plan_that_has_changed_is_left_alone_until_the_old_version_is_kept_beside_it(
    quire, folder, counting, around, tmp_path
):
    own, old = counting(), counting("old/count.py")
    batch, _, _ = stop_at_the_gate(quire, folder, own, around, signal.SIGKILL)
    told = _own(around)
    counting(shout="whisper")  # the same version, and not the same plan
    with started(quire, "scheduler", "--workers", "1", "--pipeline", own, **told) as other:
        said = json.loads(other.stdout.readline())
        assert said["event"] == "notice"
        assert "left alone" in said["message"]
    counting(version=2, result='{"words": 0}')
    kept = {"QUIRE_PIPELINES": f"{own},count@1={old}"}
    with started(quire, "scheduler", "--workers", "1", "--until-idle", **told, **kept) as engine:
        let_pass(around["GATE"])
        assert engine.wait(60) == 0
    exported = quire("batch", "export", batch, "--out", str(tmp_path / "after"), **around, **kept)
    assert exported.returncode in {0, 3}, exported.stderr
    assert json.loads(results(tmp_path / "after")["gate.txt.words.json"]) == {"words": 2}


def test_other_code_behind_the_same_plan_warns_and_goes_on(quire, folder, counting, around):
    own = counting()
    stop_at_the_gate(quire, folder, own, around, signal.SIGKILL)
    counting(result='{"words": 7}')
    told = _own(around)
    with started(quire, "scheduler", "--workers", "1", "--until-idle", "--pipeline", own, **told) as engine:
        said = json.loads(engine.stdout.readline())
        assert said["event"] == "notice"
        assert "code" in said["message"]
        let_pass(around["GATE"])
        engine.stdout.read()
        assert engine.wait(60) == 0
