"""The step of the OCR service: the text of a picture as a value; its sandbox; what it keeps open."""

import msgspec
import pytest
from tests.documents.drawn_words import draw_words

from quire.model.errors import Reject
from quire.model.files import File
from quire.model.page_text import PageText
from quire.model.step import StepInput
from quire.steps.ocr import service_steps
from quire.steps.ocr.options import ReadingOptions

READING = msgspec.to_builtins(ReadingOptions(tiers=("tesseract",), max_pixels=10_000_000))
BOMB = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xc3\x50\x00\x00\xc3\x50\x08\x00\x00\x00\x00\x00\x00\x00\x00"
)


def run(tmp_path, data, name="picture-1", **options):
    source = tmp_path / name
    source.write_bytes(data)
    file = File(key=name, path=name, name=name, size=len(data), content_type="application/octet-stream")
    given = {service_steps.READING: READING, service_steps.LANGUAGE: "en"} | options
    return service_steps.run(StepInput(file=file, source=source, folder=tmp_path, options=given)).value


def test_the_text_is_a_value_that_names_its_picture(tmp_path):
    value = run(tmp_path, draw_words("Pancakes with flour"))
    page = msgspec.convert(value[service_steps.TEXT], PageText)
    assert (page.text, page.tier, page.is_valid, page.paragraphs) == (
        "Pancakes with flour",
        "tesseract",
        True,
        (),
    )
    assert value[service_steps.PICTURE] == "picture-1"


def test_equal_pictures_give_different_values(tmp_path):
    data = draw_words("two eggs")
    assert run(tmp_path, data, "picture-1") != run(tmp_path, data, "picture-2")


@pytest.mark.parametrize(
    "data", [b"", b"%PDF-1.7\n", b"\x00\x00\x00\x18ftypheic", b"text", BOMB, b"\xff\xd8\xff\xe0"]
)
def test_what_is_no_picture_is_rejected_before_it_is_decoded(tmp_path, data):
    with pytest.raises(Reject):
        run(tmp_path, data, "picture.jpg")


def test_it_runs_in_a_sandbox_unless_a_model_is_asked(tmp_path):
    step = service_steps.STEPS[service_steps.READ_PICTURE]
    assert step.sandbox({service_steps.READING: READING}) == ()
    assert step.sandbox({service_steps.READING: READING | {"tessdata": "/data"}}) == ("/data",)
    model = {"url": "http://127.0.0.1/v1", "model": "m"}
    for name in ("local_model", "cloud_model", "judge_model"):
        assert step.sandbox({service_steps.READING: READING | {name: model}}) is None
