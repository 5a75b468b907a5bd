"""PDFs that are damaged, locked, oversized, foreign or hostile: mended with a word about it, or refused."""

import errno
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pikepdf
import pypdfium2
import pytest

from quire.model.errors import Reject
from quire.tools import pdfium, qpdf, vips


def text_of(path: Path, number: int = 1) -> str:
    with pypdfium2.PdfDocument(path) as pdf:
        return pdf[number - 1].get_textpage().get_text_bounded().strip()


def tables(pdf: pikepdf.Pdf) -> list[pikepdf.Dictionary]:
    return [found for found in pdf.objects if isinstance(found, pikepdf.Dictionary)]


def refused(run_step, source, **options):
    with pytest.raises(Reject) as refusal:
        run_step("pdf_split", source, **({"pages": "both"} | options))
    assert str(source.parent) not in str(refusal.value)
    assert ". " in str(refusal.value)  # and then what to do
    return refusal.value


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", ["crazyones.pdf", "multi_page.pdf", "c02-22-scan.pdf", "rotation.pdf"])
def test_a_cut_off_pdf_is_refused_and_never_half_split(name, share, corpus, run_step, tmp_path):
    """qpdf finds pages in most of them, but nobody knows how many there were."""
    whole = (corpus / "pdf" / name).read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[: int(len(whole) * share)])

    assert refused(run_step, tmp_path / "cut.pdf").code == "truncated"


def test_a_broken_index_is_repaired_and_reported(run_step, write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "book.pdf", book(3))
    whole = source.read_bytes()
    source.write_bytes(whole.replace(b"startxref\n", b"startxref\n9"))
    output = run_step("pdf_split", source, pages="both", dpi=72)

    assert output.facts["repaired"] is True
    assert output.facts["damage"]
    assert str(tmp_path) not in str(output.facts)
    singles = [one.path for one in output.files if one.role == "page_pdf"]
    assert [text_of(path) for path in singles] == ["page 1", "page 2", "page 3"]
    again = run_step("pdf_split", source, pages="both", dpi=72)
    assert [one.path.read_bytes() for one in again.files] == [one.path.read_bytes() for one in output.files]


def test_what_only_one_of_the_readers_can_open_is_drawn_from_a_mended_copy(corpus, run_step, tmp_path):
    """The index of a real document, wrong in every entry."""
    whole = (corpus / "pdf" / "rotation.pdf").read_bytes()
    index = whole.rindex(b"\nxref")
    damaged = whole[:index] + b"\n% moved by a mail program" + whole[index:]
    (tmp_path / "moved.pdf").write_bytes(damaged)
    output = run_step("pdf_split", tmp_path / "moved.pdf", pages="images", dpi=72)
    sound = run_step("pdf_split", corpus / "pdf" / "rotation.pdf", pages="images", dpi=72)

    assert output.facts["repaired"] is True
    assert [one.path.read_bytes() for one in output.files] == [one.path.read_bytes() for one in sound.files]


@pytest.mark.parametrize("lost", [(12, 13), (12,), (13,)], ids=["page and content", "page", "content"])
@pytest.mark.parametrize("index", [b"startxref\n9", b"startxref\n"], ids=["damaged", "sound"])
def test_a_repair_that_loses_a_page_is_a_refusal(index, lost, run_step, write_pdf, book, tmp_path):
    objects = book(3)
    for number in lost:
        del objects[number]
    source = write_pdf(tmp_path / "book.pdf", objects)
    source.write_bytes(source.read_bytes().replace(b"startxref\n", index))
    if lost == (13,) and index == b"startxref\n":
        assert len(run_step("pdf_split", source, pages="pdfs").files) == 3  # by the rules: an empty page
    else:
        assert refused(run_step, source).code == "corrupt"


