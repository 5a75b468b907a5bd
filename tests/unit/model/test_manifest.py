"""What is written into a manifest comes out of it, and what is not one is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model import manifest
from quire.model.errors import Reject
from quire.model.files import File, folder_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
FILES = st.builds(
    File,
    key=TEXT,
    path=st.builds(
        str.__add__,
        st.sampled_from(["", "/"]),
        st.lists(TEXT.map(lambda text: text.replace("/", "-")), min_size=1, max_size=3).map("/".join),
    ),
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


@given(st.lists(FILES, max_size=12), st.integers(1, 5))
def test_in_order_of_folder_and_path_every_directory_is_one_entry(files, portion):
    files = sorted(files, key=lambda file: (folder_of(file.path), file.path))
    groups = [files[at : at + portion] for at in range(0, len(files), portion)]
    data = written("01B", *groups)
    directories = json.loads(data)["directories"]
    assert [one["directory_path"] for one in directories] == sorted({folder_of(file.path) for file in files})
    for one in directories:
        assert list(one) == ["directory_path", "processing_config", "files", "file_count", "total_bytes"]
        own = [file for file in files if folder_of(file.path) == one["directory_path"]]
        assert one["processing_config"] == own[0].processing_config
        for file, entry in zip(own, one["files"], strict=True):
            differs = file.processing_config != own[0].processing_config
            assert entry.get("processing_config") == (file.processing_config if differs else None)
    assert list(manifest.files(manifest.decode(data, "01B"))) == files


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("p.tif", "/"),
        ("/p.tif", "/"),
        ("a/p.tif", "/a"),
        ("/a/p.tif", "/a"),
        ("/fonds/box 7/p.tif", "/fonds/box 7"),
    ],
)
def test_the_directory_is_the_path_up_to_its_last_slash(path, folder):
    (directory,) = json.loads(written("B", [of(path)]))["directories"]
    assert (directory["directory_path"], directory["files"][0]["logical_path"]) == (folder, path)


def test_it_can_be_read_by_people():
    config = {"ocr": True}
    first = of("/a/p.tif", size=7, processing_config=config)
    second = of("/a/q.tif", size=5, processing_config=config, tags=("TiffConverter",), source_file="q.tif")
    third = of("/a/r.tif", size=1)
    assert (
        written("B", [first, second], [third]).decode()
        == """{
  "batch_id": "B",
  "directories": [
    {
      "directory_path": "/a",
      "processing_config": {"ocr": true},
      "files": [
        {"r2_key": "k", "logical_path": "/a/p.tif", "file_name": "p.tif", "file_size": 7, \
"content_type": "x"},
        {"r2_key": "k", "logical_path": "/a/q.tif", "file_name": "q.tif", "file_size": 5, \
"content_type": "x", "source_file": "q.tif", "preprocessor_tags": ["TiffConverter"]},
        {"r2_key": "k", "logical_path": "/a/r.tif", "file_name": "r.tif", "file_size": 1, \
"content_type": "x", "processing_config": {}}
      ],
      "file_count": 3,
      "total_bytes": 13
    }
  ],
  "total_files": 3,
  "total_bytes": 13
}
"""
    )


def of(path, size=1, **changes):
    return File(key="k", path=path, name=path.rpartition("/")[2], size=size, content_type="x", **changes)


def test_nothing_is_held_back_however_large_a_directory_is():
    writer = manifest.ManifestWriter("B")
    for number in range(3):
        assert f"p{number}.tif".encode() in writer.add([of(f"/a/p{number}.tif")])


def test_what_earlier_releases_wrote_is_read():
    """A directory in several entries, its counts before its files, every file with its own configuration."""
    data = b"""{"batch_id": "B",
 "directories": [
  {"directory_path":"/a","processing_config":{},"file_count":1,"total_bytes":7,
   "files": [
    {"r2_key":"k","logical_path":"a/p","file_name":"p","file_size":7,"content_type":"x",
     "processing_config":{"ocr":true}}]},
  {"directory_path":"/a","processing_config":{},"file_count":1,"total_bytes":1,
   "files": [
    {"r2_key":"k","logical_path":"a/q","file_name":"q","file_size":1,"content_type":"x"}]}],
 "total_files": 2, "total_bytes": 8}
"""
    found = list(manifest.files(manifest.check(data, "B")))
    assert found == [of("a/p", 7, processing_config={"ocr": True}), of("a/q", 1)]


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
