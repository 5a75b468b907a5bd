"""A manifest from anywhere is read in little memory, or refused with its fault named before work begins."""

import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quire.engine.manifest import staging_prefix
from quire.model import manifest
from quire.model.errors import Reject
from quire.model.files import File

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def entry(path="/a/p1.tif", **changes):
    return {
        "r2_key": f"staging/B{path}",
        "logical_path": path,
        "file_name": path.rpartition("/")[2],
        "file_size": 7,
        "content_type": "image/tiff",
    } | changes


def directory(*entries, **changes):
    return {
        "directory_path": "/a",
        "processing_config": {},
        "file_count": len(entries),
        "total_bytes": sum(one["file_size"] for one in entries),
        "files": list(entries),
    } | changes


def whole(*directories, **changes):
    return {
        "batch_id": "B",
        "directories": list(directories),
        "total_files": sum(one["file_count"] for one in directories),
        "total_bytes": sum(one["total_bytes"] for one in directories),
    } | changes


def encoded(*entries, **changes):
    return json.dumps(whole(directory(*entries), **changes)).encode()


def check(data, prefix=""):
    return list(manifest.files(manifest.check(data, "B", prefix=prefix)))


def refused(data, prefix=""):
    with pytest.raises(Reject) as raised:
        check(data, prefix)
    assert raised.value.code == "bad_manifest"
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (encoded(entry())[:-1], "truncated"),
        (encoded(entry())[:60], "truncated"),
        (b"", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'"manifest"', "Expected `object`"),
        (encoded(entry()) + b"{}", "trailing characters"),
        (encoded(entry(), total_files=2), "says 2 files but lists 1"),
        (encoded(entry(), total_bytes=8), "says 8 bytes but lists 7"),
        (encoded(entry(), total_files=-1), ">= 0"),
        (encoded(entry(file_size=-1), total_bytes=0), ">= 0"),
        (encoded(entry(file_size=2**63), total_bytes=0), "<= 9223372036854775807|cannot be read"),
        (encoded(entry(), batch_id="C"), "belongs to batch C"),
        (json.dumps(whole(directory(entry(), files={}))).encode(), "no list as files of '/a'"),
        (json.dumps(whole(directory(entry(), files=[7]))).encode(), "bad entry in '/a'.*Expected `object`"),
        (
            json.dumps(whole(directory(entry(), files=[]))).encode(),
            "has 1 files and 7 bytes but lists 0 and 0",
        ),
        (
            json.dumps(whole(directory(entry(), files=[entry(), entry("/b")]))).encode(),
            "has 1 files and 7 bytes but lists 2 and 14",
        ),
        (
            json.dumps(whole(directory(entry(), files=[entry(file_size=9)]))).encode(),
            "has 1 files and 7 bytes but lists 1 and 9",
        ),
        (json.dumps(whole(directory({"file_size": 1}))).encode(), "missing required field `r2_key`"),
        (encoded(entry(logical_path=5)), "Expected `str`, got `int`"),
        (encoded(entry()).replace(b"p1", b"\xff1"), "utf-8"),
        (encoded(entry(content_type="a\0b")), r"U\+0000"),
        (b'{"x":' + b"[" * 100_000, "recursion"),
        (
            encoded(entry(processing_config={"x": "deep"})).replace(b'"deep"', b"[" * 40 + b"]" * 40),
            "32 deep",
        ),
        (
            encoded(entry(processing_config={"x": "deep"})).replace(b'"deep"', b"[" * 9999 + b"]" * 9999),
            "recurs",
        ),
    ],
)
def test_a_fault_is_named(data, words):
    with pytest.raises(Reject, match=f"(?s){words}") as raised:
        check(data)
    assert raised.value.code == "bad_manifest"


@pytest.mark.parametrize(
    "path",
    ["", "/", "//a", "/a//b", "/a/", "..", "/..", "/a/../b", "a/..", ".", "/./a", "a\\b", "a\nb", "a\x7f"],
)
def test_a_path_that_could_leave_its_folder_is_refused(path):
    message = refused(encoded(entry(logical_path=path)))
    assert repr(path) in message
    assert "is not a path" in message


