"""The pipeline beside bare pyvips, sharp (the original workers' engine), Pillow and ImageMagick: the same
files, cores and products.

Bare pyvips: one process per core, each file read from its folder, the cheapest right decoding (no colour
transform: these files need none) and the same products (a JPEG per TIFF; three variants, chained) written
with the same settings; no fsync, no ledger, no digests, no report. The others do the same in the same way.
The pipeline: the function behind `quire run`, from the scan to the last line of the report. All pay for
starting their processes. sharp comes from npm into bench/data; where there is no npm its row says so.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
DATA = HERE / "data"
CORPUS = HERE.parent / "tests" / "documents" / "corpus"
ROUNDS = 7


def collection() -> Path:
    """Real pictures in archive sizes, each with bytes of its own: pages and scans of 8
    megapixels, photos of 2 to 35."""
    folder = DATA / "mixed"
    done = folder / ".made"
    if done.exists():
        return folder
    import pyvips

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    photo = next(CORPUS.rglob("Landscape_1.jpg"))
    page = next(CORPUS.rglob("pport_g4.tif"))
    base = pyvips.Image.new_from_file(str(photo)).copy_memory()
    for number in range(24):
        large = base.resize(1.0 + number % 4, kernel="cubic").rotate(0.2 * number)
        (large + number).cast("uchar").jpegsave(str(folder / f"photo{number:02}.jpg"), Q=90)
    for number in range(12):
        scan = base.resize(2.0).rotate(0.3 * number)
        compression = ("none", "lzw", "deflate")[number % 3]
        (scan + number).cast("uchar").tiffsave(str(folder / f"scan{number:02}.tif"), compression=compression)
    for number in range(12):
        data = page.read_bytes()
        (folder / f"page{number:02}.tif").write_bytes(data + bytes([number]))
    for number in range(24):
        (folder / f"small{number:02}.jpg").write_bytes(photo.read_bytes() + bytes([number]))
    done.touch()
    return folder


BARE = """
import sys
from pathlib import Path
from statistics import median
import pyvips
pyvips.cache_set_max(0)
out = Path(sys.argv[1])

def upright(path):
    return pyvips.Image.new_from_file(str(path), access="sequential", fail_on="error")

def variants(path):
    image = None
    head = pyvips.Image.new_from_file(str(path))
    longest = max(head.width, head.height)
    for name, side in (("large", 2400), ("medium", 1288), ("thumb", 200)):
        if longest > side:
            if image is None:
                image = pyvips.Image.thumbnail(
                    str(path) + "[fail_on=error]", side, height=side, size="down"
                ).copy_memory()
            else:
                image = image.thumbnail_image(side, height=side, size="down").copy_memory()
            image.jpegsave(str(out / f"{path.name}.{name}.jpg"), Q=85, keep="none")

for line in sys.stdin:
    path = Path(line.rstrip("\\n"))
    if path.suffix == ".tif":
        image = upright(path)
        if image.interpretation not in ("srgb", "b-w"):
            image = image.colourspace("srgb")
        path2 = out / (path.stem + ".jpg")
        image.jpegsave(str(path2), Q=95, keep="none")
        path = path2
    variants(path)
    print("done", flush=True)
