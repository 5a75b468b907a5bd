"""`quire run` over PDFs: left alone unless asked, then split and carried on as pictures."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.slow
PDFS = Path(__file__).parents[1] / "documents" / "corpus" / "pdf"


@pytest.fixture
def collection(folder):
    (folder / "box").mkdir()
    shutil.copy(PDFS / "multi_page.pdf", folder / "box" / "letters.pdf")
    shutil.copy(PDFS / "crazyones.pdf", folder / "speech.pdf")
    shutil.copy(PDFS / "crazyones-encrypted-256.pdf", folder / "locked.pdf")
    shutil.copy(PDFS / "zero-pages.pdf", folder / "empty.pdf")
    (folder / "letter.pdf").write_text("not a PDF at all", encoding="utf-8")
    return folder


def ends(quire):
    return {path: (entry["status"], entry["error_class"]) for path, entry in quire.files().items()}


def test_pdfs_are_left_alone_by_default(quire, collection):
    ran = quire.run(str(collection))
    assert ran.returncode == 0, ran.stderr
    assert set(ends(quire).values()) == {("skipped", "not_handled")}
    assert [phase["total"] for phase in quire.report()["phases"]] == [0, 0, 0]
    for entry in quire.files().values():
        assert "preprocess.pdf_pages" in entry["reason"]
        assert "images, pdfs or both" in entry["reason"]


def test_pages_become_pictures_with_all_that_pictures_get(quire, collection):
    ran = quire.run(str(collection), QUIRE_PREPROCESS_PDF_PAGES="images", QUIRE_PREPROCESS_PDF_DPI="100")
    assert ran.returncode == 3, ran.stderr
    assert ends(quire) == {
        "box/letters.pdf": ("done", None),
        "speech.pdf": ("done", None),
        "locked.pdf": ("failed", "encrypted"),
        "empty.pdf": ("failed", "no_pages"),
        "letter.pdf": ("failed", "not_a_pdf"),
    }
    outputs = quire.files()["box/letters.pdf"]["outputs"]
    for page in range(1, 6):
        name = f"box/letters-p{page:04d}.jpg"
        assert {name, f"{name}.ref.json", f"{name}.thumb.jpg"} <= set(outputs)
        reference = json.loads((quire.out / f"{name}.ref.json").read_text(encoding="utf-8"))
        assert reference["filename"] == f"letters-p{page:04d}.jpg"
        assert reference["size"] == (quire.out / name).stat().st_size
        with Image.open(quire.out / name) as picture:
            assert 800 < picture.width < picture.height
    assert {entry["attempts"] for entry in quire.files().values() if entry["status"] == "failed"} == {1}


def test_single_pages_lie_beside_their_pictures_and_come_from_the_cache_next_time(quire, collection):
    asked = {"QUIRE_PREPROCESS_PDF_PAGES": "both", "QUIRE_PREPROCESS_PDF_DPI": "50"}
    (collection / "speech-p0001.pdf").write_bytes((PDFS / "rotation.pdf").read_bytes())
    quire.run(str(collection), **asked)
    first = quire.files()
    # Somebody has a file of the name that the page would get.
    assert {"speech-p0001.jpg", "speech.pdf.p0001.pdf"} <= set(first["speech.pdf"]["outputs"])
    assert {"speech-p0001-p0002.jpg", "speech-p0001-p0002.pdf"} <= set(first["speech-p0001.pdf"]["outputs"])
    assert {f"box/letters-p000{page}.pdf" for page in range(1, 6)} <= set(first["box/letters.pdf"]["outputs"])
    quire.run(str(collection), **asked)
    again = quire.files()
    assert {path: one["outputs"] for path, one in again.items()} == {
        path: one["outputs"] for path, one in first.items()
    }
    assert {one["attempts"] for one in again.values() if one["status"] == "done"} == {0}


def test_other_words_for_the_setting_are_refused(quire, collection):
    ran = quire.run(str(collection), QUIRE_PREPROCESS_PDF_PAGES="jpegs")
    assert ran.returncode == 1
    assert "preprocess.pdf_pages" in ran.stderr
    assert '"images" or "pdfs" or "both" or "none"' in ran.stderr


def test_a_picture_without_a_known_type_is_processed_by_its_extension(quire, folder):
    with Image.new("RGB", (300, 300), "red") as picture:
        picture.save(folder / "p1.png")
        picture.save(folder / "p2.bmp")
        picture.save(folder / "p3.gif")
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    assert {path: status for path, (status, _) in ends(quire).items()} == {
        "p1.png": "done",
        "p2.bmp": "skipped",
        "p3.gif": "skipped",
    }
