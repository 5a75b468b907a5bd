"""From PDF to archive beside the bare converter and beside bare text, on the same files in the same process.

Quire: `pdf_markdown.convert`, from the hash of the source to the finished archive. LiteParse: the same
batches through its public interface with the same options, Markdown and pictures held in memory and dropped.
PDFium: the text of every page. No scans among the files: recognition would hide the rest. Each in a process
of its own that has everything loaded; the three take turns, and the median of the rounds counts. CPU
seconds, because cores are shared.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "documents" / "corpus" / "pdf"
NAMES = ("manual-3-pages.pdf", "multi_page.pdf", "code_and_formula.pdf", "picture_classification.pdf")
COPIES = 40  # of the pages of all of them, in one document: as long as a book
ROUNDS = 5
CHILD = """
import json, sys, time
from pathlib import Path
which, target = sys.argv[1], Path(sys.argv[2])
files = [Path(name) for name in sys.argv[3:]]

def quire(path):
    return pdf_markdown.convert(path, target, options, about, lambda *_: None).pages

def liteparse(path):
    parser = LiteParse(output_format="markdown", ocr_enabled=False, image_mode="embed", extract_images=True,
                       keep_headers_footers=True, continue_on_page_error=True, max_pages=10_000, quiet=True)
    return sum(len(batch.result.pages) for batch in parser.parse_batches(path, 25))

def pdfium(path):
    with pypdfium2.PdfDocument(path) as document:
        for page in document:
            page.get_textpage().get_text_bounded()
        return len(document)

if which == "quire":
    from quire.steps import pdf_markdown
    options = pdf_markdown.PdfMarkdownOptions(ocr="none")
    about = pdf_markdown.About(original_filename="a.pdf", worker_id="w", converted_at="now")
elif which == "liteparse":
    from liteparse import LiteParse
else:
    import pypdfium2
work = {"quire": quire, "liteparse": liteparse, "pdfium": pdfium}[which]
work(files[0])
for line in sys.stdin:
    began, pages = time.process_time(), 0
    for path in files:
        pages += work(path)
    print(json.dumps([pages, time.process_time() - began]), flush=True)
"""


def rows(files: list[Path] | None = None, rounds: int = ROUNDS) -> list[dict[str, float | str]]:
    """One row for each of the three: pages per CPU second, and their share of the bare converter's."""
    folder = Path(tempfile.mkdtemp(prefix="library-convert-"))
    try:
        files = files or [*(CORPUS / name for name in NAMES), _book(folder)]
        found = _measured(files, folder, rounds)
    finally:
        shutil.rmtree(folder)
    speeds = {name: median(pages / seconds for pages, seconds in runs) for name, runs in found.items()}
    # Neighbours in time are compared with each other: a busy minute slows both.
    shares = {
        name: median(
            (pages / seconds) / (bare_pages / bare_seconds)
            for (pages, seconds), (bare_pages, bare_seconds) in zip(runs, found["liteparse"], strict=True)
        )
        for name, runs in found.items()
    }
    return [
        {"what": name, "pages_per_cpu_second": round(speeds[name], 1), "of_liteparse": round(shares[name], 3)}
        for name in found
    ]


def run() -> dict[str, object]:
    return {"rows": rows()}


def _measured(files: list[Path], folder: Path, rounds: int) -> dict[str, list[tuple[int, float]]]:
    names = ("quire", "liteparse", "pdfium")
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    children = {}
    for name in names:
        arguments = [sys.executable, "-c", CHILD, name, str(folder / "result.zip"), *map(str, files)]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
        children[name] = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
    for _ in range(rounds):
        for name in names:
            child = children[name]
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("go\n")
            child.stdin.flush()
            pages, seconds = json.loads(child.stdout.readline())
            found[name].append((pages, seconds))
    for child in children.values():
        child.communicate()
        assert child.returncode == 0
    return found


def _book(folder: Path) -> Path:
    import pikepdf

    with pikepdf.new() as book:
        for name in NAMES:
            with pikepdf.open(CORPUS / name) as one:
                for _ in range(COPIES):
                    book.pages.extend(one.pages)
        book.save(folder / "book.pdf")
    return folder / "book.pdf"


if __name__ == "__main__":
    for row in rows([Path(name) for name in sys.argv[1:]] or None):
        print(row)
