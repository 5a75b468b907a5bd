"""What is read on pictures of the corpus: the text, its places, and what does not count as text."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops
from tests.situations.texts import error_rate, picture_of, save_picture_of

from quire.model.errors import Misconfigured, Reject
from quire.model.page_text import Box, PageText, Tier
from quire.steps.ocr.pictures import decode_picture
from quire.steps.ocr.reader import PictureReader, ReadingOptions
from quire.tools import bitmaps
from quire.tools.emptiness import is_empty
from quire.tools.pdfium import PageBitmap

CORPUS = Path(__file__).parent / "corpus"
SCAN = CORPUS / "scan"
TESSERACT = ("tesseract",)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tesseract() -> Iterator[PictureReader]:
    with PictureReader(ReadingOptions(tiers=TESSERACT)) as reader:
        yield reader


@pytest.fixture(scope="module")
def chain() -> Iterator[PictureReader]:
    """All engines that are there."""
    with PictureReader(ReadingOptions()) as reader:
        yield reader


@pytest.fixture(scope="module")
def upright(tesseract: PictureReader) -> PageText:
    return tesseract.read_file(SCAN / "phototest.tif")


def _truth(name: str) -> str:
    return (SCAN / f"{name}.txt").read_text("utf-8")


def _bitmap(path: Path):
    return decode_picture(path, page=0, max_pixels=10**8).bitmap


def _places(page: PageText) -> dict[str, Box]:
    """Of words that stand only once on the page."""
    words = [word for one in page.paragraphs for line in one.lines for word in line.words]
    texts = [word.text for word in words]
    return {word.text: word.box for word in words if texts.count(word.text) == 1}


def _furthest(one: PageText, other: PageText) -> int:
    """The largest distance between edges of words that both have."""
    first, second = _places(one), _places(other)
    shared = first.keys() & second.keys()
    assert len(shared) > 10
    return max(
        abs(a - b)
        for word in shared
        for a, b in zip(
            (first[word].left, first[word].top, first[word].right, first[word].bottom),
            (second[word].left, second[word].top, second[word].right, second[word].bottom),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("picture", "truth", "most"),
    [
        ("phototest.tif", "phototest", 0),
        ("eurotext.tif", "eurotext", 0.03),
        ("rendered_r0_300.png", "rendered_r0", 0.01),
        ("rendered_r1_150noisy.jpg", "rendered_r1", 0.01),
    ],
)
def test_tesseract_reads_a_page_within_its_error_rate(tesseract, picture, truth, most):
    found = tesseract.read_file(SCAN / picture)
    assert error_rate(found.text, _truth(truth)) <= most
    assert (found.is_valid, found.reason, found.tier, found.rotation) == (True, "", "tesseract", 0)
    assert found.confidence > 0.8


def test_a_text_in_languages_without_data_is_left_to_an_engine_that_knows_their_letters(chain):
    found = chain.read_file(SCAN / "eurotext.tif")
    assert (found.tier, found.is_valid) == ("paddleocr", True)
    assert error_rate(found.text, _truth("eurotext")) <= 0.005


def test_places_are_told_down_to_the_word(upright):
    assert (upright.width, upright.height) == (640, 480)
    assert upright.paragraphs[0].lines[0].words[0].text == "This"
    assert upright.paragraphs[0].lines[0].words[0].box == Box(36, 92, 96, 116)
    assert [len(one.lines) for one in upright.paragraphs] == [3, 5]
    line = upright.paragraphs[0].lines[0]
    assert (line.baseline, line.slope, line.ascent) == (116, 0, 24)


def test_the_engines_agree_where_the_words_are(upright):
    with PictureReader(ReadingOptions(tiers=("paddleocr",))) as reader:
        other = reader.read_file(SCAN / "phototest.tif")
    assert error_rate(other.text, upright.text) == 0
    assert _furthest(upright, other) <= 13  # its boxes are wider than the letters
    lines = [line for one in upright.paragraphs for line in one.lines]
    others = [line for one in other.paragraphs for line in one.lines]
    for line, same in zip(lines, others, strict=True):
        assert abs(line.baseline - same.baseline) <= 7
        assert abs(line.ascent - same.ascent) <= 5


def test_a_page_that_lies_on_its_side_is_read_upright(tesseract, upright):
    found = tesseract.read_file(CORPUS / "image" / "phototest-rotated-R.png")
    assert (found.text, found.is_valid, found.rotation) == (upright.text, True, 270)
    assert (found.width, found.height) == (640, 480)
    assert _furthest(found, upright) <= 2


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_turned_pages_have_the_places_of_the_upright_one(tesseract, upright, turned):
    found = tesseract.read_bitmap(bitmaps.turn(_bitmap(SCAN / "phototest.tif"), turned), 0)
    assert (found.text, found.is_valid, found.rotation) == (upright.text, True, 360 - turned)
    assert _furthest(found, upright) <= 2


def test_a_page_on_its_head_is_read_without_the_data_for_orientations_too(tmp_path, upright):
    from quire.tools import tesseract

    (tmp_path / "eng.traineddata").symlink_to(Path(tesseract._data("eng", "")) / "eng.traineddata")
    with PictureReader(ReadingOptions(tiers=TESSERACT, tessdata=str(tmp_path))) as reader:
        found = reader.read_bitmap(bitmaps.turn(_bitmap(SCAN / "phototest.tif"), 180), 0)
    assert (found.text, found.rotation) == (upright.text, 180)


@pytest.mark.parametrize("degrees", [-8, 6])
def test_a_tilted_page_is_read_whole_with_places_on_the_tilted_page(tesseract, upright, degrees):
    tilted = bitmaps.straighten(_bitmap(SCAN / "phototest.tif"), degrees)
    found = tesseract.read_bitmap(tilted, 0)
    assert error_rate(found.text, _truth("phototest")) <= 0.02
    assert (found.width, found.height, found.is_valid) == (tilted.width, tilted.height, True)
    straight = bitmaps.straighten(tilted, -degrees)
    pixels = Image.frombytes("L", (tilted.width, tilted.height), bytes(tilted.data))
    assert straight.width > tilted.width
    for box in _places(found).values():
        inside = pixels.crop((box.left, box.top, box.right, box.bottom))
        assert inside.getextrema()[0] < 100, "there is ink in the place of the word"
    slopes = [line.slope for one in found.paragraphs for line in one.lines]
    assert all((slope > 0.05) == (degrees > 0) for slope in slopes)


@pytest.mark.parametrize("shrunk", [1, 2, 3])
def test_no_page_of_the_corpus_counts_as_blank_however_faint(shrunk):
    pages = [*SCAN.glob("*.[tpj]*g"), *SCAN.glob("*.tif"), CORPUS / "tiff" / "pport_g4.tif"]
    assert len(pages) >= 8
    for path in pages:
        page = bitmaps.shrink(_bitmap(path), shrunk)
        grey = Image.frombytes("L" if page.bands == 1 else "RGB", page[1:3], page.data).convert("L")
        faint = grey.point(lambda level: 225 + round((level - 255) * 16 / 255))
        noise = Image.effect_noise(grey.size, 3).point(lambda level: level - 108)
        noisy = ImageChops.subtract(faint, noise)
        for one in (grey, faint, noisy):
            assert not is_empty(PageBitmap(memoryview(one.tobytes()), *one.size, 1)), (path.name, shrunk)


def test_no_engine_is_asked_about_a_blank_page_with_the_noise_of_a_scanner(tmp_path):
    def never(*_):
        raise AssertionError("an engine was opened")

    noise = np.random.default_rng(5).normal(230, 4, (1200, 900)).round()
    Image.fromarray(noise.astype("uint8")).save(tmp_path / "blank.png")
    with PictureReader(ReadingOptions(tiers=TESSERACT), openers={Tier.TESSERACT: never}) as reader:
        found = reader.read_file(tmp_path / "blank.png")
    assert (found.text, found.is_valid, found.reason) == ("", False, "nothing is on the picture")
    assert (found.width, found.height) == (900, 1200)


@pytest.mark.parametrize(
    "picture", ["tiff/hopper_lzw.tif", "tiff/rgb-3c-16b.tiff", "tiff/quad-tile.jpg.tiff"]
)
def test_a_photo_without_text_has_no_valid_text(chain, picture):
    found = chain.read_file(CORPUS / picture)
    assert not found.is_valid
    assert found.reason


@pytest.mark.parametrize("script", ["hebrew", "russian", "greek"])
def test_scripts_that_no_engine_knows_are_doubtful(chain, script):
    found = chain.read_file(SCAN / f"{script}.png")
    assert not found.is_valid
    assert "the engine is not sure of it" in found.reason or "of a language" in found.reason


@pytest.mark.parametrize(
    "text",
    [
        "THE TIME MACHINE\nH. G. WELLS",
        "Pancakes\n2 eggs\n1 cup flour\nFry.",
        "Menu",
        "1,204.50   88.20   17\n  310.00   12.75    4\n4,000.10  100.95   21",
    ],
    ids=["title", "card", "word", "numbers"],
)
def test_short_texts_and_numbers_are_valid(tesseract, tmp_path, text):
    found = tesseract.read_file(save_picture_of(text, tmp_path / "page.png"))
    assert (found.is_valid, found.reason) == (True, "")
    assert error_rate(found.text, text) == 0


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "gif", "bmp", "tif"])
def test_pictures_of_every_kind_are_read(tesseract, tmp_path, kind):
    found = tesseract.read_file(save_picture_of("The kettle sings", tmp_path / f"page.{kind}"))
    assert (found.text, found.is_valid) == ("The kettle sings", True)


def test_a_picture_is_read_as_its_own_tag_turns_it(tesseract, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned clockwise
    stored = picture_of("The kettle sings\nall day long").transpose(Image.Transpose.ROTATE_90)
    stored.save(tmp_path / "page.jpg", exif=exif)
    found = tesseract.read_file(tmp_path / "page.jpg")
    assert (found.text, found.rotation) == ("The kettle sings\nall day long", 0)
    assert (found.width, found.height) == (stored.height, stored.width)


def test_one_page_of_many_is_read(tesseract, tmp_path):
    pages = [picture_of(f"This is sheet {word}") for word in ("one", "two")]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:], dpi=(200, 200))
    found = tesseract.read_file(tmp_path / "pages.tif", page=1)
    assert (found.text, found.dpi) == ("This is sheet two", 200)
    with pytest.raises(Reject) as refusal:
        tesseract.read_file(tmp_path / "pages.tif", page=2)
    assert refusal.value.code == "no_such_page"


@pytest.mark.parametrize(
    ("picture", "code"),
    [
        ("pdf/crazyones.pdf", "unsupported_media"),
        ("image/bomb_50000x50000.png", "too_many_pixels"),
        ("image/decompression_bomb.gif", "too_many_pixels"),
        ("tiff/bomb_g4_60000x60000.tif", "too_many_pixels"),
        ("image/truncated.jpg", "truncated"),
        ("tiff/libtiff_segfault.tif", None),
    ],
)
def test_hostile_pictures_are_refused(tesseract, picture, code):
    with pytest.raises(Reject) as refusal:
        tesseract.read_file(CORPUS / picture)
    assert code in {None, refusal.value.code}


@pytest.mark.parametrize(
    "data",
    [b"", b"just words, and no picture at all", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)],
    ids=["empty", "text", "heic"],
)
def test_what_is_no_picture_is_unsupported_media(tesseract, tmp_path, data):
    (tmp_path / "page.jpg").write_bytes(data)
    with pytest.raises(Reject) as refusal:
        tesseract.read_file(tmp_path / "page.jpg")
    assert refusal.value.code == "unsupported_media"


def test_a_language_without_data_is_read_with_english_ones_when_its_letters_are_latin(tesseract, tmp_path):
    path = save_picture_of("der Hund und die Katze sind im Haus", tmp_path / "page.png")
    found = tesseract.read_file(path, language="de")
    assert (found.text, found.language, found.is_valid) == ("der Hund und die Katze sind im Haus", "de", True)


def test_a_script_without_data_is_not_read_by_an_engine_of_another(tesseract):
    with pytest.raises(Misconfigured, match="Tesseract has no data for heb"):
        tesseract.read_file(SCAN / "hebrew.png", language="he")


def test_a_name_of_a_language_leads_to_no_file(tesseract):
    with pytest.raises(Reject) as refusal:
        tesseract.read_file(SCAN / "phototest.tif", language="../../eng")
    assert refusal.value.code == "bad_request"


def test_without_language_data_the_message_says_what_to_install(tmp_path):
    options = ReadingOptions(tiers=TESSERACT, tessdata=str(tmp_path))
    with PictureReader(options) as reader, pytest.raises(Misconfigured, match=r"pip install .*tessdata\.eng"):
        reader.read_file(SCAN / "phototest.tif")
