"""`quire run` with a step that asks somebody outside: it waits for the answer on the queue, then ends."""

import json
import os
import subprocess
import sys

from quire.assembly.components import open_components
from quire.queues.port import Message
from quire.settings import load

ASKING = """
from quire import Document, External, Output, Pipeline

asking = Pipeline("asking", version=1)


@asking.step(accepts="text/plain")
def ask(document: Document) -> dict[str, int] | External:
    return External({"task": document.task, "name": document.name}, queue="jobs", within=600)


@asking.step
def use(document: Document, ask: dict[str, int]) -> Output:
    return Output.json("words.json", ask)
"""


# Its second step takes the answer to the first; its third is about the folder.
ASKING_TWICE = """
from quire import Document, External, Folder, Output, Pipeline

asking = Pipeline("asking", version=1)


@asking.step(accepts="text/plain")
def ask(document: Document) -> dict[str, int] | External:
    return External({"task": document.task}, queue="jobs", within=600)


@asking.step(accepts="text/plain")
def confirm(document: Document, ask: dict[str, int]) -> dict[str, int] | External:
    return External({"task": document.task}, queue="jobs", within=600)


@asking.step(accepts="text/plain", unit="folder")
def sign(folder: Folder) -> dict[str, int] | External:
    if not folder.documents:
        return {"words": 0}
    return External({"task": folder.task}, queue="jobs", within=600)


@asking.step(accepts="text/plain", cached=False)
def use(document: Document, confirm: dict[str, int]) -> Output:
    return Output.json("words.json", confirm)
"""


async def test_a_run_ends_when_everything_is_answered(tmp_path):
    (tmp_path / "asking.py").write_text(ASKING)
    assert await run_and_answer(tmp_path, "results", files=("a", "b", "c")) == 3
    assert json.loads((tmp_path / "results" / "b.txt.words.json").read_text()) == {"words": 4}


async def test_a_second_run_has_the_answers_of_the_first_and_asks_only_for_what_is_new(tmp_path):
    (tmp_path / "asking.py").write_text(ASKING_TWICE)
    assert await run_and_answer(tmp_path, "results", files=("1/a", "2/b")) == 6
    assert await run_and_answer(tmp_path, "again", files=("1/a", "2/b", "3/c")) == 3
    for name in ("1/a", "2/b", "3/c"):
        assert json.loads((tmp_path / "again" / f"{name}.txt.words.json").read_text()) == {"words": 4}


async def run_and_answer(tmp_path, out, *, files):
    """Run the texts, and answer every request; how many there were."""
    for name in files:
        path = tmp_path / "texts" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"some words of {name}")
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    own = {"QUIRE_HOME": str(tmp_path / "home"), "QUIRE_WORKERS": "1"}
    command = [sys.executable, "-m", "quire.cli.main", "run", "texts", "--pipeline", "asking.py"]
    with subprocess.Popen(
        [*command, "--out", out],
        cwd=tmp_path,
        env=kept | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            settings = load(environment=own, folder=tmp_path).settings
            async with open_components(settings) as office:
                answered = 0
                while running.poll() is None:
                    await office.queues.wait(["jobs"], seconds=0.2)
                    now = office.clock.now()
                    for one in await office.queues.lease("jobs", limit=9, seconds=60, now=now):
                        task = json.loads(one.body)["task"]
                        body = json.dumps({"task": task, "status": "success", "value": {"words": 4}})
                        answer = Message(id=one.id, body=body.encode())
                        await office.queues.send("quire-answers", [answer], now=now)
                        await office.queues.acknowledge([one], now=now)
                        answered += 1
            said, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0, said
    return answered
