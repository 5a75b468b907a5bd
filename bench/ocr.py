"""Engines that read pictures: characters wrong, CPU seconds per page, and memory; alone and as a chain.

The pages: those of the corpus, two clean ones of 300 dpi, the same at 150 dpi with noise, a clean small one
and one in six languages; and pages that are made here, columns, a card, and pages that lie wrong. Each engine
reads them in a process of its own, so that its memory is its own; the first picture, for which everything is
loaded, is not counted. Bare tesserocr gets the same pixels and gives its text, nothing else. The overhead of
the chain is that of pages which Tesseract reads well, one after the other with bare tesserocr in one process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parent
DATA = HERE / "data" / "ocr"
SCAN = HERE.parent / "tests" / "documents" / "corpus" / "scan"
ROUNDS = 5

CORPUS = {
    "phototest.tif": "phototest.txt",
    "eurotext.tif": "eurotext.txt",
    "rendered_r0_300.png": "rendered_r0.txt",
    "rendered_r1_300.png": "rendered_r1.txt",
    "rendered_r0_150noisy.jpg": "rendered_r0.txt",
    "rendered_r1_150noisy.jpg": "rendered_r1.txt",
}
CARD = "Pancakes\n\n2 eggs\n1 cup flour\n1 cup milk\na pinch of salt\n\nBeat the eggs, stir in the rest, fry."


def make_pages():
    """Picture and truth, by name; written once."""
    from PIL import Image
    from tests.situations.texts import picture_of

    DATA.mkdir(parents=True, exist_ok=True)
    made = {}

    def keep(name, picture, truth):
        picture.save(DATA / f"{name}.png")
        (DATA / f"{name}.txt").write_text(truth, "utf-8")
        made[name] = (DATA / f"{name}.png", DATA / f"{name}.txt")

    keep("card", picture_of(CARD, size=36), CARD)
    columns = [(SCAN / f"rendered_r{number}.txt").read_text("utf-8").split() for number in (0, 1)]
    texts = ["\n".join(" ".join(words[at : at + 6]) for at in range(0, 150, 6)) for words in columns]
    page = Image.new("L", (1900, 1300), 255)
    for number, text in enumerate(texts):
        page.paste(picture_of(text, size=28, width=900), (30 + 920 * number, 60))
    keep("columns", page, "\n".join(texts))
    noisy = Image.open(SCAN / "rendered_r1_150noisy.jpg").convert("L")
    truth = (SCAN / "rendered_r1.txt").read_text("utf-8")
    keep("on its head", noisy.transpose(Image.Transpose.ROTATE_180), truth)
    keep("on its side", noisy.transpose(Image.Transpose.ROTATE_90), truth)
    keep("tilted", noisy.rotate(5, fillcolor=255, expand=True, resample=Image.Resampling.BICUBIC), truth)
    return made


READ = """
import json, resource, sys, time
from pathlib import Path
engine, *paths = sys.argv[1:]
from quire.steps.ocr.pictures import decode_picture

def bare():
    import tesserocr
    api = tesserocr.PyTessBaseAPI(path=sys.prefix + "/share/tessdata", lang="eng")
    api.SetVariable("debug_file", "/dev/null")
    def read(bitmap, dpi):
        line = len(bitmap.data) // bitmap.height
        api.SetImageBytes(bytes(bitmap.data), bitmap.width, bitmap.height, bitmap.bands, line)
        if dpi:
            api.SetSourceResolution(dpi)
        return api.GetUTF8Text(), True, "tesserocr"
    return read

def ours(tiers):
    from quire.steps.ocr.reader import PictureReader, ReadingOptions
    reader = PictureReader(ReadingOptions(tiers=tiers))
    def read(bitmap, dpi):
        found = reader.read_bitmap(bitmap, dpi)
        return found.text, found.is_valid, found.tier
    return read

def open_engine(name):
    return bare() if name == "tesserocr" else ours(() if name == "chain" else (name,))
"""
READ_PAGES = (
    READ
    + """
read = open_engine(engine)
pages = [decode_picture(Path(path), page=0, max_pixels=10**8) for path in paths]
found = []
for page in [pages[0], *pages]:
    wall, cpu = time.perf_counter(), time.process_time()
    text, valid, tier = read(page.bitmap, page.dpi)
    found.append([text, valid, tier, time.process_time() - cpu, time.perf_counter() - wall])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"pages": found[1:], "first": found[0][3], "megabytes": peak}))
"""
)
COMPARE = (
    READ
    + """
engines = [open_engine("tesserocr"), open_engine(engine)]
rounds, paths = int(paths[0]), paths[1:]
pages = [decode_picture(Path(path), page=0, max_pixels=10**8) for path in paths]
for read in engines:
    read(pages[0].bitmap, pages[0].dpi)
spent = []
for turn in range(rounds):
    for page in pages:
        both = []
        for read in engines if turn % 2 else engines[::-1]:
            cpu = time.process_time()
            read(page.bitmap, page.dpi)
            both.append(time.process_time() - cpu)
        spent.append(both if turn % 2 else both[::-1])
print(json.dumps(spent))
"""
)


def start(code, *words):
    environment = os.environ | {"OMP_THREAD_LIMIT": "1", "VIPS_CONCURRENCY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def engines():
    from quire.steps.ocr.engines import probe_tiers
    from quire.steps.ocr.options import ReadingOptions

    tiers = [str(state.tier) for state in probe_tiers(ReadingOptions()) if state.is_available]
    return ["tesserocr", *tiers, "chain"]


def run():
    from tests.situations.texts import error_rate

    made = make_pages()
    pages = {name: (SCAN / name, SCAN / truth) for name, truth in CORPUS.items()} | made
    truths = {name: truth.read_text("utf-8") for name, (_, truth) in pages.items()}
    rows, by_page = [], {}
    for engine in engines():
        found = start(READ_PAGES, engine, *(path for path, _ in pages.values()))
        rates = {
            name: error_rate(read[0], truths[name]) for name, read in zip(pages, found["pages"], strict=True)
        }
        by_page[engine] = {name: round(rate, 4) for name, rate in rates.items()}
        of_corpus = found["pages"][: len(CORPUS)]
        rows.append(
            {
                "engine": engine,
                "cer_corpus": round(mean(rates[name] for name in CORPUS), 4),
                "cer_made": round(mean(rates[name] for name in made), 4),
                "valid": sum(read[1] for read in found["pages"]),
                "cpu_s_per_page": round(mean(read[3] for read in of_corpus), 2),
                "seconds_per_page": round(mean(read[4] for read in of_corpus), 2),
                "first_cpu_s": round(found["first"], 2),
                "peak_mb": found["megabytes"],
            }
        )
        by_page.setdefault("tiers of the chain", {})
        if engine == "chain":
            read_by = {name: read[2] for name, read in zip(pages, found["pages"], strict=True)}
            by_page["tiers of the chain"] = read_by
    well_read = [name for name, tier in by_page["tiers of the chain"].items() if tier == "tesseract"]
    plain = [SCAN / name for name in CORPUS if name in well_read]
    spent = start(COMPARE, "chain", ROUNDS, *plain)
    return {
        "rows": rows,
        "cer_by_page": by_page,
        "chain_over_tesserocr_where_tesseract_is_valid": round(
            median(ours / bare for bare, ours in spent), 3
        ),
    }
