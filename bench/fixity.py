"""What it costs to compare bytes with their digest whenever they are read: the same work with and without.

*Without* are the same processes, with the comparison taken out of them when they start
(`unchecked/sitecustomize.py`). Images: `quire run` on the collection of the section `images`, whole command.
Delivery: `quire serve` sends one rendition of a picture again and again over one connection, and the whole
original; both servers run side by side and are asked in turn. *First time*: before each request the file is
touched, so that it is compared as a whole; *again*: it is as it was when it was compared, minutes ago.
Seconds of CPU say the same with less chance: of the command and its workers, and of the server's process.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import httpx
from images import DATA, collection

HERE = Path(__file__).parent
SCALE = float(os.environ.get("FIXITY_SCALE", "1"))
RUNS = max(1, int(7 * SCALE))
TURNS = max(3, int(30 * SCALE))
ASKED = {"large": 100, "original": 10}
HOW = {"again": False, "first time": True}
SIDES = {"with": "1", "without": "0"}


def environment(side: str, home: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    path = os.pathsep.join(filter(None, (str(HERE / "unchecked"), kept.get("PYTHONPATH", ""))))
    more = {"PYTHONPATH": path, "BENCH_CHECKS": SIDES[side], "PYTHONUNBUFFERED": "1"}
    return kept | more | {"QUIRE_HOME": str(home)}


def run_seconds(side: str, folder: Path) -> tuple[float, float]:
    """One run on an empty home: seconds, and seconds of CPU."""
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        os.sync()
        used, began = _cpu_of_children(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "quire.cli.main", "run", str(folder), "--out", str(Path(scratch, "out"))],
            env=environment(side, Path(scratch, "home")),
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began, _cpu_of_children() - used


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def gallery(side: str, picture: Path, home: Path) -> Iterator[Callable[[str, bool], tuple[float, float]]]:
    """A server with one picture. The function asks for a rendition so often, each time after its file was
    touched or not, and returns the seconds for one answer and those of the server's CPU.
    """
    command = [sys.executable, "-m", "quire.cli.main", "serve", "--json", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(command, env=environment(side, home), stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(process.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=120) as client:
            address = _send(client, picture)

            blobs = [path for path in (home / "blobs").rglob("*") if path.is_file()]

            def ask(role: str, is_touched: bool) -> tuple[float, float]:
                used, began = _cpu_of(process.pid), time.perf_counter()
                for _ in range(ASKED[role]):
                    for path in blobs if is_touched else ():
                        os.utime(path)
                    answer = client.get(f"{address}/{role}")
                    assert answer.status_code == 200, answer.text
                each = 1 / ASKED[role]
                return (time.perf_counter() - began) * each, (_cpu_of(process.pid) - used) * each

            yield ask
    finally:
        process.terminate()
        process.wait(60)


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _send(client: httpx.Client, picture: Path) -> str:
    """Upload it, wait for the end of its batch, and return the path of its asset."""
    data = picture.read_bytes()
    opening = {
        "uploader": "bench",
        "root_path": "/",
        "parent_pi": "",
        "file_count": 1,
        "total_size": len(data),
    }
    at = (
        f"/api/batches/{client.post('/api/batches/init', json=opening).raise_for_status().json()['batch_id']}"
    )
    said = {
        "file_name": picture.name,
        "file_size": len(data),
        "logical_path": f"/{picture.name}",
        "content_type": "image/jpeg",
        "processing_config": {"ocr": False, "describe": False, "pinax": False},
    }
    started = client.post(f"{at}/files/start", json=said).raise_for_status().json()
    httpx.put(started["presigned_url"], content=data, timeout=120).raise_for_status()
    client.post(f"{at}/files/complete", json={"r2_key": started["r2_key"]}).raise_for_status()
    client.post(f"{at}/finalize", json={}).raise_for_status()
    with client.stream("GET", f"{at}/events") as stream:
        assert any(line == "event: end" for line in stream.iter_lines())
    (line,) = client.get(f"{at}/files").json()["files"]
    (made,) = [path for path in line["outputs"] if path.endswith(".ref.json")]
    found = client.get(f"{at}/files/download", params={"path": made}).raise_for_status().json()
    return urlsplit(json.loads(httpx.get(found["url"]).content)["url"]).path


def measure_delivery(folder: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    picture = max(folder.glob("*.jpg"), key=lambda path: path.stat().st_size)
    measured: dict[str, dict[str, list[tuple[float, float]]]] = {
        f"{role}, {how}": {side: [] for side in SIDES} for role in ASKED for how in HOW
    }
    with tempfile.TemporaryDirectory(dir=DATA) as scratch, contextlib.ExitStack() as stack:
        asks = {side: stack.enter_context(gallery(side, picture, Path(scratch, side))) for side in SIDES}
        for turn in range(TURNS + 1):
            for what, sides in measured.items():
                role, _, how = what.partition(", ")
                for side in _in_turn(turn):
                    found = asks[side](role, HOW[how])
                    if turn:  # the first one warms up
                        sides[side].append(found)
    return measured


def _in_turn(turn: int) -> list[str]:
    return list(SIDES) if turn % 2 else list(reversed(SIDES))


def _row(what: str, sides: dict[str, list[tuple[float, float]]]) -> dict[str, object]:
    """Ratios of neighbours in time: the machine's pace changes from minute to minute."""
    pairs = list(zip(sides["with"], sides["without"], strict=True))
    return {
        "what": what,
        "ms_with": round(median(one[0] for one, _ in pairs) * 1e3, 2),
        "ms_without": round(median(other[0] for _, other in pairs) * 1e3, 2),
        "ratio": round(median(one[0] / other[0] for one, other in pairs), 3),
        "cpu_ratio": round(
            sum(one[1] for one, _ in pairs) / max(1e-9, sum(other[1] for _, other in pairs)), 3
        ),
    }


def run() -> dict[str, object]:
    folder = collection()
    images: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for turn in range(RUNS):
        for side in _in_turn(turn):
            images[side].append(run_seconds(side, folder))
    rows = [_row("images, whole run", images)]
    rows += [_row(f"delivery, {role}", sides) for role, sides in measure_delivery(folder).items()]
    return {"rows": rows, "goal": "ratios below 1.05; a first delivery costs a SHA-256 of the file"}
