"""`make demo`: runs the sample collection and checks the outcome of every file."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".quire" / "demo"
OUT = ROOT / "demo-out"


def main() -> int:
    for folder in (HOME, OUT):
        shutil.rmtree(folder, ignore_errors=True)
    command = ["quire", "run", "samples/collection", "--out", "demo-out", "--home", ".quire/demo"]
    say(f"$ {' '.join(command)}")
    ran = subprocess.run([sys.executable, "-m", "quire.cli.main", *command[1:]], cwd=ROOT, check=False)
    if ran.returncode not in {0, 3}:
        say(
            f"\nThe demo could not run (exit code {ran.returncode}); "
            "`.venv/bin/quire doctor` may tell you why."
        )
        return 1
    wrong = compare(
        json.loads((ROOT / "samples" / "expected.json").read_text(encoding="utf-8")),
        json.loads((OUT / "report.json").read_text(encoding="utf-8")),
    )
    for line in wrong:
        say(f"NOT AS EXPECTED: {line}")
    if wrong:
        return 1
    say("\nEvery file ended as expected: good files are converted, broken ones have a reason.")
    say("Open demo-out/index.html in a browser (or run `make serve`), or read demo-out/report.json.")
    return 0


def compare(expected: dict[str, Any], report: dict[str, Any]) -> list[str]:
    files = report["files"]
    found = {entry["path"]: entry for entry in files}
    wrong = [f"{path} is not in the report" for path in expected.keys() - found.keys()]
    wrong += [f"{path} was not expected" for path in found.keys() - expected.keys()]
    if len(found) != len(files):
        wrong.append("a file is listed twice")
    for path in expected.keys() & found.keys():
        entry, want = found[path], expected[path]
        ending = (entry["status"], entry["error_class"], len(entry["outputs"]))
        if ending != (want["status"], want["error_class"], want["outputs"]):
            wrong.append(f"{path}: {ending}, wanted {want}")
        wrong += [f"{output} is missing" for output in entry["outputs"] if not (OUT / output).is_file()]
    return wrong


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