def test_what_a_page_inherits_goes_along(run_step, write_pdf, book, tmp_path):
    objects = book(2)
    objects[2] = (
        objects[2].removesuffix(">>") + "/MediaBox[0 0 300 150]/Rotate 90/Resources<</Font<</F 3 0 R>>>>>>"
    )
    for number in (10, 12):
        objects[number] = f"<</Type/Page/Parent 2 0 R/Contents {number + 1} 0 R>>"
    made = run_step("pdf_split", write_pdf(tmp_path / "heirs.pdf", objects), pages="pdfs").files

    assert [(one.facts["width"], one.facts["height"]) for one in made] == [(150, 300)] * 2
    for number, one in enumerate(made, 1):
        assert text_of(one.path) == f"page {number}"
        with pypdfium2.PdfDocument(one.path) as single:
            assert single.get_page_size(0) == (150, 300)


FOREIGN = [
    (b"Dear reader,\nthis is a letter.\n", "not_a_pdf", "not a PDF: it looks like plain text"),
    (b"\xff\xd8\xff\xe0" + bytes(40), "not_a_pdf", "not a PDF: it looks like a JPEG picture"),
    (bytes(700), "not_a_pdf", "not a PDF: it looks like nothing but zero bytes"),
    (b"PK\x03\x04" + bytes(40), "not_a_pdf", "not a PDF: it looks like a zip archive"),
    (b"", "empty_file", "the file is empty"),
    (b"%PDF-1.7\n", "truncated", "the end of the PDF is missing"),
    (b"%PDF-1.7\n" + bytes(9000), "truncated", "the end of the PDF is missing"),
    (b"%PDF-1.7\nstartxref\n0\n%%EOF\n", "corrupt", "the PDF is damaged"),
]


@pytest.mark.parametrize(("content", "code", "message"), FOREIGN)
def test_a_foreign_file_under_a_pdf_name_is_named_for_what_it_is(content, code, message, run_step, tmp_path):
    (tmp_path / "x.pdf").write_bytes(content)
    refusal = refused(run_step, tmp_path / "x.pdf")

    assert refusal.code == code
    assert str(refusal).startswith(message)


def test_a_pdf_behind_some_garbage_is_read(run_step, write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "book.pdf", book(1))
    source.write_bytes(b"From: ana@example.org\n\n" + source.read_bytes())
    output = run_step("pdf_split", source, pages="pdfs")

    assert [text_of(one.path) for one in output.files] == ["page 1"]


def test_a_pdf_that_opens_without_its_password_is_split(corpus, run_step, tmp_path):
    """Its owner has locked printing or copying, not reading."""
    with pikepdf.open(corpus / "pdf" / "crazyones.pdf") as pdf:
        pdf.save(tmp_path / "owned.pdf", encryption=pikepdf.Encryption(owner="secret", user="", R=6))
        pdf.save(tmp_path / "locked.pdf", encryption=pikepdf.Encryption(owner="secret", user="key", R=4))
    (made,) = run_step("pdf_split", tmp_path / "owned.pdf", pages="pdfs").files

    assert text_of(made.path) == text_of(corpus / "pdf" / "crazyones.pdf")
    with pikepdf.open(made.path) as single:
        assert not single.is_encrypted
    assert refused(run_step, tmp_path / "locked.pdf").code == "encrypted"


def test_a_lock_of_an_unknown_kind_is_a_lock(run_step, write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "book.pdf", book(1))
    lock = b"/Encrypt<</Filter/Adobe.PubSec/V 4/R 4/Length 128>>/ID[<31><32>]/Size"
    source.write_bytes(source.read_bytes().replace(b"/Size", lock))

    assert refused(run_step, source).code == "encrypted"


@pytest.mark.parametrize("count", ["0", "-1", "/None", "(3)", "null"])
def test_a_pdf_without_pages_is_refused_whatever_it_claims(count, run_step, write_pdf, tmp_path):
    objects = {1: "<</Type/Catalog/Pages 2 0 R>>", 2: f"<</Type/Pages/Count {count}/Kids[]>>"}

    assert refused(run_step, write_pdf(tmp_path / "none.pdf", objects)).code == "no_pages"


