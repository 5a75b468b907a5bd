"""Steps that people have written, each in a process or on a machine of its own."""

import json
import os
import signal

import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import FAST, attempts, finished, on_fly, outcomes, sent
from tests.standins.machines import TASK_COMMAND

pytestmark = pytest.mark.slow

LETTERS = """
import asyncio
import os
from pathlib import Path

from quire import Document, Folder, Output, Pipeline, Reject, Result, TryLater

letters = Pipeline("letters", version=1)
HERE = Path(__file__).parent


@letters.step(accepts="*.txt", runs_on="{where}", delays=[0.05], timeout=60)
def count(document: Document) -> Result[dict[str, int]]:
    if document.name == "gate.txt" and not (HERE / "opened").exists():
        (HERE / "opened").touch()
        (HERE / "pid").write_text(str(os.getpid()))  # a pipe: somebody waits for it
        (HERE / "gate").read_bytes()
    if document.name == "later.txt" and not (HERE / "asked").exists():
        (HERE / "asked").touch()
        raise TryLater(0.05, "the service is busy")
    try:
        text = document.text()
    except UnicodeDecodeError:
        raise Reject("the text is not UTF-8; save it as UTF-8", code="not_utf8")
    words = text.split()
    outputs = [Output.text(f"{number}.word.md", word) for number, word in enumerate(words)]
    return Result({"words": len(words)}, outputs)


@letters.step(accepts="*.txt", runs_on="{where}")
async def pad(count: dict[str, int]) -> list[str]:
    return ["x" * 100] * (100 * count["words"])


@letters.step(accepts="*.txt", runs_on="{where}", each={"kind": ["short", "long"]})
def say(document: Document, kind: str, count: dict[str, int], pad: list[str]) -> Output:
    return Output.json(f"{kind}.json", {"kind": kind, "pid": os.getpid(), "padded": len(pad), **count})


@letters.step(accepts="*.txt")
def here(document: Document, count: dict[str, int]) -> Output:
    return Output.json("here.json", count)


@letters.step(accepts="*.txt", runs_on="{where}", unit="folder")
async def page(folder: Folder) -> Result[dict[str, int]]:
    texts = [await asyncio.to_thread(document.bytes) for document in folder.documents]
    padded = [len(document.value(pad, [])) for document in folder.documents]
    below = [one.value(page) for one in folder.folders]
    said = {"documents": len(texts), "bytes": sum(map(len, texts)), "padded": max(padded, default=0)}
    said["below"] = sum(one["documents"] + one["below"] for one in below)
    return Result(said, Output.json("page.json", said | {"pid": os.getpid()}))


@letters.step(accepts="*.txt", runs_on="{where}", unit="batch")
def book(folder: Folder) -> Output:
    return Output.text("book.md", "".join(document.text("latin-1") for document in folder.documents))
"""
BODIES = {
    "/box/a.txt": (b"dear Ana", "text/plain"),
    "/box/b.txt": (b"so many more words", "text/plain"),
    "/box/later.txt": (b"later", "text/plain"),
    "/box/bad.txt": (b"\xff\xfe\x00", "text/plain"),
    "/box/deep/c.txt": (b"deep", "text/plain"),
}
FOUND = {"QUIRE_PIPELINES": "letters.py", "QUIRE_INGEST_PIPELINE": "letters"}


def write(folder, where, text=LETTERS):
    path = folder / "letters.py"
    path.write_text(text.replace("{where}", where), "utf-8")
    return path


