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


def write_mixed(target: Path) -> None:
    """A scanned page, and a typed one whose font is not in the PDF, which PDF/A forbids."""
    scan = open_scan().convert("L")
    name, pages = pikepdf.Name, ("595 0 0 446 0 396 cm /I Do", "BT /F 12 Tf 72 700 Td (Typed words) Tj ET")
    with pikepdf.new() as document:
        picture = document.make_stream(
            scan.tobytes(),
            Type=name.XObject,
            Subtype=name.Image,
            Width=scan.width,
            Height=scan.height,
            ColorSpace=name.DeviceGray,
            BitsPerComponent=8,
        )
        font = pikepdf.Dictionary(Type=name.Font, Subtype=name.Type1, BaseFont=name.Helvetica)
        for content in pages:
            page = document.add_blank_page(page_size=(595, 842))
            page.Resources = pikepdf.Dictionary(
                XObject=pikepdf.Dictionary(I=picture), Font=pikepdf.Dictionary(F=font)
            )
            page.Contents = document.make_stream(content.encode())
        document.save(target)


def test_what_cannot_become_pdf_a_fails_with_its_text_and_becomes_a_pdf_without_being_read_again(
    quire, folder
):
    write_mixed(folder / "mixed.pdf")
    refused = quire.run(str(folder), "--pipeline", "ocr", **TESSERACT, QUIRE_OCR_PDFA="true")
    assert refused.returncode == 3, refused.stderr
    entry = quire.files()["mixed.pdf"]
    assert (entry["status"], entry["error_class"]) == ("failed", "not_pdfa")
    assert "Switch PDF/A off (setting ocr.pdfa)" in entry["reason"]
    assert set(entry["outputs"]) == {"mixed.txt", "mixed.hocr", "mixed.alto.xml"}

    ran = quire.run(str(folder), "--pipeline", "ocr", **TESSERACT)
    assert ran.returncode == 0, ran.stderr
    assert "5 of 6 tasks from the cache" in ran.stdout
    assert SENTENCE in text_of(quire.out / "mixed.ocr.pdf")[0]