@pytest.fixture
def nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(pdfium.PdfPage, "draw", lambda *_: pytest.fail("a page was drawn"))
    monkeypatch.setattr(qpdf.PdfFile, "write_page", lambda *_: pytest.fail("a page was written"))


@pytest.mark.usefixtures("nothing_is_drawn")
@pytest.mark.parametrize("box", ["0 0 14400 14400", "0 0 1000000 1000000", "-9000 -9000 9000 9000"])
def test_a_huge_page_is_refused_before_any_is_drawn(box, run_step, write_pdf, book, tmp_path):
    objects = book(3)
    objects[14] = objects[14].replace("0 0 200 100", box)
    refusal = refused(run_step, write_pdf(tmp_path / "bomb.pdf", objects))

    assert refusal.code == "too_many_pixels"
    assert "page 3" in str(refusal)
    assert "pdf_max_megapixels" in str(refusal)


@pytest.mark.usefixtures("nothing_is_drawn")
def test_a_page_longer_than_a_jpeg_may_be_is_refused(run_step, write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "strip.pdf", book(1, box="0 0 40 14400"))

    assert refused(run_step, source, dpi=600).code == "too_many_pixels"


def test_a_huge_page_may_be_split_off_as_a_pdf(run_step, write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "plan.pdf", book(1, box="0 0 14400 14400"))
    (made,) = run_step("pdf_split", source, pages="pdfs").files

    assert (made.facts["width"], made.facts["height"]) == (14400, 14400)


@pytest.mark.usefixtures("nothing_is_drawn")
def test_too_many_pages_are_refused_before_any_is_drawn(run_step, write_pdf, book, tmp_path):
    refusal = refused(run_step, write_pdf(tmp_path / "book.pdf", book(4)), max_pages=3)

    assert refusal.code == "too_many_pages"
    assert "4 pages, the limit is 3" in str(refusal)


def test_pages_that_take_too_much_room_are_refused(run_step, write_pdf, book, tmp_path):
    refusal = refused(run_step, write_pdf(tmp_path / "book.pdf", book(50)), max_total_bytes=20_000, dpi=72)

    assert refusal.code == "too_many_bytes"
    assert "of 50 pages take" in str(refusal)


