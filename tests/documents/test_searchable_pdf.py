"""Searchable PDFs of real scans: the picture as it was, the text where it stands, always the same bytes."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2
import pytest
from PIL import Image, ImageChops, ImageStat
from tests.situations.scans import open_scan, write_scan

from quire.model.errors import Reject
from quire.steps.ocr.document_pages import PageSource, look_at, read_pages
from quire.steps.ocr.hocr import write_hocr
from quire.steps.ocr.read_pages import ReadPage
from quire.steps.ocr.reader import PictureReader, ReadingOptions
from quire.steps.ocr.searchable_pdf import PdfOptions, write_searchable_pdf

WORDS = re.compile(r'class="ocrx_word"[^>]* title="bbox (\d+) (\d+) (\d+) (\d+); [^"]*">([^<]+)<')
SENTENCE = "This is a lot of 12 point text to test the"


@pytest.fixture(scope="module")
def reader() -> Iterator[PictureReader]:
    with PictureReader(ReadingOptions(tiers=("tesseract",))) as opened:
        yield opened


def read(source: Path, folder: Path, reader: PictureReader, **options: Any) -> list[ReadPage]:
    known = look_at(source, max_pages=100, max_pixels=100_000_000)
    document = PageSource(source=source, folder=folder, kind=known.kind, **options)
    return list(read_pages(document, range(1, known.pages + 1), reader, lambda _done: None))


def write(source: Path, pages: Sequence[ReadPage], target: Path, **options: Any) -> pypdfium2.PdfDocument:
    known = look_at(source, max_pages=100, max_pixels=100_000_000)
    write_searchable_pdf(source, known.kind, pages, target, PdfOptions(**options), lambda _done: None)
    return pypdfium2.PdfDocument(target)


def text_of(page: pypdfium2.PdfPage) -> str:
    return page.get_textpage().get_text_bounded()


def words_of(text: str) -> list[str]:
    return text.split()


def check_places(pages: Sequence[ReadPage], document: pypdfium2.PdfDocument, *, least: int = 20) -> None:
    """Every word lies where hOCR says, within 2 % of the width of the page."""
    compared = 0
    for read_page, page in zip(pages, document, strict=True):
        hocr = write_hocr([read_page], name="x")
        found = [(match[5], [int(number) for number in match.groups()[:4]]) for match in WORDS.finditer(hocr)]
        shown, text = page.get_size(), page.get_textpage()
        across, down = shown[0] / read_page.page.width, shown[1] / read_page.page.height
        searches: dict[str, Any] = {}
        for word, (left, top, right, bottom) in found:
            if not word.isalnum():
                continue
            search = searches.setdefault(word, text.search(word, match_case=True, match_whole_word=True))
            place = search.get_next()
            assert place is not None, word
            boxes = [upright_box(page, text.get_charbox(at)) for at in range(place[0], sum(place))]
            near = 0.02 * shown[0]
            assert min(box[0] for box in boxes) == pytest.approx(left * across, abs=near), word
            assert max(box[2] for box in boxes) == pytest.approx(right * across, abs=near), word
            assert min(box[1] for box in boxes) == pytest.approx(top * down, abs=near), word
            assert max(box[3] for box in boxes) == pytest.approx(bottom * down, abs=near), word
            compared += 1
    assert compared >= least


def upright_box(page: pypdfium2.PdfPage, box: tuple[float, ...]) -> tuple[float, float, float, float]:
    """Of the page as it is shown: left, top, right, bottom."""
    frame = page.get_cropbox()
    left, bottom, right, top = (one - frame[at % 2] for at, one in enumerate(box))
    wide, high = frame[2] - frame[0], frame[3] - frame[1]
    return {
        0: (left, high - top, right, high - bottom),
        90: (bottom, left, top, right),
        180: (wide - right, bottom, wide - left, top),
        270: (high - top, wide - right, high - bottom, wide - left),
    }[page.get_rotation()]


def document_width(path: Path) -> float:
    with pypdfium2.PdfDocument(path) as document:
        return document[0].get_size()[0]


def shows(page: pypdfium2.PdfPage, expected: Image.Image) -> bool:
    """Whether the page, drawn as large as the picture, is the picture; edges may be smoother."""
    scale = expected.width / page.get_size()[0]
    drawn = page.render(scale=scale).to_pil().convert("RGB").resize(expected.size)
    difference = ImageChops.difference(drawn, expected.convert("RGB"))
    return max(ImageStat.Stat(difference).mean) < 8


def test_a_scan_becomes_a_page_of_its_size_with_its_words(tmp_path: Path, reader: PictureReader):
    source = write_scan(tmp_path / "scan.tif", compression="group4")
    pages = read(source, tmp_path, reader)
    document = write(source, pages, tmp_path / "scan.pdf")
    assert [round(side, 1) for side in document[0].get_size()] == [230.4, 172.8]
    assert SENTENCE in text_of(document[0])
    assert words_of(text_of(document[0])) == words_of(pages[0].page.text)
    check_places(pages, document)
    assert shows(document[0], open_scan())
    with pikepdf.open(tmp_path / "scan.pdf") as stored:
        picture = stored.pages[0].Resources.XObject.Picture
        assert picture.Filter == "/CCITTFaxDecode"
        assert len(picture.read_raw_bytes()) < 6000


def test_a_jpeg_is_stored_as_it_is(tmp_path: Path, reader: PictureReader):
    source = tmp_path / "scan.jpg"
    open_scan().convert("RGB").save(source, quality=90, dpi=(200, 200))
    pages = read(source, tmp_path, reader)
    document = write(source, pages, tmp_path / "scan.pdf")
    with pikepdf.open(tmp_path / "scan.pdf") as stored:
        picture = stored.pages[0].Resources.XObject.Picture
        assert (picture.Filter, picture.read_raw_bytes()) == ("/DCTDecode", source.read_bytes())
    check_places(pages, document)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_that_lies_on_its_side_stands_upright(orientation: int, tmp_path: Path):
    source = tmp_path / "scan.jpg"
    picture = Image.new("RGB", (60, 40), "white")
    picture.paste("red", (0, 0, 30, 10))  # says where the top and the left are
    exif = Image.Exif()
    exif[274] = orientation
    picture.save(source, quality=95, subsampling=0, exif=exif)
    upright = {1: picture, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180}
    upright |= {4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE}
    upright |= {6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90}
    turn = upright[orientation]
    blank = ReadPage(number=1, kind="blank", page=read_size(picture, orientation))
    document = write(source, [blank], tmp_path / "scan.pdf")
    drawn = document[0].render(scale=1).to_pil().convert("RGB")
    expected = picture if orientation == 1 else picture.transpose(turn)
    small = expected.resize(drawn.size)
    for at in ((0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)):
        place = (int(at[0] * drawn.width), int(at[1] * drawn.height))
        assert (drawn.getpixel(place)[1] < 128) == (small.getpixel(place)[1] < 128), at


def read_size(picture: Image.Image, orientation: int) -> Any:
    from quire.model.page_text import PageText

    width, height = picture.size if orientation < 5 else picture.size[::-1]
    return PageText(width=width, height=height)


def test_other_pictures_lose_nothing(tmp_path: Path):
    from quire.model.page_text import PageText

    noise = Image.effect_noise((90, 60), 80).convert("RGB")
    noise.putpixel((3, 3), (255, 0, 9))
    clear = noise.copy()
    clear.putalpha(255)
    deep = Image.new("I;16", (90, 60), 20_000)
    for name, picture, expected in (
        ("colour.png", noise, noise),
        ("alpha.png", clear, noise),
        ("colour.tif", noise, noise),
        ("deep.tif", deep, Image.new("L", (90, 60), 78)),
    ):
        source = tmp_path / name
        picture.save(source)
        blank = ReadPage(number=1, kind="blank", page=PageText(width=90, height=60))
        document = write(source, [blank], tmp_path / "out.pdf")
        with pikepdf.open(tmp_path / "out.pdf") as stored:
            kept = pikepdf.PdfImage(stored.pages[0].Resources.XObject.Picture).as_pil_image()
        difference = ImageChops.difference(kept.convert("RGB"), expected.convert("RGB"))
        assert max(high for _, high in difference.getextrema()) <= 1, name
        document.close()


@pytest.mark.parametrize("archival", [False, True])
def test_the_same_scan_gives_the_same_bytes(archival: bool, tmp_path: Path, reader: PictureReader):
    source = write_scan(tmp_path / "scan.png")
    pages = read(source, tmp_path, reader)
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        write(source, pages, folder / "scan.pdf", archival=archival).close()
        made.append((folder / "scan.pdf").read_bytes())
    assert made[0] == made[1]


def test_pdf_a_says_so_and_brings_its_colours_and_its_font(tmp_path: Path, reader: PictureReader):
    from pikepdf import pdfa

    source = write_scan(tmp_path / "scan.tif")
    document = write(source, read(source, tmp_path, reader), tmp_path / "scan.pdf", archival=True)
    assert SENTENCE in text_of(document[0])
    with pikepdf.open(tmp_path / "scan.pdf") as stored:
        with stored.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("2", "B")
        assert stored.Root.OutputIntents[0].S == "/GTS_PDFA1"
        font = stored.pages[0].Resources.Font.QuireText.DescendantFonts[0]
        assert "/FontFile2" in font.FontDescriptor
    assert pdfa.validate_written(tmp_path / "scan.pdf", "2b").verdict == "pass"


def make_pdf(
    target: Path, *, rotate: int = 0, crop: bool = False, unit: float = 1, texts: Sequence[str] = ("",)
) -> Path:
    """A scan on each page, with typed text on those that have some; turned and cut as asked for."""
    jpeg = io.BytesIO()
    lying = open_scan().convert("L").rotate(rotate, expand=True)
    lying.save(jpeg, "JPEG", quality=90)
    with pikepdf.new() as document:
        for text in texts:
            wide, high = lying.width * 0.36, lying.height * 0.36
            margin = 20 if crop else 0
            document.add_blank_page(page_size=(wide + 2 * margin, high + 2 * margin))
            page = document.pages[-1]
            picture = pikepdf.Stream(document, jpeg.getvalue())
            picture.Type, picture.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
            picture.Width, picture.Height = lying.width, lying.height
            picture.ColorSpace, picture.BitsPerComponent = pikepdf.Name.DeviceGray, 8
            picture.Filter = pikepdf.Name.DCTDecode
            font = pikepdf.Dictionary(
                Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
            )
            page.Resources = pikepdf.Dictionary(
                XObject=pikepdf.Dictionary(Im=picture), Font=pikepdf.Dictionary(F=font)
            )
            typed = f"BT /F 9 Tf 20 20 Td ({text}) Tj ET" if text else ""
            # Leaves its graphics state changed, as many a producer does.
            drawn = f"{wide} 0 0 {high} {margin} {margin} cm /Im Do" if not text else typed
            page.Contents = document.make_stream(drawn.encode())
            page.Rotate = rotate
            if crop:
                page.CropBox = [margin, margin, wide + margin, high + margin]
            if unit != 1:
                page.UserUnit = unit
        document.save(target)
    return target


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", [False, True])
def test_the_layer_follows_the_rotation_and_the_box_of_a_page(
    rotate: int, crop: bool, tmp_path: Path, reader: PictureReader
):
    source = make_pdf(tmp_path / "scan.pdf", rotate=rotate, crop=crop)
    pages = read(source, tmp_path, reader)
    document = write(source, pages, tmp_path / "out.pdf")
    assert SENTENCE in text_of(document[0]).replace("\r\n", " ")
    check_places(pages, document)
    assert document[0].get_rotation() == rotate


def test_pages_that_have_text_are_left_alone(tmp_path: Path, reader: PictureReader):
    typed = "A page with enough typed words to be a page of text"
    source = make_pdf(tmp_path / "mixed.pdf", texts=["", typed], unit=2)
    pages = read(source, tmp_path, reader)
    assert [page.kind for page in pages] == ["read", "text"]
    assert pages[1].page.text == typed
    (line,) = pages[1].page.paragraphs[0].lines
    assert [word.text for word in line.words] == typed.split()
    first = line.words[0].box  # 20 points from the left and the bottom, 9 points high
    scale = pages[1].page.width / document_width(source)
    assert first.left == pytest.approx(20 * scale, abs=3)
    assert pages[1].page.height - first.bottom == pytest.approx(20 * scale, abs=3 * scale)
    document = write(source, pages, tmp_path / "out.pdf")
    assert SENTENCE in text_of(document[0]).replace("\r\n", " ")
    assert text_of(document[1]).strip() == typed
    with pikepdf.open(source) as before, pikepdf.open(tmp_path / "out.pdf") as after:
        assert after.pages[1].Contents.read_raw_bytes() == before.pages[1].Contents.read_raw_bytes()
        assert list(after.pages[1].Resources.Font.keys()) == ["/F"]
        pictures = [one.pages[0].Resources.XObject.Im.read_raw_bytes() for one in (before, after)]
        assert pictures[0] == pictures[1]
        assert after.pages[0].UserUnit == 2


def test_a_pdf_with_text_on_all_pages_is_copied(corpus: Path, tmp_path: Path, reader: PictureReader):
    source = corpus / "pdf" / "header-test-doc.pdf"
    write(source, read(source, tmp_path, reader), tmp_path / "out.pdf").close()
    assert (tmp_path / "out.pdf").read_bytes() == source.read_bytes()


def test_a_signed_pdf_is_copied_and_its_form_kept(tmp_path: Path, reader: PictureReader):
    plain = make_pdf(tmp_path / "plain.pdf")
    pages = read(plain, tmp_path, reader)
    for signed in (True, False):
        source = tmp_path / f"form-{signed}.pdf"
        with pikepdf.open(plain) as document:
            field = document.make_indirect(
                pikepdf.Dictionary(FT=pikepdf.Name.Sig if signed else pikepdf.Name.Tx, T=pikepdf.String("a"))
            )
            field.V = pikepdf.Dictionary(Type=pikepdf.Name.Sig) if signed else pikepdf.String("filled in")
            document.Root.AcroForm = pikepdf.Dictionary(Fields=[field], SigFlags=3 if signed else 0)
            document.save(source)
        write(source, pages, tmp_path / "out.pdf").close()
        assert ((tmp_path / "out.pdf").read_bytes() == source.read_bytes()) is signed
        with pikepdf.open(tmp_path / "out.pdf") as after:
            assert after.Root.AcroForm.Fields[0].T == "a"


def test_a_layer_on_top_of_an_earlier_one_keeps_both_fonts(tmp_path: Path, reader: PictureReader):
    source = make_pdf(tmp_path / "scan.pdf")
    pages = read(source, tmp_path, reader)
    write(source, pages, tmp_path / "once.pdf").close()
    document = write(tmp_path / "once.pdf", pages, tmp_path / "twice.pdf")
    assert text_of(document[0]).replace("\r\n", " ").count(SENTENCE) == 2


def test_doubtful_text_is_not_in_the_pdf_but_its_picture_is(tmp_path: Path, reader: PictureReader):
    source = write_scan(tmp_path / "scan.png")
    (page,) = read(source, tmp_path, reader)
    doubtful = ReadPage(number=1, kind="doubtful", page=page.page, reason="low confidence")
    document = write(source, [doubtful], tmp_path / "scan.pdf")
    assert text_of(document[0]) == ""
    assert shows(document[0], open_scan())


def test_a_page_that_cannot_be_decoded_does_not_stop_the_others(tmp_path: Path, reader: PictureReader):
    source = tmp_path / "book.tif"
    open_scan().save(
        source, save_all=True, append_images=[open_scan()], compression="tiff_lzw", dpi=(200, 200)
    )
    data = bytearray(source.read_bytes())
    from quire.tools import tiff

    second = tiff.pages(source)[1]
    at = second.parts.offsets[0]
    data[at + 2 : at + 40] = bytes(38)
    source.write_bytes(data)
    tiff.known_pages.__globals__["_remembered"].cache_clear()
    pages = read(source, tmp_path, reader)
    assert [(page.kind, page.damaged) for page in pages] == [("read", False), ("doubtful", True)]
    document = write(source, pages, tmp_path / "out.pdf")
    assert len(document) == 2
    assert SENTENCE in text_of(document[0])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("pdf/zero-pages.pdf", "no_pages"),
        ("pdf/crazyones-encrypted-256.pdf", "encrypted"),
        ("pdf/bug1980958.pdf", "truncated"),
        ("tiff/bomb_g4_60000x60000.tif", "too_many_pixels"),
        ("image/bomb_50000x50000.png", "too_many_pixels"),
    ],
)
def test_what_can_never_be_read_is_refused_before_anything_is_decoded(name: str, code: str, corpus: Path):
    with pytest.raises(Reject) as refused:
        look_at(corpus / name, max_pages=100, max_pixels=100_000_000)
    assert refused.value.code == code


def test_a_document_is_what_its_bytes_are(corpus: Path, tmp_path: Path):
    disguised = tmp_path / "scan.tif"
    disguised.write_bytes((corpus / "pdf" / "rotation.pdf").read_bytes())
    assert look_at(disguised, max_pages=9, max_pixels=10**8).kind == "pdf"
    heic = tmp_path / "photo.jpg"
    heic.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    with pytest.raises(Reject) as refused:
        look_at(heic, max_pages=9, max_pixels=10**8)
    assert refused.value.code == "unsupported_format"
    with pytest.raises(Reject) as refused:
        look_at(corpus / "tiff" / "g4-multi.tiff", max_pages=2, max_pixels=10**8)
    assert refused.value.code == "too_many_pages"


def test_a_picture_of_nothing_is_blank_without_asking_an_engine(tmp_path: Path):
    source = tmp_path / "white.png"
    Image.new("L", (200, 100), 254).save(source)
    with PictureReader(ReadingOptions(tiers=("easyocr",))) as nobody:
        (page,) = read(source, tmp_path, nobody)
    assert (page.kind, page.page.width, page.page.height) == ("blank", 200, 100)


def test_a_page_that_lies_on_its_side_stands_upright(corpus: Path, tmp_path: Path, reader: PictureReader):
    source = corpus / "image" / "phototest-rotated-R.png"
    pages = read(source, tmp_path, reader)
    document = write(source, pages, tmp_path / "out.pdf")
    assert SENTENCE in text_of(document[0])
    assert document[0].get_size()[0] > document[0].get_size()[1]
    check_places(pages, document)


def test_a_pdf_whose_scan_lies_on_its_side_keeps_its_page_and_gets_a_turned_layer(
    tmp_path: Path, reader: PictureReader
):
    source = make_pdf(tmp_path / "scan.pdf", rotate=90)
    with pikepdf.open(source, allow_overwriting_input=True) as document:
        document.pages[0].Rotate = 0
        document.save(source)
    pages = read(source, tmp_path, reader)
    assert pages[0].page.rotation in {90, 270}
    document = write(source, pages, tmp_path / "out.pdf")
    assert SENTENCE in text_of(document[0]).replace("\r\n", " ")
    text = document[0].get_textpage()
    start, count = text.search("point", match_case=True).get_next()
    first, last = text.get_charbox(start), text.get_charbox(start + count - 1)
    assert abs(first[0] - last[0]) < 3 < abs(first[1] - last[1])  # it runs up or down the page