def check(server, batch):
    assert finished(server, batch)["status"] == "DONE"
    found = outcomes(server, batch)
    assert {path: (how, why) for path, (how, why, _) in found.items()} == {
        "/box/a.txt": ("done", ""),
        "/box/b.txt": ("done", ""),
        "/box/later.txt": ("done", ""),
        "/box/bad.txt": ("failed", "not_utf8"),
        "/box/deep/c.txt": ("done", ""),
    }
    made = {path: one[-1] for (_, path), one in found["/box/b.txt"][2].items() if path != "/box/b.txt"}
    assert set(made) == {
        *(f"/box/b.txt.{number}.word.md" for number in range(4)),
        *("/box/b.txt.short.json", "/box/b.txt.long.json", "/box/b.txt.here.json"),
    }
    assert made["/box/b.txt.1.word.md"] == b"many"
    short, long = (json.loads(made[f"/box/b.txt.{kind}.json"]) for kind in ("short", "long"))
    assert (short["kind"], long["kind"], long["words"], long["padded"]) == ("short", "long", 4, 400)
    assert short["pid"] != long["pid"], "each task has a process of its own"
    (bad,) = (one for one in attempts(server, batch, "/box/bad.txt") if one.phase == "count")
    assert (bad.attempt, str(bad.outcome), bad.error_class) == (1, "rejected", "not_utf8")
    assert "the text is not UTF-8; save it as UTF-8" in bad.error
    later = [one for one in attempts(server, batch, "/box/later.txt") if one.phase == "count"]
    assert [(str(one.outcome), one.error) for one in later] == [
        ("erred", "the service is busy"),
        ("done", ""),
    ]
    units = {path: one[-1] for each in found.values() for (_, path), one in each[2].items()}
    box, deep = (json.loads(units[path]) for path in ("/box/page.json", "/box/deep/page.json"))
    assert box.pop("pid") != deep.pop("pid")
    assert box == {"documents": 4, "bytes": 34, "padded": 400, "below": 1}
    assert deep == {"documents": 1, "bytes": 4, "padded": 100, "below": 0}
    assert units["book.md"] == "dear Anaso many more words\xff\xfe\x00deeplater".encode()


def test_on_processes_documents_go_through_all_steps(tmp_path):
    write(tmp_path, "process")
    with serving(tmp_path, FAST | FOUND) as server:
        check(server, sent(server, BODIES))


def test_a_process_that_is_killed_is_replaced(tmp_path):
    write(tmp_path, "process")
    for pipe in ("pid", "gate"):
        os.mkfifo(tmp_path / pipe)
    with serving(tmp_path, FAST | FOUND) as server:
        batch = sent(server, {"/box/gate.txt": (b"dear Ana", "text/plain")})
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert finished(server, batch)["status"] == "DONE"
        assert outcomes(server, batch)["/box/gate.txt"][0] == "done"
        tried = [one for one in attempts(server, batch, "/box/gate.txt") if one.phase == "count"]
        assert [str(one.outcome) for one in tried] == ["crashed", "done"]


def machine(path):
    """The command of a machine whose image has this pipeline."""
    return ("env", f"QUIRE_PIPELINES={path}", *TASK_COMMAND)


FLY = {
    "QUIRE_COMPUTE_TIFF": "local",
    "QUIRE_COMPUTE_IMAGE": "local",
    "QUIRE_FLY_STEP_APP": "steps",
    "QUIRE_FLY_STEP_WORKER": "registry.example/letters:1",
}


def test_on_machines_documents_go_through_all_steps(tmp_path):
    path = write(tmp_path, "fly")
    with on_fly(tmp_path, command=machine(path), more=FLY | FOUND) as (server, machines):
        check(server, sent(server, BODIES))
        machines.wait_until(lambda: not machines.running())
        assert {one.app for one in machines.machines} == {"steps"}
        assert len({one.name for one in machines.machines}) == len(machines.machines)
        told = {name for body in machines.bodies for name in body["config"]["env"]}
        assert "QUIRE_PIPELINES" not in told


@pytest.mark.parametrize(
    ("image", "error_class", "words"),
    [
        ('letters = Pipeline("letters", version=1)', "other_plan", "other steps or rules"),
        ('letters = Pipeline("letters", version=2)', "unknown_pipeline", "no pipeline letters version 1"),
        ("letters = Pipeline(", "unknown_pipeline", "letters.py"),
    ],
    ids=["other plan", "other version", "bad code"],
)
def test_a_machine_with_another_pipeline_refuses_and_says_so(tmp_path, image, error_class, words):
    write(tmp_path, "fly", text=LETTERS.replace("delays=[0.05]", "retries=0"))
    other = tmp_path / "image"
    other.mkdir()
    step = '\n@letters.step(accepts="*.txt", version=7)\ndef count(document: Document) -> None: ...\n'
    path = write(other, "fly", text=f"from quire import Document, Pipeline\n{image}\n{step}")
    with on_fly(tmp_path, command=machine(path), more=FLY | FOUND) as (server, _):
        batch = sent(server, {"/box/a.txt": BODIES["/box/a.txt"]})
        assert finished(server, batch)["status"] == "DONE"
        (tried,) = (one for one in attempts(server, batch, "/box/a.txt") if one.phase == "count")
        assert (str(tried.outcome), tried.error_class) == ("erred", error_class)
        assert words in tried.error
