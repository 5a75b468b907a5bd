"""Files are decoded in a sandbox by `quire run`, built-in steps and one's own that asks for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "tests" / "documents" / "corpus" / "image" / "Landscape_1.jpg"
SCRIPT = Path(sys.executable).with_name("quire")
PIPELINE = '''
import socket
from pathlib import Path

from quire import Document, Output, Pipeline

words = Pipeline("words", version=1)


@words.step(sandbox=True)
def decode(document: Document) -> Output:
    """What it was refused, and the text of its document."""
    refused = []
    for name, attempt in {
        "network": socket.socket,
        "database": Path(__file__).with_name("home").joinpath("quire.db").read_bytes,
        "settings": Path("/etc/passwd").read_bytes,
    }.items():
        try:
            attempt()
        except PermissionError:
            refused.append(name)
    text = f"{document.text()} without {chr(44).join(refused)}"
    return Output.text("words.txt", text)


@words.step
def send(document: Document) -> None:
    one, other = socket.socketpair()
    one.send(b"free")
    other.recv(4)


@words.step(sandbox=True, accepts="odd*")
def odd(document: Document) -> None:
    socket.socket()
'''


def quire(folder, *arguments, check=0, **variables):
    environment = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    ended = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == check, ended.stdout + ended.stderr
    return ended


@pytest.mark.slow
def test_an_own_step_in_the_sandbox_keeps_out_of_the_home_folder_beside_it(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("dear reader", "utf-8")
    (tmp_path / "in" / "odd.txt").write_text("tries more", "utf-8")
    (tmp_path / "words.py").write_text(PIPELINE, "utf-8")
    quire(tmp_path, "run", "in", "--out", "out", "--home", "home", "--pipeline", "words.py", check=3)
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    ends = {one["path"].lstrip("/"): (one["status"], one["error_class"]) for one in report["files"]}
    assert ends == {"a.txt": ("done", None), "odd.txt": ("failed", "sandbox_violation")}
    made = [path.read_text("utf-8") for path in (tmp_path / "out").rglob("*words.txt")]
    assert "dear reader without network,database,settings" in made


@pytest.mark.slow
def test_pictures_are_the_same_with_and_without_a_sandbox(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(PICTURE.read_bytes())
    made = []
    for mode in ("on", "off"):
        out = tmp_path / mode
        quire(tmp_path, "run", "in", "--out", out, "--home", tmp_path / f"home-{mode}", QUIRE_SANDBOX=mode)
        made.append({path.name: path.read_bytes() for path in out.rglob("*.jpg")})
        assert list((tmp_path / f"home-{mode}" / "scratch").iterdir()) == []
    assert len(made[0]) > 1
    assert made[0] == made[1]


@pytest.mark.slow
def test_doctor_says_what_is_enforced_or_why_nothing_is(tmp_path):
    found = json.loads(quire(tmp_path, "doctor", "--json", "--home", "home").stdout)
    (section,) = [one for one in found["sections"] if one["title"] == "Sandbox"]
    assert [check["name"] for check in section["checks"]] == [
        "mechanism",
        "network",
        "processes",
        "writing",
        "reading",
    ]
    assert {check["state"] for check in section["checks"]} == {"ok"}
    assert "Landlock" in section["checks"][0]["detail"]
    off = quire(tmp_path, "doctor", "--home", "home", QUIRE_SANDBOX="off").stdout
    assert "switched off" in off
