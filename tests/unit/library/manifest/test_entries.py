"""The index as it is stored: what others wrote stays, merging has no order, what is broken is salvaged."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.library import metadata
from quire.library.manifest import entries
from quire.library.manifest.entries import BrokenManifest, ManifestEntry

A, B = "a" * 64, "b" * 64
texts = st.text(max_size=8)
some = st.builds(
    ManifestEntry,
    paths=st.lists(texts, max_size=3),
    size=st.integers(0, 2**53),
    tags=st.lists(texts, max_size=3),
    ingested_at=st.sampled_from(["", "2026-02-01T08:00:00Z", "2026-02-03T10:30:00Z"]),
    source=texts,
)


def _facts(entry):
    return set(entry.paths), entry.size, set(entry.tags), entry.ingested_at


@given(some, some)
def test_merging_has_no_order(one, two):
    assert _facts(entries.merge(one, two)) == _facts(entries.merge(two, one))


@given(some, some, some)
def test_merging_again_changes_nothing(one, two, three):
    both = entries.merge(entries.merge(one, two), three)
    assert entries.merge(both, one) == both
    assert entries.merge(both, three) == both


@given(some, some)
def test_what_is_stored_merges_like_what_is_known(one, two):
    raw = entries.merge_raw(entries.encode_entry(one), entries.encode_entry(two))
    assert entries.decode_entry(raw) == entries.merge(one, two)


def test_fields_that_are_not_ours_stay():
    old = msgspec.Raw(b'{"paths":["a.pdf"],"size":1,"tags":[],"rating":5}')
    raw = entries.merge_raw(old, entries.encode_entry(ManifestEntry(paths=["b.pdf"], size=2)))
    assert json.loads(bytes(raw))["rating"] == 5
    assert json.loads(bytes(raw))["paths"] == ["a.pdf", "b.pdf"]


def test_the_size_of_a_pointer_gives_way_to_that_of_the_file():
    assert entries.merge(ManifestEntry(size=131), ManifestEntry(size=52_428_800)).size == 52_428_800
    assert entries.merge(ManifestEntry(size=52_428_800), ManifestEntry(size=131)).size == 52_428_800


def test_the_form_is_that_of_the_published_design():
    entry = ManifestEntry(
        paths=["DnD/PHB.pdf"], size=1, tags=["DnD", "PHB"], ingested_at="t", source="library"
    )
    body = entries.encode({A: entries.encode_entry(entry)}, "2026-02-03T10:30:00Z")
    assert json.loads(body) == {
        "version": 1,
        "updated_at": "2026-02-03T10:30:00Z",
        "entries": {
            A: {
                "paths": ["DnD/PHB.pdf"],
                "size": 1,
                "tags": ["DnD", "PHB"],
                "ingested_at": "t",
                "source": "library",
            }
        },
    }


def test_what_stands_beside_the_entries_stays():
    book = entries.decode(b'{"version":1,"note":"keep","entries":{}}')
    assert json.loads(entries.encode(book.entries, "now", book.beside))["note"] == "keep"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"entries":[]}',
        b'{"version":2,"entries":{}}',
        b"\xff",
        b'{"entries":' + b"[" * 100_000,
    ],
)
def test_what_is_no_index_is_told(body):
    with pytest.raises(BrokenManifest):
        entries.decode(body)


def test_entries_of_others_are_read_as_far_as_they_can_be():
    book = entries.decode(json.dumps({"entries": {A: {"paths": ["x"], "size": "17"}, B: 5}}).encode())
    assert entries.decode_entry(book.entries[A]) == ManifestEntry(paths=["x"], size=17)
    assert entries.decode_entry(book.entries[B]) is None


def test_a_field_that_is_none_does_not_take_the_others_with_it():
    raw = msgspec.Raw(b'{"paths":["x"],"size":null,"tags":"DnD","source":5,"ingested_at":"t"}')
    assert entries.decode_entry(raw) == ManifestEntry(paths=["x"], ingested_at="t")
    assert entries.decode_entry(msgspec.Raw(b'{"paths":5}')) is None


@given(st.binary(max_size=300))
def test_nothing_breaks_the_reading(body):
    entries.salvage(body)
    with contextlib.suppress(BrokenManifest):
        entries.decode(body)


def test_entries_are_salvaged_from_what_was_cut_off():
    many = {f"{n:064x}": entries.encode_entry(ManifestEntry(paths=[f"{n}.pdf"], size=n)) for n in range(100)}
    body = entries.encode(many, "now")
    kept = entries.salvage(body[: len(body) // 2])
    assert 40 < len(kept) < 60
    assert all(kept[ident] == many[ident] for ident in kept)


def test_salvaging_ends_though_everything_is_broken():
    assert entries.salvage(f'"{A}":{{'.encode() * 20_000) == {}


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255),
    tags=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=255), max_size=20),
    size=st.integers(0, 2**53),
)
def test_what_is_told_with_a_source_fits_whatever_it_is_called(name, tags, size):
    from quire.blobs.labels import check_labels

    told = metadata.encode_metadata(name, tags, size)
    check_labels(metadata.CONTENT_TYPE, told)
    read = metadata.decode_metadata(told)
    assert read.size == size
    assert name.startswith(read.name)
    assert read.tags == tags[len(tags) - len(read.tags) :]
    if len(json.dumps(tags)) < 200 and len(name) < 100:
        assert (read.name, read.tags) == (name, tags)


@pytest.mark.parametrize("said", ["", "not json", "{}", "[1]", '["a"', "[" * 100_000, "\udc80"])
def test_tags_that_are_none_are_none(said):
    assert metadata.decode_metadata(
        {"tags": said, "size": "²", "original-name": "x"}
    ) == metadata.SourceMetadata(name="x")