@pytest.mark.parametrize(
    "key", ["", "/cas/aa", "cas/../x", "..", "cas//a", "cas/", "cas\\a", "a/./b", "a\x1b"]
)
def test_a_key_that_could_leave_the_store_is_refused(key):
    assert "key" in refused(encoded(entry(r2_key=key)))


@given(paths=st.lists(st.text("ab/.|\\ \x1f\x85é", max_size=6), min_size=1, max_size=4))
def test_paths_that_are_looked_at_together_are_refused_as_those_looked_at_one_by_one(paths):
    if manifest._are_plain(paths):
        assert all(manifest._RELATIVE.fullmatch(path) for path in paths)
    assert manifest._are_plain(["a/b.tif", "c d/é.tif"])


@pytest.mark.parametrize("at", [0, 1, 1500])
def test_one_bad_path_among_many_is_named(at):
    entries = [entry(f"/a/{number}.tif") for number in range(2000)]
    entries[at] = entry("/a/../x.tif")
    assert "'/a/../x.tif', which is not a path" in refused(encoded(*entries))


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "/a", "a\\b", "a\rb"])
def test_a_name_that_is_a_path_is_refused(name):
    assert "whose name" in refused(encoded(entry(file_name=name)))


@pytest.mark.parametrize(
    "path", ["/a/b.tif", "a/b.tif", "...", "a/..b", "a/b..", "/.hidden/x", 'ä/"<:>|?* .tif']
)
def test_unusual_paths_are_paths(path):
    assert [file.path for file in check(encoded(entry(path, r2_key="cas/aa/aaaa")))] == [path]


@pytest.mark.parametrize("other", ["/a/p1.tif", "a/p1.tif"])
def test_a_path_that_is_listed_twice_is_refused(other):
    again = entry(other, r2_key="cas/bb/bbbb")
    assert "twice" in refused(encoded(entry(), entry("/a/p2.tif"), again))
    assert "twice" in refused(json.dumps(whole(directory(entry()), directory(again))).encode())


def test_equal_keys_and_paths_that_differ_in_case_are_no_fault():
    entries = [entry(f"/a/{name}", r2_key="cas/aa/aaaa") for name in ("p1", "P1", "p2")]
    assert len(check(encoded(*entries))) == 3


def test_different_paths_with_the_same_hash_are_no_fault(monkeypatch):
    monkeypatch.setattr(manifest, "hash", lambda _: -7, raising=False)
    assert len(check(encoded(*(entry(f"/a/{number}") for number in range(5))))) == 5
    assert "'/a/3' twice" in refused(encoded(*(entry(f"/a/{number % 3 + 3}") for number in range(5))))


@pytest.mark.parametrize("prefix", ["staging/B/", "staging/B"])
def test_with_a_prefix_all_keys_are_inside_of_it(prefix):
    assert len(check(encoded(entry()), prefix)) == 1
    for key in ("staging/C/a/p1.tif", "staging/BB/p1.tif", "cas/aa/aaaa", "staging/B"):
        assert f"{key!r} is outside 'staging/B/'" in refused(encoded(entry(r2_key=key)), prefix)


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        ("staging/B/_manifest.json", "staging/B/"),
        ("staging/BB/_manifest.json", ""),
        ("batches/B/manifest.json", ""),
        ("m", ""),
    ],
)
def test_the_prefix_is_that_of_an_uploaded_batch(key, prefix):
    assert staging_prefix(key, "B") == prefix


def test_text_that_only_looks_like_a_nul_is_none():
    assert len(check(encoded(entry(content_type="a\\u0000b")))) == 1
    assert "U+0000" in refused(encoded(entry(content_type="a\\\0b")))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("separators", [(",", ":"), (" \n, ", ": ")])
