"""Text and pictures of a document as files: in order, equal pictures once, pieces replaced."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.steps.markdown_writer import MarkdownWriter

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0"


def writer(folder, pages=12, *, links="assets/", max_picture_bytes=10_000):
    return MarkdownWriter(folder, pages, links=links, max_picture_bytes=max_picture_bytes)


def test_pictures_are_called_by_their_page_and_kind(tmp_path):
    with writer(tmp_path, links="a%20b.pdf.") as made:
        assert made.add_picture(3, PNG) == "a%20b.pdf.page-03-0001.png"
        assert made.add_picture(3, JPEG) == "a%20b.pdf.page-03-0002.jpg"
        assert made.add_picture(11, PNG) == "a%20b.pdf.page-03-0001.png"
        assert [(path.name, one.content_type) for path, one in made.pictures()] == [
            ("page-03-0001.png", "image/png"),
            ("page-03-0002.jpg", "image/jpeg"),
        ]
    assert (tmp_path / "page-03-0002.jpg").read_bytes() == JPEG


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"%PDF-1.4"])
def test_what_no_browser_shows_is_not_stored(data, tmp_path):
    with writer(tmp_path) as made:
        assert made.add_picture(1, data) is None
        assert list(made.pictures()) == []


def test_pictures_beyond_the_limit_are_not_stored_and_smaller_ones_still_are(tmp_path):
    with writer(tmp_path, max_picture_bytes=len(PNG) + 1) as made:
        assert made.add_picture(1, PNG + b"xy") is None
        assert made.add_picture(1, PNG) is not None
        assert made.add_picture(1, PNG + b"x") is None
        assert made.add_picture(2, PNG) is not None  # it is there already


def test_a_document_without_text_has_an_empty_line(tmp_path):
    with writer(tmp_path) as made:
        made.add_text("")
        assert made.finish().read_bytes() == b"\n"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(min_size=1, max_size=50), min_size=1, max_size=8),
    changes=st.lists(st.tuples(st.integers(0, 7), st.text(max_size=50)), max_size=5),
)
def test_pieces_are_read_and_replaced_in_their_places(texts, changes, tmp_path):
    expected = [text.encode("utf-8", "replace").decode() for text in texts]
    with writer(tmp_path) as made:
        for at, text in enumerate(texts):
            assert made.add_text(text) == at
        for at, text in changes:
            if at < len(texts):
                made.replace(at, text)
                expected[at] = text.encode("utf-8", "replace").decode()
                assert made.text(at) == expected[at]
        assert made.text(0) == expected[0]
        assert made.finish().read_bytes() == ("".join(expected) or "\n").encode()
