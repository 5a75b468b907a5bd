"""A source is brought whole, or refused with a reason; what is said of it is taken as it comes."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs.port import BlobInfo
from quire.library.protocol import layout
from quire.library.worker import source as source_fetch
from quire.library.worker.source import KnownSource, fetch, read_metadata
from quire.model.errors import Reject
from quire.testing.memory_blobs import MemoryBlobs

BODY = b"%PDF " + b"x" * 3_000_000
JOB = hashlib.sha256(BODY).hexdigest()


def stored(**metadata):
    named = {name.replace("_", "-"): text for name, text in metadata.items()}
    return BlobInfo(key="k", size=1, version="v", modified_at=0.0, metadata=named)


@pytest.mark.parametrize(
    ("labels", "name", "tags"),
    [
        ({}, "", ()),
        (
            {"original_name": "Rules v2.pdf", "tags": '["DnD","R\\u00fcles"]'},
            "Rules v2.pdf",
            ("DnD", "Rüles"),
        ),
        ({"tags": "not json"}, "", ()),
        ({"tags": '{"a": 1}'}, "", ()),
        ({"tags": "[1, 2]"}, "", ()),
        ({"original_name": "n" * 5000}, "n" * 1000, ()),
    ],
)
def test_labels_are_read(labels, name, tags):
    assert read_metadata(stored(**labels)) == (name, tags)


@given(st.text(max_size=200), st.text(max_size=200))
def test_whatever_stands_in_the_labels_is_read(name, tags):
    assert read_metadata(stored(original_name=name, tags=tags))[0] == name


@given(st.lists(st.text(max_size=20), max_size=5))
def test_tags_come_back_as_they_were_written(tags):
    assert read_metadata(stored(tags=json.dumps(tags)))[1] == tuple(tags)


async def test_a_source_is_copied_and_checked(tmp_path):
    blobs = MemoryBlobs()
    await blobs.put(layout.raw(JOB), BODY, metadata={"original-name": "a.pdf", "tags": '["t"]'})
    source = await fetch(blobs, JOB, tmp_path / "s")
    assert (source.name, source.tags, source.size) == ("a.pdf", ("t",), len(BODY))
    assert (tmp_path / "s").read_bytes() == BODY


async def test_what_was_lost_is_recalled_and_what_was_not_is_kept(tmp_path):
    async def recall(job):
        return KnownSource("Games/DnD/PHB.pdf", ("Games", "DnD"))

    async def nothing(job):
        return None

    blobs = MemoryBlobs()
    blobs.store(layout.raw(JOB), BODY)
    source = await fetch(blobs, JOB, tmp_path / "s", recall)
    assert (source.name, source.tags) == ("PHB.pdf", ("Games", "DnD"))
    assert (await fetch(blobs, JOB, tmp_path / "s", nothing)).name == "unknown.pdf"
    await blobs.put(layout.raw(JOB), BODY, metadata={"original-name": "own.pdf"})
    assert (await fetch(blobs, JOB, tmp_path / "s", recall)).name == "own.pdf"


async def test_what_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(source_fetch, "MAX_SOURCE_BYTES", 1000)
    blobs = MemoryBlobs()
    blobs.store(layout.raw(JOB), BODY)
    with pytest.raises(Reject, match="the limit is") as refused:
        await fetch(blobs, JOB, tmp_path / "s")
    assert refused.value.code == "too_large"
    assert not (tmp_path / "s").exists()
