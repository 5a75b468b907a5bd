"""`quire run --pipeline ocr`: scans become text, hOCR, ALTO and searchable PDFs; bad files get a reason."""

import shutil
from pathlib import Path

import pikepdf
import pypdfium2
import pytest
from PIL import Image
from tests.situations.scans import open_scan, write_book, write_scan

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).resolve().parents[1] / "documents" / "corpus"
SENTENCE = "This is a lot of 12 point text to test the"
TESSERACT = {"QUIRE_OCR_TIERS": "tesseract"}


def text_of(path: Path) -> list[str]:
    with pypdfium2.PdfDocument(path) as document:
        return [page.get_textpage().get_text_bounded().replace("\r\n", " ").strip() for page in document]


def test_scans_books_and_pdfs_become_text_and_searchable_pdfs(quire, folder):
    write_scan(folder / "letter.tif", compression="group4")
    write_scan(folder / "same.jpeg.png")
    (folder / "books").mkdir()
    write_book(folder / "books" / "book.tif", 3)
    shutil.copy(CORPUS / "pdf" / "header-test-doc.pdf", folder / "typed.pdf")
    Image.new("L", (300, 200), 255).save(folder / "blank.png")
    (folder / "locked.pdf").write_bytes((CORPUS / "pdf" / "crazyones-encrypted-256.pdf").read_bytes())
    (folder / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    (folder / "cut.jpg").write_bytes((CORPUS / "image" / "truncated.jpg").read_bytes())
    (folder / "note.txt").write_text("no scan", "utf-8")

    ran = quire.run(str(folder), "--pipeline", "ocr", **TESSERACT)

    assert ran.returncode == 3, ran.stderr
    files = quire.files()
    assert {path: (one["status"], one["error_class"]) for path, one in files.items()} == {
        "blank.png": ("done", None),
        "books/book.tif": ("done", None),
        "cut.jpg": ("failed", "truncated"),
        "letter.tif": ("done", None),
        "locked.pdf": ("failed", "encrypted"),
        "note.txt": ("skipped", "not_handled"),
        "photo.heic": ("failed", "unsupported_format"),
        "same.jpeg.png": ("done", None),
        "typed.pdf": ("done", None),
    }
    names = {"letter.alto.xml", "letter.hocr", "letter.pdf", "letter.txt"}
    assert set(files["letter.tif"]["outputs"]) == names
    assert "typed.ocr.pdf" in files["typed.pdf"]["outputs"]
    text = (quire.out / "letter.txt").read_text("utf-8")
    assert text.startswith(SENTENCE)
    assert SENTENCE in text_of(quire.out / "letter.pdf")[0]
    book = (quire.out / "books" / "book.txt").read_text("utf-8")
    assert book.split("\f") == [text] * 3
    assert [SENTENCE in page for page in text_of(quire.out / "books" / "book.pdf")] == [True] * 3
    assert (quire.out / "typed.ocr.pdf").read_bytes() == (folder / "typed.pdf").read_bytes()
    assert "I Am A Header" in (quire.out / "typed.txt").read_text("utf-8")
    assert (quire.out / "blank.txt").read_text("utf-8") == "\n"
    assert not any(one["doubtful"] for one in files.values())


def test_doubtful_text_is_told_and_is_in_no_text_and_no_pdf(quire, folder):
    scrawl = open_scan().convert("L").resize((640, 480))
    scrawl = scrawl.transpose(Image.Transpose.FLIP_LEFT_RIGHT)  # letters of no script
    scrawl.save(folder / "scrawl.png", dpi=(200, 200))

    ran = quire.run(str(folder), "--pipeline", "ocr", "--json", **TESSERACT)

    assert ran.returncode == 0, ran.stderr
    (entry,) = quire.files().values()
    assert (entry["status"], entry["doubtful"]) == ("done", True)
    assert quire.report()["counts"]["doubtful"] == 1
    assert "scrawl.doubtful.txt" in entry["outputs"]
    text = (quire.out / "scrawl.txt").read_text("utf-8")
    assert text.startswith("[Page 1 could not be read reliably: ")
    assert text.count("\n") == 1
    assert text_of(quire.out / "scrawl.pdf") == [""]
    with pikepdf.open(quire.out / "scrawl.pdf") as stored:
        assert "/Picture" in stored.pages[0].Resources.XObject
    assert "quire_doubtful" in (quire.out / "scrawl.hocr").read_text("utf-8")
    assert 'PAGECLASS="doubtful"' in (quire.out / "scrawl.alto.xml").read_text("utf-8")


def test_outputs_and_pdf_a_are_chosen_by_settings(quire, folder):
    write_scan(folder / "letter.tif")
    chosen = {**TESSERACT, "QUIRE_OCR_OUTPUTS": "pdf", "QUIRE_OCR_PDFA": "true"}
    ran = quire.run(str(folder), "--pipeline", "ocr", **chosen)
    assert ran.returncode == 0, ran.stderr
    assert quire.files()["letter.tif"]["outputs"] == ["letter.pdf"]
    with pikepdf.open(quire.out / "letter.pdf") as stored, stored.open_metadata() as metadata:
        assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("2", "B")
