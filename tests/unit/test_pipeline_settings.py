"""References to pipelines in the settings: what they may look like, and where relative files start."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.authoring.references import Reference
from quire.model.errors import Misconfigured
from quire.settings import load
from quire.settings.references import parse_choice, read_reference

BASE = Path("/srv/base")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("press.book:book", Reference(module="press.book", object_path="book")),
        ("words.py", Reference(file="/srv/base/words.py")),
        ("old/words.py:words", Reference(file="/srv/base/old/words.py", object_path="words")),
        ("/opt/a b/words.py", Reference(file="/opt/a b/words.py")),
        ("/opt/a:b/words.py:words", Reference(file="/opt/a:b/words.py", object_path="words")),
        ("book@2=old/book.py", Reference(file="/srv/base/old/book.py", expected=("book", 2))),
        ("a=b.py", Reference(file="/srv/base/a=b.py")),
    ],
)
def test_a_reference_is_understood_and_its_file_made_absolute(text, expected):
    found = read_reference(text, BASE)
    assert found == expected
    assert read_reference(found.write(), Path("/elsewhere")) == found


@pytest.mark.parametrize(
    "text",
    ["", "book@2", "book@2=", "module:", ":object", "a b:c", "words.txt:", "words.py\0:x", "x:" + "y" * 5000],
)
def test_other_texts_are_refused_with_what_was_expected(text):
    with pytest.raises(ValueError, match=r"module:object, file\.py"):
        read_reference(text, BASE)


def test_the_home_folder_of_a_person_is_meant_by_a_tilde(monkeypatch):
    monkeypatch.setenv("HOME", "/srv/me")
    assert read_reference("~/words.py", BASE).file == "/srv/me/words.py"
    with pytest.raises(ValueError, match="~ names a known user"):
        read_reference("~no-such-user-here/words.py", BASE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book", ("book", 0)),
        ("book@2", ("book", 2)),
        ("words.py", None),
        ("a:b", None),
        ("book@", None),
        ("", None),
        ("-x", None),
    ],
)
def test_a_choice_is_a_name_perhaps_with_a_version(text, expected):
    assert parse_choice(text) == expected


@given(st.text())
def test_any_text_is_understood_or_refused(text):
    parse_choice(text)
    try:
        found = read_reference(text, BASE)
    except ValueError:
        return
    assert read_reference(found.write(), BASE) == found


def test_relative_files_start_where_they_were_written(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    file = inner / "quire.toml"
    file.write_text('pipelines = ["words.py", "book@2=old/book.py:book", "words.py"]', "utf-8")
    assert load({}, tmp_path, file).settings.pipelines == (
        f"{inner}/words.py",
        f"book@2={inner}/old/book.py:book",
    )
    environment = {"QUIRE_PIPELINES": "words.py, press.book:book,"}
    loaded = load(environment, tmp_path, file)
    assert loaded.settings.pipelines == (f"{tmp_path}/words.py", "press.book:book")
    assert loaded.sources["pipelines"] == "QUIRE_PIPELINES"
    assert ("pipelines", f"{tmp_path}/words.py, press.book:book", "QUIRE_PIPELINES") in loaded.rows()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'pipelines = ["wor ds"]',
            "entries are module:object, file.py or file.py:object, with NAME@VERSION=",
        ),
        ('pipelines = ["a:b", "wor ds"]', "got 'wor ds' from quire.toml"),
        ("pipelines = [1]", "got 1 from quire.toml"),
        (
            'pipelines = "words.py"',
            "pipelines must be a list of texts, such as [\"words.py\"], got 'words.py'",
        ),
        ("[pipelines]\na = 1", "pipelines must be a list of texts"),
        ('[ingest]\npipeline = ""', "ingest.pipeline must be text that is not empty"),
    ],
)
def test_a_bad_reference_is_named_with_its_source(tmp_path, text, said):
    (tmp_path / "quire.toml").write_text(text, "utf-8")
    with pytest.raises(Misconfigured) as caught:
        load({}, tmp_path)
    assert said in str(caught.value)
