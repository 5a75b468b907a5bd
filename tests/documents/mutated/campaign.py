"""Takes damaged files through `quire run`, as a process with real workers, and judges every one of them.

`python -m tests.documents.mutated.campaign --kind tiff --files 10000 --seed 1` prints the figures; without a
kind, of every kind. `--keep FOLDER` keeps the files about which something is wrong.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.acceptance.conftest import Quire
from tests.documents.mutated import judge, mutations, originals

MEMORY_MB = 512  # of each worker
_AT_ONCE = 1000  # files of one run
_LIMIT_SECONDS = 3600  # of one run, however busy the machine: a file that hangs ends by its own time limit
_MEASURED = """
import json, resource, subprocess, sys
ran = subprocess.run(sys.argv[1:], check=False, stdout=subprocess.DEVNULL)
print(json.dumps([ran.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
_SETTINGS = {
    "QUIRE_WORKERS": "2",
    "QUIRE_PREPROCESS_MEMORY_MB": str(MEMORY_MB),
    "QUIRE_PREPROCESS_MAX_MEGAPIXELS": "20",
    "QUIRE_PREPROCESS_PDF_MAX_MEGAPIXELS": "20",
    "QUIRE_PREPROCESS_PDF_PAGES": "both",
    "QUIRE_PREPROCESS_PDF_DPI": "72",
    "QUIRE_PREPROCESS_TILES": "true",
    "QUIRE_PREPROCESS_TILE_SIZE": "128",
    "QUIRE_PREPROCESS_TILES_ABOVE": "210",
}
# A picture under the name of a TIFF is decoded in its full size, under its own it is shrunk while it is read.
_ENDINGS = {
    "jpeg": (".jpg", ".tif"),
    "png": (".png", ".tif"),
    "webp": (".webp", ".tif"),
    "tiff": (".tif",),
    "pdf": (".pdf",),
}


class Figures(NamedTuple):
    """`wrong` names the files that ended neither with a right result nor with a known error."""

    verdicts: Counter[str]
    wrong: dict[str, str]
    peak_mb: int
    seconds: float

    def __add__(self, other: "Figures") -> "Figures":  # type: ignore[override]
        return Figures(
            self.verdicts + other.verdicts,
            self.wrong | other.wrong,
            max(self.peak_mb, other.peak_mb),
            self.seconds + other.seconds,
        )

    def __str__(self) -> str:
        found = ", ".join(f"{verdict} {count}" for verdict, count in sorted(self.verdicts.items()))
        return f"{found}; wrong {len(self.wrong)}; peak {self.peak_mb} MB; {self.seconds:.0f} s"


NOTHING = Figures(Counter(), {}, 0, 0.0)


def run(kinds: Sequence[str], files: int, seed: int, folder: Path) -> Figures:
    """One batch, of the kinds in turn. `folder` holds the damaged files under `in` afterwards, and what was
    made of them under `out`.
    """
    quire, given = Quire(folder), folder / "in"
    ways = _damage(kinds, files, seed, given)
    started = time.monotonic()
    command = quire.command("run", str(given), "--json", "--out", str(quire.out))
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command],
        cwd=folder,
        env=quire.environment(**_SETTINGS),
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    code, kilobytes = json.loads(ran.stdout.splitlines()[-1])
    assert code in (0, 3), ran.stderr
    seconds = time.monotonic() - started
    found, wrong = quire.files(), {}
    assert set(found) == set(ways), "every file ends with an entry in the report"
    verdicts: Counter[str] = Counter()
    for name, entry in found.items():
        kind, way = ways[name]
        verdict = judge.judge(given / name, entry, quire.out)
        if verdict.startswith("!"):
            wrong[name] = f"{kind} ({way}): {verdict[1:]}"
        else:
            verdicts[f"{kind} {verdict}"] += 1
    return Figures(verdicts, wrong, kilobytes // 1024, seconds)


def _damage(kinds: Sequence[str], files: int, seed: int, folder: Path) -> dict[str, tuple[str, str]]:
    """Writes the files; gives the kind of each, and what was done to it."""
    folder.mkdir(parents=True)
    done = {}
    for number in range(seed, seed + files):
        kind = kinds[number % len(kinds)]
        whole = originals.of_kind(kind)
        chance = Random(number)
        name = chance.choice(sorted(whole))
        way, content = mutations.mutate(whole[name], list(whole.values()), kind, chance)
        path = folder / f"{number:07}{chance.choice(_ENDINGS[kind])}"
        path.write_bytes(content)
        done[path.name] = kind, f"{name}, {way}"
    return done


def run_all(
    kinds: Sequence[str], files: int, seed: int, keep: Path | None = None, at_once: int = _AT_ONCE
) -> Figures:
    """Any number of files, in batches of so many."""
    total = NOTHING
    for first in range(seed, seed + files, at_once):
        with TemporaryDirectory() as folder:
            part = run(kinds, min(at_once, seed + files - first), first, Path(folder))
            for name in part.wrong:
                if keep is not None:
                    shutil.copy(Path(folder) / "in" / name, keep)
        total += part
    return total


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--kind", choices=originals.KINDS)
    asked.add_argument("--files", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--keep", type=Path)
    asked.add_argument("--at-once", type=int, default=_AT_ONCE)
    chosen = asked.parse_args()
    failed = False
    for kind in [chosen.kind] if chosen.kind else originals.KINDS:
        found = run_all([kind], chosen.files, chosen.seed, chosen.keep, chosen.at_once)
        for name, words in found.wrong.items():
            print(f"{name}: {words}")  # noqa: T201
        print(found, flush=True)  # noqa: T201
        failed = failed or bool(found.wrong) or found.peak_mb >= MEMORY_MB
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
