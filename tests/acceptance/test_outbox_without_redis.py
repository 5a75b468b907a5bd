"""`quire run` with a step that asks the OCR service while Redis is away: kept, and sent when it is back."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import redis
from tests.servers import redis as redis_server

from quire.assembly.components import open_components
from quire.queues.port import Message
from quire.settings import load

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(180)]
ASKING = """
from quire import Document, External, Output, Pipeline

asking = Pipeline("asking", version=1)


@asking.step(accepts="text/plain")
def ask(document: Document) -> dict[str, int] | External:
    body = ('{"job_id": "%s"}' % document.task).encode()
    return External(body, queue="jarvis.ocr.jobs", within=600)


@asking.step
def use(document: Document, ask: dict[str, int]) -> Output:
    return Output.json("words.json", ask)
"""


@pytest.fixture
def server(redis_program):
    with redis_server.restartable_server(redis_program) as server:
        yield server


def count_unsent(path):
    """What waits in the outbox; none while the database is not there yet."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM outbox WHERE queue LIKE 'jarvis.%'").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


async def test_what_was_asked_while_redis_was_away_is_sent_later(tmp_path, server):
    server.stop()
    (tmp_path / "asking.py").write_text(ASKING)
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text("some words")
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    own = {"QUIRE_HOME": str(tmp_path / "home"), "QUIRE_WORKERS": "1", "QUIRE_REDIS_URL": server.url}
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
            while count_unsent(tmp_path / "home" / "quire.db") < 2:
                assert running.poll() is None, running.stdout.read()
            server.start()
            with redis.Redis.from_url(server.url) as published:
                bodies = [published.brpop(["jarvis.ocr.jobs"], timeout=60)[1] for _ in range(2)]
                assert published.llen("jarvis.ocr.jobs") == 0
            settings = load(environment=own, folder=tmp_path).settings
            async with open_components(settings) as components:
                for number, body in enumerate(bodies):
                    task = json.loads(body)["job_id"]
                    text = json.dumps({"task": task, "status": "success", "value": {"words": 4}})
                    message = Message(id=str(number), body=text.encode())
                    await components.queues.send("quire-answers", [message], now=components.clock.now())
            said, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0, said
    assert json.loads((tmp_path / "results" / "b.txt.words.json").read_text()) == {"words": 4}
    assert count_unsent(tmp_path / "home" / "quire.db") == 0
