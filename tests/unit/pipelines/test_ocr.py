"""The pipeline `ocr` as a plan, and its steps called alone."""

from pathlib import Path

import pytest
from tests.situations.scans import make_read, write_scan

from quire import Reject
from quire.model.files import File
from quire.model.plan import digest_of
from quire.pipelines import ocr
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.parts import list_pages
from quire.steps.ocr.read_pages import LookedAt, pack
from quire.testing import run_step
from quire.tools.chat_model import ModelAddress

LIMITS = {"max_pixels": 10**8}


def file(*tags: str, name: str = "a.tif", content_type: str = "image/tiff") -> File:
    return File(key="k", path=name, name=name, size=1, content_type=content_type, tags=tags)


def test_a_document_has_as_many_tasks_as_it_has_parts():
    _, read, write = ocr.build_ocr().plan().phases
    tagged = file("ocr:part-01", "ocr:part-02", "ocr:pdf")
    assert [step.branch for step in read.steps if step.accepts.matches(tagged)] == ["01", "02"]
    assert [step.name for step in write.steps if step.accepts.matches(tagged)] == [
        "write_text",
        "write_pdf",
        "check_pages",
    ]
    without_pdf = file("ocr:part-01")
    assert [step.name for step in write.steps if step.accepts.matches(without_pdf)] == [
        "write_text",
        "check_pages",
    ]


def test_every_page_is_in_one_part():
    for pages in (1, 2, 63, 64, 65, 600):
        parts = min(pages, len(ocr.PARTS))
        dealt = [list(list_pages(part, parts, pages)) for part in range(parts)]
        assert sorted(number for part in dealt for number in part) == list(range(1, pages + 1))
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_settings_change_neither_what_a_batch_is_nor_tell_keys():
    secret = ReadingOptions(cloud_model=ModelAddress(url="https://models.example", model="m", key="s3cret"))
    plain, other = ocr.build_ocr().plan(), ocr.build_ocr(reading=secret, pdfa=True, outputs=("txt",)).plan()
    assert digest_of(plain) == digest_of(other)
    assert "s3cret" not in repr(other)


def test_pictures_and_pdfs_are_taken_and_drawings_are_not():
    (step,) = ocr.build_ocr().plan().phases[0].steps
    for name, kind, taken in (
        ("a.tif", "image/tiff", True),
        ("a.pdf", "application/octet-stream", True),
        ("a.heic", "application/octet-stream", True),
        ("a.svg", "image/svg+xml", False),
        ("a.txt", "text/plain", False),
    ):
        assert step.accepts.matches(file(name=name, content_type=kind)) is taken, name


def test_looking_says_how_many_pages_there_are_and_deals_them_out(tmp_path: Path):
    source = write_scan(tmp_path / "a.tif")
    _, found = run_step(ocr.look, source, {"outputs": ("pdf",), "max_pages": 9, **LIMITS})
    assert found == LookedAt(kind="picture", pages=1)


def test_a_document_with_damaged_pages_fails_after_the_others_were_written():
    damaged = make_read(2, [], "doubtful", reason="cut off")
    damaged = type(damaged)(number=2, kind="doubtful", page=damaged.page, reason="cut off", damaged=True)
    parts = {"01": pack([make_read(1, [["fine"]])]), "02": pack([damaged])}
    looked = LookedAt(kind="picture", pages=2)
    with pytest.raises(Reject, match="page 2: cut off") as refused:
        ocr.check_pages(looked, parts)
    assert refused.value.code == "damaged_pages"
    ocr.check_pages(looked, {"01": parts["01"]})  # the part that failed has its own reason


def test_only_the_outputs_that_are_asked_for_are_written(tmp_path: Path):
    source = write_scan(tmp_path / "a.tif")
    values = {"look": LookedAt(kind="picture", pages=1), "read": {"01": pack([make_read(1, [["fine"]])])}}
    made, _ = run_step(ocr.write_text, source, {**values, "outputs": ("alto",)})
    assert [one.name for one in made] == ["alto.xml"]
    made, _ = run_step(ocr.write_text, source, {**values, "outputs": ocr.OUTPUTS, "read": None})
    assert made == ()
