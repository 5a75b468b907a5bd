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
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.acceptance.conftest import Quire
from tests.documents.mutated import judge, mutations, originals

MEMORY_MB = 512  # of each worker
_AT_ONCE = 1000  # files of one run
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

    def __str__(self) -> str:
        found = ", ".join(f"{verdict} {count}" for verdict, count in self.verdicts.most_common())
        return f"{found}; wrong {len(self.wrong)}; peak {self.peak_mb} MB; {self.seconds:.0f} s"


def run(kind: str, files: int, seed: int, folder: Path) -> Figures:
    """One batch. `folder` holds the damaged files under `in` afterwards, and what was made under `out`."""
    quire, given = Quire(folder), folder / "in"
    ways = _damage(kind, files, seed, given)
    started = time.monotonic()
    command = quire.command("run", str(given), "--json", "--out", str(quire.out))
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command],
        cwd=folder,
        env=quire.environment(**_SETTINGS),
        capture_output=True,
        text=True,
        timeout=600,
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
        verdict = judge.judge(given / name, entry, quire.out)
        if verdict.startswith("!"):
            wrong[name] = f"{ways[name]}: {verdict[1:]}"
        else:
            verdicts[verdict] += 1
    return Figures(verdicts, wrong, kilobytes // 1024, seconds)


def _damage(kind: str, files: int, seed: int, folder: Path) -> dict[str, str]:
    """Writes the files; says what was done to each."""
    folder.mkdir(parents=True)
    whole = originals.of_kind(kind)
    done = {}
    for number in range(seed, seed + files):
        chance = Random(number)
        name = chance.choice(sorted(whole))
        way, content = mutations.mutate(whole[name], list(whole.values()), kind, chance)
        path = folder / f"{number:07}{chance.choice(_ENDINGS[kind])}"
        path.write_bytes(content)
        done[path.name] = f"{name}, {way}"
    return done


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--kind", choices=originals.KINDS)
    asked.add_argument("--files", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--keep", type=Path)
    chosen = asked.parse_args()
    failed = False
    for kind in [chosen.kind] if chosen.kind else originals.KINDS:
        total = Figures(Counter(), {}, 0, 0.0)
        for first in range(chosen.seed, chosen.seed + chosen.files, _AT_ONCE):
            with TemporaryDirectory() as folder:
                size = min(_AT_ONCE, chosen.seed + chosen.files - first)
                part = run(kind, size, first, Path(folder))
                total = Figures(
                    total.verdicts + part.verdicts,
                    total.wrong | part.wrong,
                    max(total.peak_mb, part.peak_mb),
                    total.seconds + part.seconds,
                )
                for name, words in part.wrong.items():
                    print(f"{kind} {name}: {words}", flush=True)
                    if chosen.keep:
                        shutil.copy(Path(folder) / "in" / name, chosen.keep / f"{kind}-{name}")
        print(f"{kind}: {total}", flush=True)
        failed = failed or bool(total.wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
