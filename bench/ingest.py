"""What uploading costs: files per second through the API beside the bare store, closing, asking.

One client process (`ingest_load.py`) speaks HTTP with as little work of its own as it can. *Bare* is the same
client sending the same bytes to URLs that were signed beforehand: on S3 the store alone, on local files the
route that receives bytes and nothing around it. *Through the API* is what published clients do: announce,
send, confirm, and at the end close. INGEST_SCALE=0.1 sends a tenth of the files.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers import s3 as servers

HERE = Path(__file__).parent
SCALE = float(os.environ.get("INGEST_SCALE", "1"))
SMALL, LARGE = 1024, 50_000_000
ROUNDS = 3 if SCALE >= 1 else 1
FILES = {SMALL: max(50, int(2000 * SCALE)), LARGE: max(2, int(12 * SCALE))}
CLOSED = max(1000, int(100_000 * SCALE))
POLLERS = 200
LIMIT_SECONDS = 300


@contextlib.contextmanager
def serving(home: Path, environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """A server without workers: its URL and its process id."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "quire.cli.main", "serve", "--json", "--port", "0", "--api-only"],
        env=kept | environment | {"QUIRE_HOME": str(home), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.terminate()
        process.wait(30)


def load(*arguments: object, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "ingest_load.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
        env=os.environ | environment,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def uploads(place: str, environment: dict[str, str], folder: Path) -> list[dict[str, object]]:
    rows = []
    for size in (SMALL, LARGE):
        best: dict[str, float] = {}
        # In turns, and the best of each: the machine is noisy.
        for turn in range(ROUNDS):
            for way in ("bare", "api"):
                home = folder / f"{place}-{size}-{turn}-{way}"
                with serving(home, environment) as (url, pid):
                    found = load("upload", url, way, size, FILES[size], QUIRE_HOME=str(home), **environment)
                    best[way] = max(best.get(way, 0.0), found["per_s"])
                    best["peak_mb"] = max(best.get("peak_mb", 0.0), peak_mb(pid))
        rows.append(
            {
                "store": place,
                "what": "1 KiB files" if size == SMALL else "50 MB files",
                "bare_per_s": round(best["bare"], 2),
                "api_per_s": round(best["api"], 2),
                "ratio": round(best["api"] / best["bare"], 2),
                "server_mb": best["peak_mb"],
            }
        )
    return rows


def run() -> dict[str, object]:
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as name:
        folder = Path(name)
        rows += uploads("local", {}, folder)
        binary = servers.weed()
        if binary is not None:
            with servers.s3_server(binary) as s3:
                environment = {
                    "QUIRE_STORE": "s3",
                    "QUIRE_S3_BUCKET": s3.bucket,
                    "QUIRE_S3_ENDPOINT": s3.endpoint,
                    "QUIRE_S3_ACCESS_KEY_ID": s3.access_key_id,
                    "QUIRE_S3_SECRET_ACCESS_KEY": s3.secret_access_key,
                    "QUIRE_S3_ALLOW_HTTP": "true",
                }
                rows += uploads("s3", environment, folder)
        home = folder / "closing"
        load("fill", CLOSED, QUIRE_HOME=str(home))
        with serving(home, {}) as (url, pid):
            before = peak_mb(pid)
            closed = load("close", url, QUIRE_HOME=str(home))
            closed |= {"server_mb_before": before, "server_mb_after": peak_mb(pid)}
            asked = load("poll", url, POLLERS, QUIRE_HOME=str(home))
    return {"rows": rows, f"finalize_of_{CLOSED}_files": closed, f"status_with_{POLLERS}_pollers": asked}
