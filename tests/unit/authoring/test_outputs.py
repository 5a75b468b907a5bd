"""What a step gives back: outputs say what they are, and refuse what cannot be laid out."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire import External, Output, Reject, TryLater
from quire.authoring.outputs import LONGEST_NAME_BYTES
from quire.model.errors import Retry


class Notes(msgspec.Struct):
    score: float


def test_json_is_written_in_the_order_given_and_ends_with_a_line():
    output = Output.json("words.json", {"words": 3, "and": Notes(0.5)})
    assert output.data == b'{"words":3,"and":{"score":0.5}}\n'
    assert output.content_type == "application/json"
    assert (output.change, output.tags, output.path) == ("hang", (), None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "text/markdown"),
        ("a.csv", "text/csv"),
        ("a.html", "text/html"),
        ("a.txt", "text/plain"),
        ("README", "text/plain"),
        ("a.strange", "text/plain"),
    ],
)
def test_the_type_of_a_text_follows_from_its_name(name: str, kind: str):
    assert Output.text(name, "é") == Output(name=name, content_type=kind, data=b"\xc3\xa9")


def test_bytes_and_files_have_a_type_too(tmp_path: Path):
    assert Output.bytes("a.png", bytearray(b"x")).content_type == "image/png"
    assert Output.bytes("a.png", b"x").data == b"x"
    assert Output.bytes("a.tar.gz", b"x").content_type == "application/octet-stream"
    file = Output.file(tmp_path / "page.jpg")
    assert (file.name, file.content_type, file.path) == ("page.jpg", "image/jpeg", tmp_path / "page.jpg")
    named = Output.file(str(tmp_path / "x"), "page.pdf", content_type="application/x-own")
    assert (named.name, named.content_type) == ("page.pdf", "application/x-own")


def test_an_output_says_what_it_does_to_the_list():
    output = Output.text("a.txt", "x", change="replace", tags=["one", "two"], preferred="b.txt", role="r")
    assert (output.change, output.tags, output.preferred, output.role) == (
        "replace",
        ("one", "two"),
        "b.txt",
        "r",
    )
    assert Output.text("a.txt", "x", tags="alone").tags == ("alone",)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\\b", "a\0", "a\nb", "\x7f", "\ud800", None, 3]
)
def test_a_name_that_is_no_plain_name_is_refused(name: str):
    with pytest.raises(Reject) as caught:
        Output.text(name, "x")
    assert caught.value.code == "bad_result"


def test_a_long_name_is_refused_by_its_bytes():
    Output.text("é" * (LONGEST_NAME_BYTES // 2), "x")
    with pytest.raises(Reject, match="longer than"):
        Output.text("é" * (LONGEST_NAME_BYTES // 2 + 1), "x")


@given(st.text(max_size=40))
def test_a_name_is_laid_out_as_it_is_or_refused(name: str):
    try:
        output = Output.text(name, "x")
    except Reject:
        return
    assert output.name == name
    assert Path("/folder", name).parent == Path("/folder")
    assert Path("/folder", name).name == name


@pytest.mark.parametrize(
    "options", [{"change": "remove"}, {"tags": [""]}, {"tags": 3}, {"tags": [1]}, {"preferred": "a/b"}]
)
def test_other_mistakes_are_refused_as_well(options: dict):
    with pytest.raises(Reject) as caught:
        Output.text("a.txt", "x", **options)
    assert caught.value.code == "bad_result"


def test_content_that_cannot_be_written_is_refused():
    with pytest.raises(Reject, match="cannot be written as JSON"):
        Output.json("a.json", {"a": object()})
    with pytest.raises(Reject, match="UTF-8"):
        Output.text("a.txt", "\ud800")
    with pytest.raises(Reject, match="UTF-8"):
        Output.text("a.txt", b"bytes")
    with pytest.raises(Reject, match="takes bytes, not str"):
        Output.bytes("a.bin", "text")


def test_try_later_is_a_retry_with_a_delay():
    error = TryLater(30, "the service is busy")
    assert isinstance(error, Retry)
    assert (error.delay_seconds, str(error), error.code) == (30, "the service is busy", "transient")
    assert str(TryLater(1.5)) == "the step asked to be tried again in 1.5 s"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_try_later_takes_a_time_that_comes(seconds: float):
    with pytest.raises(ValueError, match="TryLater"):
        TryLater(seconds)


def test_an_external_task_sends_json_or_bytes_or_nothing():
    request = External({"key": "a"}, queue="jobs", within=60).to_request()
    assert (request.queue, request.body, request.within_seconds) == ("jobs", b'{"key":"a"}', 60)
    assert External(b"raw", queue="jobs").to_request().body == b"raw"
    assert External().to_request().queue == ""


@pytest.mark.parametrize(
    "external",
    [
        External({"a": 1}),
        External(queue="jobs"),
        External(within=0),
        External(within=float("nan")),
        External(within=1e9),
        External({"a": 1}, queue="two words"),
        External({"a": 1}, queue="jobs\0"),
        External({"a": 1}, queue="x" * 201),
        External(object(), queue="jobs"),
    ],
)
def test_an_external_task_that_makes_no_sense_is_refused(external: External):
    with pytest.raises(Reject) as caught:
        external.to_request()
    assert caught.value.code == "bad_result"


def test_an_option_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="no option 'place'; there are: content_type, change"):
        Output.text("a.txt", "x", place="join")