def test_entries_are_cut_apart_wherever_a_piece_ends(monkeypatch, indent, separators):
    # Nested objects and texts that look like the end of an entry.
    odd = [
        entry(
            f"/a/{number}",
            processing_config={"x": [{}, {"y": {}}, {}], "},{": '"},{"\\'},
            cid="}},{]}" * number,
        )
        for number in range(30)
    ]
    data = json.dumps(whole(directory(*odd)), indent=indent, separators=separators).encode()
    expected = check(data)
    assert [file.path for file in expected] == [one["logical_path"] for one in odd]
    assert [file.cid for file in expected] == [one["cid"] for one in odd]
    for size in (1, 7, 50, 400, 1000, 5000):
        monkeypatch.setattr(manifest, "_PIECE_BYTES", size)
        assert check(data) == expected


def test_a_bad_entry_is_found_wherever_a_piece_ends(monkeypatch):
    entries = [entry(f"/a/{number}") for number in range(20)]
    entries[13] = entry("/a/13", content_type=None)
    for size in (1, 50, 400, 1000, 100_000):
        monkeypatch.setattr(manifest, "_PIECE_BYTES", size)
        assert "Expected `str`, got `null`" in refused(encoded(*entries))


@given(data=st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(b'{"directories":' + b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"9" * 10_000)
@example(b"\xef\xbb\xbf{}")
def test_any_bytes_are_refused_and_nothing_else(data):
    refused(data)


HOSTILE_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "r2_key": st.text(max_size=8) | JSON,
        "logical_path": st.text("/.a\\\0", max_size=5) | JSON,
        "file_name": st.text("/.a", max_size=3) | JSON,
        "file_size": st.integers() | JSON,
        "content_type": st.text(max_size=3) | JSON,
        "processing_config": JSON,
        "preprocessor_tags": JSON,
    },
)


@given(
    entries=st.lists(HOSTILE_ENTRY | JSON, max_size=4) | JSON,
    count=st.integers(-1, 5) | JSON,
    size=st.just(0) | JSON,
    flip=st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=3)),
)
def test_what_looks_like_a_manifest_is_read_or_refused(entries, count, size, flip):
    inner = {"directory_path": "/", "file_count": count, "total_bytes": size, "files": entries}
    data = json.dumps(
        {"batch_id": "B", "directories": [inner], "total_files": count, "total_bytes": size}
    ).encode()
    if flip is not None:
        at, changed = flip
        data = data[:at] + changed + data[at + len(changed) :]
    try:
        found = check(data)
    except Reject:
        assert refused(data)
    else:
        assert len(found) == count
        assert all(isinstance(file, File) and ".." not in file.path.split("/") for file in found)


def peak_beyond_the_bytes(data, act):
    tracemalloc.start()
    try:
        act(data)
        return tracemalloc.get_traced_memory()[1] / len(data)
    finally:
        tracemalloc.stop()


def read_all(data):
    for _ in manifest.files(manifest.check(data, "B")):
        pass


@pytest.mark.parametrize("folders", [1, 10, 20_000])
def test_reading_takes_less_memory_than_the_bytes(folders):
    per_folder = 20_000 // folders
    data = json.dumps(
        whole(
            *(
                directory(
                    *(entry(f"/some/folder-{folder}/page-{number:06}.tif") for number in range(per_folder))
                )
                for folder in range(folders)
            )
        )
    ).encode()
    # The bytes are there once; all that reading adds must stay below them.
    assert peak_beyond_the_bytes(data, read_all) < 1.0


@pytest.mark.parametrize("value", [b"0", b"{}", b"[]", b'""', b"null"])
def test_a_crowd_of_tiny_entries_does_not_fill_the_memory(value):
    crowd = b"[" + b",".join([value] * 500_000) + b"]"
    frame = b'{"batch_id":"B","total_files":1,"total_bytes":0,"directories":'
    inner = b'[{"directory_path":"/","file_count":1,"total_bytes":0,"files":' + crowd + b"}]}"
    for data in (frame + inner, frame + crowd + b"}"):
        # A list of undecoded entries would take ten to thirty times the bytes.
        assert peak_beyond_the_bytes(data, refused) < 1.0
