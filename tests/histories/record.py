"""Records what a version of quire leaves behind, for later versions to go on with.

    python -m tests.histories.record --code ../quire-0.1.0/src

Run from the top folder of a checkout; `--code` is the folder with the package that is to be recorded. See the
README beside this.
"""

import argparse
import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.histories import record_library
from tests.histories.archives import pack
from tests.histories.books import PostgresBooks, SqliteBooks
from tests.histories.commands import Quire
from tests.histories.record_home import IMAGE, TIFF, Recorder

HERE = Path(__file__).parent
INPUTS = ["in", "few", "late", "out"]
NEW_HOST_NAME = 0x04000000  # CLONE_NEWUTS: a name of the machine that only we see


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--code", required=True, type=Path, help="folder with the package to record")
    parser.add_argument("--only", choices=["home", "postgres", "library"], help="this one alone")
    asked = parser.parse_args()
    code = str(asked.code.resolve(strict=True))
    version = _version(code)
    with contextlib.suppress(OSError):
        _be_nobodys_machine()
    recordings: dict[str, Callable[[str, str], None]] = {
        "home": record_home,
        "postgres": record_postgres,
        "library": record_library_bucket,
    }
    for name, recorded in recordings.items():
        if asked.only in {None, name}:
            recorded(code, version)
            print(f"recorded {name}-{version}", file=sys.stderr)  # noqa: T201


def record_home(code: str, version: str) -> None:
    with _folder() as folder:
        recorder = Recorder(Quire(folder, code=code), SqliteBooks(folder / "home"), killed_in=TIFF)
        recorder.record()
        _check_places(folder, code)
        pack(folder, HERE / f"home-{version}.tar.xz", ["home", *INPUTS])
        _note(f"home-{version}", recorder.facts)


def record_postgres(code: str, version: str) -> None:
    from tests.conftest import postgres  # whatever starts the server of the other tests

    programs = postgres.programs()
    with _folder() as folder, postgres.postgres_server(programs) as dsn:
        quire = Quire(folder, code=code, QUIRE_LEDGER="postgres", QUIRE_POSTGRES_DSN=dsn)
        recorder = Recorder(quire, PostgresBooks(dsn), killed_in=IMAGE)
        recorder.record()
        plain = ["--inserts", "--no-owner", "--no-privileges", "--no-comments"]
        dump = HERE / f"postgres-{version}.sql"
        subprocess.run([programs / "pg_dump", *plain, f"--file={dump}", dsn], check=True)
        _check_places(folder, code)
        pack(folder, HERE / f"postgres-{version}.tar.xz", ["home", *INPUTS])
        _note(f"postgres-{version}", recorder.facts)


def record_library_bucket(code: str, version: str) -> None:
    with _folder() as folder:
        bucket = (folder / "bucket").as_uri()
        facts = record_library.record(Quire(folder, code=code, QUIRE_BUCKET=bucket))
        _check_places(folder / "bucket", code)
        pack(folder, HERE / f"library-{version}.tar.xz", ["bucket", "books"])
        _note(f"library-{version}", facts)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        yield Path(folder)


def _version(code: str) -> str:
    """Of the code that is recorded. Raises when another one would be run."""
    shown = "import quire; print(quire.__version__, quire.__file__)"
    quire = Quire(Path.cwd(), code=code)
    ran = subprocess.run(
        [sys.executable, "-c", shown], env=quire.environment, capture_output=True, text=True, check=True
    )
    version, file = ran.stdout.split()
    if not Path(file).is_relative_to(code):
        raise SystemExit(f"{code} has no package quire")
    return version


def _be_nobodys_machine() -> None:
    """Processes write the name of their machine into their rows; needs the rights of root."""
    if ctypes.CDLL(None).unshare(NEW_HOST_NAME) == 0:
        socket.sethostname("recorder")


def _check_places(folder: Path, code: str) -> None:
    """What is recorded names no folder of this machine."""
    places = [place.encode() for place in (code, str(HERE), sys.prefix, sys.base_prefix, str(folder))]
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in {".toml", ".log"} and (data := path.read_bytes()):
            found = [os.fsdecode(place) for place in places if place in data]
            assert not found, f"{path.name} names {found}"


def _note(name: str, facts: dict[str, Any]) -> None:
    text = json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
