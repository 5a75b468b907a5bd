"""Pipelines that are wrong, on the command line: a message with file and line, and nothing half-done."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

HEAD = """\
from quire import Document, External, Folder, Output, Pipeline, Reject, Result

wrong = Pipeline("wrong", version=1)

"""


class Author:
    """Somebody with a folder, a pipeline and a command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "texts").mkdir()
        (folder / "texts" / "a.txt").write_text("so many words", "utf-8")

    def write(self, code: str, name: str = "wrong.py", *, head: str = HEAD) -> None:
        (self.folder / name).write_text(head + dedent(code).lstrip("\n"), "utf-8")

    def quire(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
        return subprocess.run(
            [sys.executable, "-m", "quire.cli.main", *arguments],
            cwd=self.folder,
            env=kept | {"QUIRE_HOME": str(self.folder / "home"), "QUIRE_WORKERS": "1"} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def run(
        self, pipeline: str = "wrong.py", *more: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.quire("run", "texts", "--pipeline", pipeline, "--out", "out", *more, **environment)

    def report(self) -> dict:
        return json.loads((self.folder / "out" / "report.json").read_text("utf-8"))


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


def assert_refused(author: Author, *said: str, pipeline: str = "wrong.py") -> None:
    """By `check` and by `run`, in the same words, before anything was made."""
    checked, ran = author.quire("pipeline", "check", pipeline), author.run(pipeline)
    assert (checked.returncode, ran.returncode) == (1, 1), checked.stdout + ran.stderr
    for text in said:
        assert text in checked.stdout
        assert text in ran.stderr
    assert "Traceback" not in checked.stderr + ran.stderr
    assert not (author.folder / "out").exists()
    assert not (author.folder / "home").exists()
    told = json.loads(author.run(pipeline, "--json").stdout)
    assert told["error"]["class"] == "bad_pipelines"


# A file that is no pipeline

NO_PIPELINES = {
    "does not parse": ("def count(:\n", "wrong.py:5: wrong.py cannot be read as Python"),
    "imports what is not there": ("import no_such_thing\n", "wrong.py:5: wrong.py imports 'no_such_thing'"),
    "raises": ("x = 1\ny = x / 0\n", "wrong.py:6: wrong.py cannot be imported: ZeroDivisionError"),
    "exits": ("raise SystemExit(0)\n", "wrong.py:5: wrong.py exits while it is imported"),
    "has no steps": ("", "wrong.py:3: the pipeline has no steps"),
    "runs itself": (
        "import quire\nquire.run('texts', pipeline=wrong)\n",
        "wrong.py calls quire.run while it is imported",
    ),
}


@pytest.mark.parametrize(("code", "said"), NO_PIPELINES.values(), ids=NO_PIPELINES)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(author: Author, code: str, said: str):
    author.write(code)
    assert_refused(author, said)


def test_a_file_without_a_pipeline_and_one_with_two(author: Author):
    author.write("x = 1\n", head="")
    assert_refused(author, 'wrong.py has no pipeline; write one: words = Pipeline("words")')
    author.write('other = Pipeline("other")\n')
    assert_refused(author, "has several pipelines; choose one of: wrong.py:wrong, wrong.py:other")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("no/such.py", "there is no file"),
        ("nothing", "unknown pipeline 'nothing'; choose one of: markdown, ocr, preprocess"),
        ("wrong", "for a file write wrong.py"),
    ],
)
def test_what_does_not_exist_is_a_mistake_on_the_command_line(author: Author, reference: str, said: str):
    author.write("")
    ran = author.run(reference)
    assert ran.returncode == 2
    assert said in " ".join(ran.stderr.replace("│", " ").split())
    assert not (author.folder / "out").exists()


# Steps that cannot be

STEP = "@wrong.step(accepts='text/plain')\n"
BAD_STEPS = {
    "a cycle": (
        STEP
        + "def first(document: Document, second: int) -> int: ...\n"
        + STEP
        + "def second(document: Document, first: int) -> int: ...\n",
        "wrong.py:5: first: the parameter second is a step that comes later (wrong.py:7); move it up",
    ),
    "itself": (
        STEP + "def first(document: Document, first: int) -> int: ...\n",
        "wrong.py:5: first: the parameter first is the step itself",
    ),
    "an unknown value": (
        STEP + "def first(document: Document, frist: int) -> int: ...\n",
        "wrong.py:5: first: the parameter frist is no earlier step",
    ),
    "no return type": (
        STEP + "def first(document: Document): ...\n",
        "wrong.py:5: first: say what it returns",
    ),
    "two of one name": (
        (STEP + "def first(document: Document) -> int: ...\n") * 2,
        "wrong.py:7: first: there is a step of this name already (wrong.py:5)",
    ),
    "another type": (
        STEP
        + "def first(document: Document) -> int: ...\n"
        + STEP
        + "def second(document: Document, first: str) -> int: ...\n",
        "wrong.py:7: second: the parameter first is annotated as str, but that step gives int (wrong.py:5)",
    ),
    "an option that is none": (
        "@wrong.step(acepts='x')\ndef first(document: Document) -> int: ...\n",
        "wrong.py:5: wrong.py cannot be imported: TypeError: a step has no option 'acepts'; did you mean ",
    ),
    "a limit that is none": (
        "@wrong.step(timeout=-1)\ndef first(document: Document) -> int: ...\n",
        "wrong.py:5: first: timeout=-1: Expected float > 0",
    ),
    "a folder of files": (
        STEP + "def first(folder: Folder) -> int: ...\n",
        'wrong.py:5: first: it takes a Folder, so it must say unit="folder"',
    ),
    "a value that cannot travel": (
        "class Author: ...\n" + STEP + "def first(document: Document) -> Author: ...\n",
        "wrong.py:6: first: it returns Author, which cannot travel to later steps",
    ),
}


@pytest.mark.parametrize(("code", "said"), BAD_STEPS.values(), ids=BAD_STEPS)
def test_a_step_that_cannot_be_is_refused_with_its_line(author: Author, code: str, said: str):
    author.write(code)
    assert_refused(author, said)


def test_everything_that_is_wrong_is_told_at_once(author: Author):
    other = BAD_STEPS["a limit that is none"][0].replace("first", "other")
    author.write(BAD_STEPS["itself"][0] + other)
    assert_refused(author, "the parameter first is the step itself", "timeout=-1")


# Steps that return what they must not

RETURNS = {
    "another type": ("7", "bad_result", "make (wrong.py:5) returned an int that is no str"),
    "nothing": ("None", "bad_result", "make (wrong.py:5) returned nothing, but says that it returns"),
    "outside": ("[Output.text('../x.md', 'x')]", "bad_result", "cannot hold '/': '../x.md' (wrong.py:7)"),
    "absolute": ("[Output.text('/x.md', 'x')]", "bad_result", "cannot hold '/': '/x.md' (wrong.py:7)"),
    "up": ("[Output.text('..', 'x')]", "bad_result", "needs the plain name of a file"),
    "empty": (
        "[Output.text('a.md', '')]",
        "empty_product",
        "make (wrong.py:5) returned the output 'a.md', which is empty",
    ),
    "no file": ("[Output.file('nothing.md')]", "bad_result", "but there is no file 'nothing.md'"),
    "one name twice": (
        "[Output.text('a.md', '1'), Output.text('A.md', '2')]",
        "name_twice",
        "make (wrong.py:5) returned two outputs called 'A.md'",
    ),
    "too large": (
        "'x' * (16 << 20)",
        "value_too_large",
        "make (wrong.py:5) returned a value of 16777218 bytes",
    ),
}


@pytest.mark.parametrize(("returned", "error_class", "said"), RETURNS.values(), ids=RETURNS)
def test_a_wrong_result_fails_its_file_once_and_leaves_nothing(
    author: Author, returned: str, error_class: str, said: str
):
    author.write(
        f"""
        {STEP.strip()}
        def make(document: Document) -> list[Output] | str:
            return {returned}  # type: ignore
        """
    )
    ran = author.run()
    assert ran.returncode == 3, ran.stderr
    (file,) = author.report()["files"]
    assert (file["error_class"], file["attempts"], file["outputs"]) == (error_class, 1, [])
    assert said in file["reason"]
    assert [one["step"] for one in file["steps"]] == ["make"]
    laid_out = {path.name for path in (author.folder / "out").rglob("*") if path.is_file()}
    assert laid_out == {"report.json", "index.html", ".quire-out"}
    assert not (author.folder / "x.md").exists()


def test_two_steps_that_want_one_name_get_two(author: Author):
    author.write(
        f"""
        {STEP.strip()[:-1]}, phase="both")
        def one(document: Document) -> Output:
            return Output.text("x.md", "one")

        {STEP.strip()[:-1]}, phase="both")
        def two(document: Document) -> Output:
            return Output.text("x.md", "two")
        """
    )
    ran = author.run()
    assert ran.returncode == 0, ran.stderr
    (file,) = author.report()["files"]
    texts = {name: (author.folder / "out" / name).read_text("utf-8") for name in file["outputs"]}
    assert texts["a.txt.x.md"] == "one"
    assert sorted(texts.values()) == ["one", "two"]


def test_two_steps_that_replace_the_document_are_refused(author: Author):
    author.write(
        f"""
        {STEP.strip()[:-1]}, each={{"kind": ["a", "b"]}})
        def make(document: Document, kind: str) -> Output:
            return Output.text(f"{{kind}}.txt", kind, change="replace")
        """
    )
    ran = author.run()
    assert ran.returncode == 3, ran.stderr
    (file,) = author.report()["files"]
    assert file["error_class"] == "two_replacements"
    assert "make" in file["reason"]


# Other code elsewhere

COUNT = """
    @wrong.step(accepts="text/plain"{more})
    def count(document: Document) -> Output:
        return Output.json("count.json", {value})
    """


def test_changed_code_of_the_same_version_is_warned_of(author: Author):
    author.write(COUNT.format(more="", value=1))
    assert "Warning" not in author.run().stderr
    author.write(COUNT.format(more="", value=2))
    ran = author.run()
    assert ran.returncode == 0
    assert "Warning: the code of the pipeline wrong has changed, but it is still version 1" in ran.stderr
    assert "write version=2" in ran.stderr


TWO_STEPS = """
    @wrong.step(accepts="{accepts}")
    def first(document: Document) -> int:
        return 1

    @wrong.step(accepts="text/plain")
    def second(document: Document, first: int) -> Output:
        return Output.json("second.json", first)
    """


def test_a_worker_with_another_plan_leaves_the_batch_alone_until_it_has_the_right_one(author: Author):
    author.write(TWO_STEPS.format(accepts="text/plain"))
    held = author.run("wrong.py", "--json", "--budget-seconds", "0.000001")
    assert held.returncode == 4, held.stderr
    batch = json.loads(held.stdout)["batch_id"]
    assert author.quire("batch", "resume", batch, "--budget-seconds", "none").returncode == 0
    work = ("scheduler", "--workers", "1", "--until-idle", "--pipeline", "wrong.py")

    author.write(TWO_STEPS.format(accepts="*.txt"))
    left = author.quire(*work)

    assert left.returncode == 0
    assert f"batch {batch} was submitted to another pipeline wrong version 1" in left.stderr
    assert 'pipelines = ["wrong@1=FILE"]' in left.stderr
    assert json.loads(author.quire("batch", "show", batch, "--json").stdout)["status"] != "DONE"
    author.write(TWO_STEPS.format(accepts="text/plain"))
    assert author.quire(*work).returncode == 0
    assert json.loads(author.quire("batch", "show", batch, "--json").stdout)["status"] == "DONE"


def test_an_async_step_that_blocks_the_loop_is_named_with_its_line(author: Author):
    author.write(
        """
        import time

        @wrong.step(accepts="text/plain")
        async def sleepy(document: Document) -> Output:
            time.sleep(1.8)
            return Output.text("x.md", "x")
        """
    )
    ran = author.run()
    assert ran.returncode == 0
    assert "the step wrong.sleepy held up all others in its process" in ran.stderr
    assert "wrong.py:9 in sleepy; run what blocks in a thread (asyncio.to_thread)" in ran.stderr


def test_pipelines_that_come_with_quire_are_checked_by_name(author: Author):
    author.write("@wrong.step(accepts='text/plain')\ndef count(document: Document) -> Output: ...\n")

    checked = author.quire("pipeline", "check", "ocr", "preprocess")
    with_own = author.quire("pipeline", "check", "ocr", "wrong.py")
    as_json = author.quire("pipeline", "check", "ocr", "--json")

    assert checked.stdout == "ok      ocr: comes with Quire\nok      preprocess: comes with Quire\n"
    assert (checked.returncode, checked.stderr) == (0, "")
    assert with_own.stdout.splitlines()[1].startswith("ok      wrong.py: wrong version 1")
    assert [line["name"] for line in json.loads(as_json.stdout)["pipelines"]] == ["ocr"]
    assert author.quire("pipeline", "check", "nothing").returncode == 1