@pytest.mark.parametrize(
    "objects",
    [
        {1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Count 1/Kids[2 0 R]>>"},
        {1: "<</Type/Catalog/Pages 1 0 R/Kids[1 0 R]/Count 3>>"},
        {1: "<</Type/Catalog>>"},
        {1: "<</Type/Catalog/Pages 7 0 R>>"},
        {1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Count 1/Kids[3 0 R]>>", 3: "[1 2]"},
        {1: "(text)"},
    ],
    ids=["circle", "catalog as pages", "no pages", "pages not there", "page no table", "catalog no table"],
)
def test_a_senseless_page_tree_is_refused(objects, run_step, write_pdf, tmp_path):
    assert refused(run_step, write_pdf(tmp_path / "odd.pdf", objects)).code in {"corrupt", "no_pages"}


def test_scripts_actions_and_attachments_stay_behind(run_step, write_pdf, book, tmp_path):
    """And nothing of them happens while the pages are drawn."""
    script = "<</S/JavaScript/JS(app.alert\\(1\\))>>"
    start = "<</S/Launch/F(/bin/true)>>"
    link = "<</S/URI/URI(https://example.org/)>>"
    annotations = "".join(
        f"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A {action}/AA<</E {script}>>>>"
        for action in (script, start, link)
    )
    objects = book(
        1,
        page=f"/AA<</O {script}>>/Annots[{annotations}]",
        catalog=f"/OpenAction {script}/Names<</EmbeddedFiles<</Names[(a)<</F(a)/EF<</F 5 0 R>>>>]>>>>",
    )
    objects[5] = ("/Type/EmbeddedFile", b"MZ evil")
    output = run_step("pdf_split", write_pdf(tmp_path / "hostile.pdf", objects), pages="both", dpi=72)

    single = next(one.path for one in output.files if one.role == "page_pdf")
    with pikepdf.open(single) as pdf:
        pdf.save(tmp_path / "plain.pdf", qdf=True, object_stream_mode=pikepdf.ObjectStreamMode.disable)
    plain = (tmp_path / "plain.pdf").read_bytes()
    assert not [word for word in (b"JavaScript", b"Launch", b"/AA", b"OpenAction", b"evil") if word in plain]
    assert b"https://example.org/" in plain


def test_pages_do_not_take_each_others_pictures_along(run_step, write_pdf, book, tmp_path):
    """All pages share one table of resources, as many a scanner writes it."""
    pages, noise = 20, bytes(range(256)) * 100
    objects = book(pages)
    table = " ".join(f"/I{at} {100 + at} 0 R" for at in range(pages))
    objects[4] = f"<</Font<</F 3 0 R>>/XObject<<{table}>>>>"
    for at in range(pages):
        objects[10 + 2 * at] = objects[10 + 2 * at].replace(
            "/Resources<</Font<</F 3 0 R>>>>", "/Resources 4 0 R"
        )
        objects[11 + 2 * at] = ("", f"q 100 0 0 100 0 0 cm /I{at} Do Q".encode())
        objects[100 + at] = (
            "/Type/XObject/Subtype/Image/Width 160/Height 160/ColorSpace/DeviceGray/BitsPerComponent 8",
            bytes([at]) + noise[1:],
        )
    source = write_pdf(tmp_path / "scans.pdf", objects)
    made = run_step("pdf_split", source, pages="pdfs").files

    for one in made:
        with pikepdf.open(one.path) as single:
            assert len(single.pages[0].get_images()) == 1


def test_links_to_other_pages_do_not_bring_these_along(run_step, write_pdf, book, tmp_path):
    links = "/Annots[<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/Dest[12 0 R/Fit]>>]"
    made = run_step("pdf_split", write_pdf(tmp_path / "b.pdf", book(3, page=links)), pages="pdfs").files

    for one in made:
        with pikepdf.open(one.path) as single:
            assert sum(1 for found in tables(single) if found.get("/Type") == "/Page") == 1


def test_a_page_takes_only_its_own_fields_along(run_step, write_pdf, book, tmp_path):
    objects = book(3, catalog="/AcroForm<</Fields[5 0 R]>>")
    objects[5] = "<</FT/Tx/T(name)/V(Ada)/Kids[60 0 R 62 0 R 64 0 R]>>"
    for at in range(3):
        objects[60 + 2 * at] = (
            f"<</Type/Annot/Subtype/Widget/Rect[0 0 90 20]/Parent 5 0 R/P {10 + 2 * at} 0 R/Mark(w{at})>>"
        )
        objects[10 + 2 * at] = objects[10 + 2 * at].removesuffix(">>") + f"/Annots[{60 + 2 * at} 0 R]>>"
    made = run_step("pdf_split", write_pdf(tmp_path / "form.pdf", objects), pages="pdfs").files

    for at, one in enumerate(made):
        with pikepdf.open(one.path) as single:
            marks = [str(found.Mark) for found in tables(single) if found.get("/Mark") is not None]
            assert marks == [f"w{at}"]
            (field,) = single.Root.AcroForm.Fields
            assert (str(field.V), [str(box.Mark) for box in field.Kids]) == ("Ada", marks)


def test_a_hidden_layer_stays_hidden(run_step, write_pdf, book, difference, tmp_path):
    objects = book(1, catalog="/OCProperties<</OCGs[5 0 R]/D<</OFF[5 0 R]>>>>")
    objects[5] = "<</Type/OCG/Name(secret)>>"
    objects[10] = objects[10].replace("/Resources<<", "/Resources<</Properties<</L 5 0 R>>")
    objects[11] = ("", b"/OC /L BDC 0 0 200 100 re f EMC BT /F 40 Tf 10 30 Td (page 1) Tj ET")
    source = write_pdf(tmp_path / "layers.pdf", objects)
    (single,) = run_step("pdf_split", source, pages="pdfs").files
    (whole,) = run_step("pdf_split", source, pages="images", dpi=72).files
    (alone,) = run_step("pdf_split", single.path, pages="images", dpi=72).files

    assert difference(whole.path, alone.path) == 0
    assert whole.path.stat().st_size > 2000  # not one black page


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_never_raise_anything_but_a_refusal(seed, corpus, run_step, tmp_path):
    import random

    chance = random.Random(seed)
    name = chance.choice(["crazyones.pdf", "rotation.pdf", "c02-22-scan.pdf"])
    content = bytearray((corpus / "pdf" / name).read_bytes())
    for _ in range(chance.randint(1, 60)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    (tmp_path / "odd.pdf").write_bytes(content)

    with suppress(Reject):
        run_step("pdf_split", tmp_path / "odd.pdf", pages="both", dpi=36, max_pixels=10_000_000)


def test_running_out_of_memory_is_not_the_documents_fault(corpus, run_step, monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(vips, "save_jpeg", exhausted)
    with pytest.raises(MemoryError):
        run_step("pdf_split", corpus / "pdf" / "crazyones.pdf", pages="images")


def test_a_full_disk_is_not_the_documents_fault(corpus):
    with qpdf.PdfFile(corpus / "pdf" / "crazyones.pdf") as document:
        with pytest.raises(OSError, match="No space left"):
            document.write_page(1, Path("/dev/full"))
        with pytest.raises(OSError, match=r".*") as missing:
            document.write_page(1, corpus / "absent" / "x.pdf")
    assert missing.value.errno == errno.ENOENT


MEASURED = """
import json, resource, sys
from pathlib import Path
from quire.compute.pool import memory
from quire.model.files import File
from quire.model.step import StepInput
from quire.steps.registry import STEPS

source, folder, megabytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
memory.limit(megabytes)
file = File(key="x", path="x.pdf", name="x.pdf", size=1, content_type="application/pdf")
options = json.loads(sys.argv[4])
output = STEPS["pdf_split"].run(StepInput(file=file, source=source, folder=folder, options=options))
print(json.dumps([len(output.files), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]))
"""


def measured(source, folder, megabytes, **options):
    """Products and peak memory in MB, in a process of its own as a worker is one."""
    folder.mkdir()
    command = [sys.executable, "-c", MEASURED, str(source), str(folder), str(megabytes), json.dumps(options)]
    environment = {**vips.WORKER_ENVIRONMENT, "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.soak
def test_five_thousand_pages_need_little_more_memory_than_fifty(write_pdf, book, tmp_path):
    few = write_pdf(tmp_path / "few.pdf", book(50))
    many = write_pdf(tmp_path / "many.pdf", book(5000))
    little = measured(few, tmp_path / "few", 512, pages="both", dpi=72)
    much = measured(many, tmp_path / "many", 512, pages="both", dpi=72)

    assert (little[0], much[0]) == (100, 10_000)
    assert much[1] < little[1] + 100


@pytest.mark.slow
def test_a_large_page_stays_under_the_limit_of_a_worker(write_pdf, book, tmp_path):
    """Just within the limit of 150 megapixels."""
    source = write_pdf(tmp_path / "plan.pdf", book(2, box="0 0 4400 4400"))
    made, megabytes = measured(source, tmp_path / "out", 2048, pages="images", dpi=200)

    assert made == 2
    assert megabytes < 1500
