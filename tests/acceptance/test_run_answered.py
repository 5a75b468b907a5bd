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


async def test_a_run_ends_when_everything_is_answered(tmp_path):
    (tmp_path / "asking.py").write_text(ASKING)
    (tmp_path / "texts").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "texts" / f"{name}.txt").write_text(f"some words of {name}")
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    own = {"QUIRE_HOME": str(tmp_path / "home"), "QUIRE_WORKERS": "1"}
    command = [sys.executable, "-m", "quire.cli.main", "run", "texts", "--pipeline", "asking.py"]
    with subprocess.Popen(
        [*command, "--out", "results"],
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
                while answered < 3 and running.poll() is None:
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
    assert (answered, json.loads((tmp_path / "results" / "b.txt.words.json").read_text())) == (
        3,
        {"words": 4},
    )
