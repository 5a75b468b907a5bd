"""Checks that all presigned uploads share."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs.presigned_rules import attachment, sort_parts
from quire.blobs.presigned_uploads import CompletedPart
from quire.model.errors import Reject


def test_parts_are_sorted_and_their_quotes_taken_off():
    parts = [CompletedPart(3, '"c"'), CompletedPart(1, "a"), CompletedPart(2, ' "b" ')]
    assert sort_parts(parts) == [CompletedPart(1, "a"), CompletedPart(2, "b"), CompletedPart(3, "c")]


@given(st.lists(st.builds(CompletedPart, st.integers(), st.text(max_size=200)), max_size=5))
def test_any_list_of_parts_is_good_or_refused(parts):
    try:
        ordered = sort_parts(parts)
    except Reject as refused:
        assert refused.code == "bad_parts"  # noqa: PT017 - both ends are right
    else:
        assert sorted(part.number for part in parts) == [part.number for part in ordered]
        assert all(part.etag.isascii() and part.etag for part in ordered)


@given(st.text())
def test_a_name_of_a_file_is_one_header_that_says_it(name):
    header = attachment(name)
    plain, said = header.removeprefix('attachment; filename="').split("\"; filename*=UTF-8''")
    assert header.isascii()
    assert header.isprintable()
    assert '"' not in plain
    assert unquote(said) == ("".join(filter(str.isprintable, name))[-255:] or "file")


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.tif", "attachment; filename=\"a.tif\"; filename*=UTF-8''a.tif"),
        ("ü b.tif", "attachment; filename=\"_ b.tif\"; filename*=UTF-8''%C3%BC%20b.tif"),
        ('x"\r\nEvil: 1', "attachment; filename=\"x_Evil: 1\"; filename*=UTF-8''x%22Evil%3A%201"),
    ],
)
def test_names_are_written_for_old_and_new_browsers(name, header):
    assert attachment(name) == header
