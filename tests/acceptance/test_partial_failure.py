"""Steps side by side, some of which fail: told step by step everywhere, and retried alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PRESS = """
from pathlib import Path

from quire import Document, Folder, Output, Pipeline, Reject, Result

press = Pipeline("press", version=1)


@press.step(accepts="*.txt")
def title(document: Document) -> str:
    return document.text().strip()


@press.step(accepts="*.txt", each={"agent": ["blurb", "synopsis", "cover"]}, retries=0)
async def asset(document: Document, agent: str, title: str) -> Result[int]:
    with Path("calls").open("a") as calls:
        calls.write(f"{agent} {document.name}\\n")
    if not Path("repaired").exists():
        if agent == "cover" and "ugly" in title:
            raise Reject("the cover cannot be drawn", code="ugly")
        if agent == "blurb" and "odd" in title:
            raise ValueError("cannot say it")
    return Result(len(title), Output.text(f"{agent}.md", title))


@press.step(accepts="*.txt")
def kit(document: Document, asset: dict[str, int]) -> Output:
    return Output.json("kit.json", asset)


@press.step(accepts="*.txt", unit="folder")
def overview(folder: Folder) -> Output:
    return Output.json("overview.json", {one.name: one.values(asset) for one in folder.documents})
"""


class Press:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "press.py").write_text(PRESS, "utf-8")
        (folder / "books" / "shelf").mkdir(parents=True)
        for name, text in {
            "fine": "a fine book",
            "ugly": "an ugly book",
            "shelf/both": "an odd ugly book",
        }.items():
            (folder / "books" / f"{name}.txt").write_text(text, "utf-8")

    def quire(self, *arguments: str, code: int = 0) -> str:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
        ran = subprocess.run(
            [sys.executable, "-m", "quire.cli.main", *arguments],
            cwd=self.folder,
            env=kept | {"QUIRE_HOME": str(self.folder / "home"), "QUIRE_WORKERS": "1", "COLUMNS": "120"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    def run(self, *more: str, code: int = 0) -> str:
        return self.quire("run", "books", "--pipeline", "press.py", "--out", "out", *more, code=code)

    def count_calls(self) -> int:
        return len((self.folder / "calls").read_text("utf-8").splitlines())


@pytest.fixture
def press(tmp_path: Path) -> Press:
    return Press(tmp_path)


def test_each_branch_is_told_in_report_page_commands_and_history(press: Press):
    shown = press.run(code=3)
    assert "asset.blurb: ValueError: cannot say it (press.py:" in shown
    assert shown.count("asset.cover: the cover cannot be drawn") == 2
    report = json.loads((press.folder / "out" / "report.json").read_text("utf-8"))
    files = {file["path"]: file for file in report["files"]}
    assert {path: file["status"] for path, file in files.items()} == {
        "fine.txt": "done",
        "shelf/both.txt": "failed",
        "ugly.txt": "failed",
    }
    both = [
        (one["step"], one["done"], one["failed"], one["error_class"])
        for one in files["shelf/both.txt"]["steps"]
    ]
    assert both == [
        ("title", 1, 0, None),
        ("asset.blurb", 0, 1, "step_error"),
        ("asset.synopsis", 1, 0, None),
        ("asset.cover", 0, 1, "ugly"),
        ("kit", 1, 0, None),
        ("overview", 1, 0, None),
    ]
    assert files["fine.txt"]["steps"] == []
    assert files["ugly.txt"]["outputs"] == ["ugly.txt.blurb.md", "ugly.txt.synopsis.md", "ugly.txt.kit.json"]
    page = (press.folder / "out" / "index.html").read_text("utf-8")
    assert "asset.cover: the cover cannot be drawn" in page
    assert "done: title, asset.synopsis, kit, overview" in page
    details = json.loads(press.quire("batch", "show", report["batch_id"], "--json"))
    assert [(one["step"], one["path"], one["error_class"]) for one in details["failed_tasks"]] == [
        ("asset.blurb", "shelf/both.txt", "step_error"),
        ("asset.cover", "shelf/both.txt", "ugly"),
        ("asset.cover", "ugly.txt", "ugly"),
    ]
    listed = press.quire("batch", "files", report["batch_id"], "--state", "failed")
    assert "asset.cover: the cover cannot be drawn" in listed
    told = json.loads(press.quire("batch", "files", report["batch_id"], "--file", "shelf/both.txt", "--json"))
    assert [(one["step"], one["outcome"]) for one in told["attempts"]] == [
        ("title", "done"),
        ("asset.blurb", "erred"),
        ("asset.synopsis", "done"),
        ("asset.cover", "rejected"),
        ("kit", "done"),
        ("overview", "done"),
    ]
    assert told["file"]["steps"] == files["shelf/both.txt"]["steps"]


def test_a_retry_runs_only_the_failed_branches_and_what_follows(press: Press):
    press.run(code=3)
    batch = json.loads((press.folder / "out" / "report.json").read_text("utf-8"))["batch_id"]
    before = press.count_calls()
    (press.folder / "repaired").touch()
    asked = press.quire("batch", "retry", batch, "--yes")
    assert f"Batch {batch} was retried. Now: working in asset: 6 of 9" in asked
    press.quire("scheduler", "--workers", "1", "--until-idle", "--pipeline", "press.py")
    assert press.count_calls() == before + 3
    details = json.loads(press.quire("batch", "show", batch, "--json"))
    assert (details["status"], details["failed_tasks"], details["round"]) == ("DONE", [], 2)
    press.quire("batch", "export", batch, "--out", "again")
    kit = (press.folder / "again" / "shelf" / "both.txt.kit.json").read_text("utf-8")
    assert json.loads(kit) == {"blurb": 16, "synopsis": 16, "cover": 16}
    overview = json.loads((press.folder / "again" / "shelf" / "overview.json").read_text("utf-8"))
    assert overview == {"both.txt": {"blurb": 16, "synopsis": 16, "cover": 16}}