"""


def _magick_works() -> bool:
    """Other programs are called `convert` too."""
    if shutil.which("convert") is None:
        return False
    tried = subprocess.run(["convert", "-size", "1x1", "xc:white", "jpg:-"], capture_output=True, check=False)
    return tried.stdout.startswith(b"\xff\xd8")


def sharp_folder() -> Path | None:
    """Where sharp is, fetched on the first run."""
    folder = DATA / "sharp"
    if not (folder / "node_modules" / "sharp").exists():
        if shutil.which("npm") is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "sharp"],
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            return None
    return folder


def engines() -> dict[str, list[str]]:
    """How each is started; the output folder comes last, or before what else it needs."""
    found = {"pyvips": [sys.executable, "-c", BARE, "OUT"]}
    peers = HERE / "peers"
    found["pillow"] = [sys.executable, str(peers / "images_pillow.py"), "OUT"]
    if (sharp := sharp_folder()) is not None and shutil.which("node"):
        found["sharp"] = ["node", str(peers / "images_sharp.mjs"), "OUT", str(sharp)]
    if _magick_works():
        found["imagemagick"] = [sys.executable, str(peers / "images_magick.py"), "OUT"]
    return found


def bare_seconds(folder: Path, workers: int, command: list[str]) -> float:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    environment = os.environ | {"VIPS_CONCURRENCY": "1", "MALLOC_ARENA_MAX": "1"}
    with tempfile.TemporaryDirectory(dir=DATA) as out:
        began = time.perf_counter()
        pool = [
            subprocess.Popen(
                [out if word == "OUT" else word for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for _ in range(workers)
        ]
        # One file at a time to whoever is free: as good a balance as can be had.
        import selectors

        waiting = iter(files)
        free = selectors.DefaultSelector()
        busy = 0
        for process in pool:
            free.register(process.stdout, selectors.EVENT_READ, process)
            if (path := next(waiting, None)) is not None:
                process.stdin.write(f"{path}\n")
                process.stdin.flush()
                busy += 1
        while busy:
            for key, _ in free.select():
                assert key.fileobj.readline(), "a bare worker died"
                busy -= 1
                if (path := next(waiting, None)) is not None:
                    key.data.stdin.write(f"{path}\n")
                    key.data.stdin.flush()
                    busy += 1
        for process in pool:
            process.stdin.close()
            process.wait()
            process.stdout.close()
        return time.perf_counter() - began


class _Silence:
    def __getattr__(self, name):
        return lambda *_arguments, **_named: None


async def _pipeline_seconds(folder: Path) -> float:
    from quire.assembly.engine import open_engine
    from quire.batches.folder_run import RunRequest, run_folder
    from quire.settings import Settings

    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        home, out = Path(scratch, "home"), Path(scratch, "out")
        began = time.perf_counter()
        async with open_engine(Settings(home=home)) as house:
            request = RunRequest(roots=[folder], out=out, pipeline="preprocess")
            ended = await run_folder(request, house.run_context(), _Silence(), asyncio.Event())
        seconds = time.perf_counter() - began
        assert ended.summary.counts["failed"] == 0, ended.summary.failures
        return seconds


LARGE_TIFF = """
import resource, sys, tempfile
from pathlib import Path
from quire.model.files import File
from quire.model.step import StepInput
from quire.steps import tiff_to_jpeg
source = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    size = source.stat().st_size
    file = File(key="k", path=source.name, name=source.name, size=size, content_type="image/tiff")
    tiff_to_jpeg.run(StepInput(file=file, source=source, folder=Path(folder), options={}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def worker_megabytes() -> int:
    """The most memory that the step takes for a TIFF of 200 megapixels."""
    import pyvips

    large = DATA / "large.tif"
    if not large.exists():
        base = pyvips.Image.gaussnoise(20_000, 10_000, mean=128, sigma=40).cast("uchar")
        base.bandjoin([base, base]).copy(interpretation="srgb").tiffsave(str(large), compression="lzw")
    environment = os.environ | {"VIPS_CONCURRENCY": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LARGE_TIFF, str(large)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return int(done.stdout)


def run() -> dict[str, object]:
    folder = collection()
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    workers = len(os.sched_getaffinity(0))
    found = engines()
    seconds: dict[str, list[float]] = {name: [] for name in (*found, "quire")}
    for turn in range(ROUNDS):
        for name, command in found.items():
            # Pillow and ImageMagick are slower by far; three rounds tell as much.
            if name in {"pillow", "imagemagick"} and turn >= 3:
                continue
            # What one leaves unwritten must not be written at the other's cost.
            os.sync()
            seconds[name].append(bare_seconds(folder, workers, command))
        os.sync()
        seconds["quire"].append(asyncio.run(_pipeline_seconds(folder)))
    rows = [
        {
            "engine": name,
            "files": len(files),
            "megabytes": round(sum(path.stat().st_size for path in files) / 1e6),
            "workers": workers,
            "seconds": round(median(some), 2),
            "files_per_s": round(len(files) / median(some), 1),
        }
        for name, some in seconds.items()
    ]
    # Of neighbours in time: the machine's pace changes from minute to minute.
    ratios = {
        name: median(round(one / other, 3) for one, other in zip(some, seconds["quire"], strict=False))
        for name, some in seconds.items()
        if name != "quire"
    }
    by_round = [round(one / other, 3) for one, other in zip(seconds["pyvips"], seconds["quire"], strict=True)]
    return {
        "rows": rows,
        "quire_over_each": ratios,
        "over_pyvips_round_by_round": by_round,
        "worker_mb_on_200_megapixels": worker_megabytes(),
    }
