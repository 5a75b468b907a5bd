"""How soon the first finished document of a collection lies in the output folder, of the whole run's time.

Modules are compiled before, as those of an installed package are: PYTHONDONTWRITEBYTECODE is not passed on.
`python bench/first_result.py [FILES]`, or `make bench SECTION=first_result`.
"""

import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
WORDS = HERE.parent / "tests" / "situations" / "words.py"
FILES = 10_000
FOLDERS = 10
LOOK_EVERY_SECONDS = 0.005


def run(files: int = FILES) -> dict[str, object]:
    compileall.compile_dir(HERE.parent / "src", quiet=1)
    rows = [_measure(files, folders) for folders in (1, FOLDERS)]
    return {"rows": rows, "worst_share_percent": max(row["first, % of the run"] for row in rows)}


def _measure(files: int, folders: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for number in range(files):
            path = place / "in" / f"{number % folders}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"document {number}\n")
        command = [sys.executable, "-m", "quire.cli.main", "run", str(place / "in"), "--pipeline", str(WORDS)]
        command += ["--out", str(place / "out"), "--home", str(place / "home"), "--json"]
        environment = {name: at for name, at in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        first = None
        while process.poll() is None:
            if first is None and next((place / "out").glob("*/*.words.json"), None) is not None:
                first = time.perf_counter() - began
            time.sleep(LOOK_EVERY_SECONDS)
        seconds = time.perf_counter() - began
        assert process.returncode == 0, process.returncode
        return {
            "files": files,
            "folders": folders,
            "first s": round(first or seconds, 2),
            "run s": round(seconds, 2),
            "first, % of the run": round(100 * (first or seconds) / seconds, 2),
            "files/s": round(files / seconds),
        }


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)["rows"]:  # type: ignore[attr-defined]
        print(row)
