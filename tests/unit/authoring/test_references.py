"""How pipelines are named on command lines and in settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.authoring.references import Reference, parse_reference
from quire.model.errors import Misconfigured


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("words", Reference(entry_point="words")),
        ("words.py", Reference(file="words.py")),
        ("./a b/words.py:words", Reference(file="./a b/words.py", object_path="words")),
        ("/srv/a:b/words.py", Reference(file="/srv/a:b/words.py")),
        ("/srv/a=b@1/words.py:x.y", Reference(file="/srv/a=b@1/words.py", object_path="x.y")),
        ("flows.book:book", Reference(module="flows.book", object_path="book")),
        ("flows.book", Reference(module="flows.book")),
        ("book:editions.first", Reference(module="book", object_path="editions.first")),
        ("book@2=old/book.py", Reference(file="old/book.py", expected=("book", 2))),
        ("book@12=flows:book", Reference(module="flows", object_path="book", expected=("book", 12))),
        ("  words.py ", Reference(file="words.py")),
    ],
)
def test_a_reference_is_understood(text: str, reference: Reference):
    assert parse_reference(text) == reference
    assert parse_reference(reference.write()) == reference


@pytest.mark.parametrize(
    "text", ["", " ", ":", "a:", ":b", "a b", "words.txt:", "3words", "a:b:c", "a/b", "book@2", "a\0.py"]
)
def test_what_names_no_pipeline_is_refused_with_the_forms(text: str):
    with pytest.raises(Misconfigured, match=r"write NAME, module:object, file\.py or file\.py:object"):
        parse_reference(text)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
dotted = st.lists(names, min_size=1, max_size=3).map(".".join)
files = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).map(
    # A colon in the last part of the path begins the name of an object.
    lambda text: f"/{text.strip().replace(':', '/')}x.py"
)
expected = st.none() | st.tuples(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True), st.integers(1, 10**8)
)
references = st.one_of(
    st.builds(Reference, file=files, object_path=st.just("") | dotted, expected=expected),
    st.builds(Reference, module=dotted, object_path=dotted, expected=expected),
)


@given(references)
def test_what_is_written_is_read_again(reference: Reference):
    assert parse_reference(reference.write()) == reference


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_misconfigured(text: str):
    try:
        found = parse_reference(text)
    except Misconfigured:
        return
    assert bool(found.entry_point) + bool(found.module) + bool(found.file) == 1
