"""What is written into a manifest comes out of it, and what is not one is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model import manifest
from quire.model.errors import Reject
from quire.model.files import File

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
FILES = st.builds(
    File,
    key=TEXT,
    path=st.lists(TEXT.map(lambda text: text.replace("/", "-")), min_size=1, max_size=3).map("/".join),
    name=TEXT,
    size=st.integers(0, 2**50),
    content_type=TEXT,
    digest=st.text("0123456789abcdef", max_size=64),
    cid=st.none() | TEXT,
    source_file=st.none() | TEXT,
    tags=st.lists(TEXT, max_size=2).map(tuple),
    processing_config=st.dictionaries(TEXT, st.booleans(), max_size=2),
)


def written(batch_id, *groups):
    writer = manifest.ManifestWriter(batch_id)
    return b"".join([writer.begin(), *(writer.add(group) for group in groups), writer.end()])


@given(groups=st.lists(st.lists(FILES, max_size=5), max_size=4))
def test_files_come_back_in_order_whatever_the_pieces(groups):
    data = written("01B", *groups)
    expected = [file for group in groups for file in group]
    assert list(manifest.files(manifest.decode(data, "01B"))) == expected
    plain = json.loads(data)
    assert plain["total_files"] == len(expected)
    assert plain["total_bytes"] == sum(file.size for file in expected)
    assert all(
        entry["file_count"] == len(entry["files"]) and entry["directory_path"].startswith("/")
        for entry in plain["directories"]
    )


def test_a_file_takes_its_directorys_configuration_unless_it_has_its_own():
    entry = {"r2_key": "k", "logical_path": "/a", "file_name": "a", "file_size": 1, "content_type": "x"}
    directory = {
        "directory_path": "/",
        "file_count": 2,
        "total_bytes": 2,
        "processing_config": {"ocr": True},
        "files": [entry, entry | {"processing_config": {"ocr": False}}],
    }
    data = json.dumps(
        {"batch_id": "B", "directories": [directory], "total_files": 2, "total_bytes": 2}
    ).encode()
    first, second = manifest.files(manifest.decode(data, "B"))
    assert (first.processing_config, second.processing_config) == ({"ocr": True}, {"ocr": False})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"batch_id":"B"}', "cannot be read"),
        (b'{"batch_id":"C","directories":[],"total_files":0,"total_bytes":0}', "belongs to batch C"),
        (b'{"batch_id":"B","directories":[],"total_files":7,"total_bytes":0}', "says 7 files but lists 0"),
    ],
)
def test_what_is_not_this_batchs_manifest_is_refused(data, words):
    with pytest.raises(Reject, match=words):
        manifest.decode(data, "B")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_refused(data):
    with pytest.raises(Reject):
        manifest.decode(data, "B")
