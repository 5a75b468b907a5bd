"""Searching and looking up, whatever case and accents."""

import contextlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.library.manifest import entries
from quire.library.manifest import search as catalogue
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.search import ManifestView
from quire.model.errors import Missing, Reject

A, B, C = "a1" * 32, "a1" * 10 + "b2" * 22, "c3" * 32
VIEW = ManifestView(
    entries={
        ident: entries.encode_entry(ManifestEntry(paths=paths, tags=tags))
        for ident, paths, tags in (
            (A, ["DnD/Players Handbook.pdf", "backup/PHB.pdf"], ["DnD", "Players Handbook"]),
            (B, ["Cthulhu/Rules.pdf"], ["Cthulhu", "Rules", "Straße"]),
            (C, [unicodedata.normalize("NFD", "Bücher/Öl.pdf")], []),
        )
    }
)


def _found(query, **options):
    return [hit.hash for hit in catalogue.search(VIEW, query, **options)]


def test_names_and_tags_are_searched_whatever_their_case():
    assert _found("HANDBOOK") == [A]
    assert _found("phb") == [A]
    assert _found("STRASSE") == [B]
    assert _found("bücher/öl") == [C]
    assert _found("nowhere") == []


def test_all_are_found_by_their_first_path_and_no_more_than_wanted():
    assert _found(".pdf") == [C, B, A]
    assert _found(".pdf", limit=1) == [C]
    assert _found(".pdf", limit=0) == []


def test_an_empty_search_is_refused():
    with pytest.raises(Reject):
        _found("  ")


def test_a_hash_may_be_shortened_as_long_as_it_is_one():
    assert catalogue.find_by_hash(VIEW, C[:8].upper()).hash == C
    assert catalogue.find_by_hash(VIEW, A).entry.paths[0] == "DnD/Players Handbook.pdf"
    with pytest.raises(Reject) as several:
        catalogue.find_by_hash(VIEW, A[:8])
    assert several.value.code == "ambiguous_hash"
    with pytest.raises(Missing):
        catalogue.find_by_hash(VIEW, "0" * 8)


@pytest.mark.parametrize("text", ["", "a1a1a1a", "g" * 8, "a" * 65, "../../aa", "aaaaaaaa\n/"])
def test_what_is_no_hash_is_refused(text):
    with pytest.raises(Reject) as refused:
        catalogue.find_by_hash(VIEW, text)
    assert refused.value.code == "bad_hash"


def test_a_path_is_found_whole_and_else_by_its_end():
    assert [hit.hash for hit in catalogue.find_by_path(VIEW, "cthulhu/rules.PDF")] == [B]
    assert [hit.hash for hit in catalogue.find_by_path(VIEW, "PHB.pdf")] == [A]
    assert catalogue.find_by_path(VIEW, "HB.pdf") == []


def test_what_cannot_be_read_is_not_in_the_way():
    odd = ManifestView(
        entries={**VIEW.entries, "b" * 64: entries.Raw(b"5"), "../x": entries.encode_entry(ManifestEntry())}
    )
    assert len(list(odd.hits())) == 3
    with pytest.raises(Missing, match="repair"):
        catalogue.find_by_hash(odd, "b" * 64)


@given(st.text(max_size=20))
def test_nothing_breaks_the_search(text):
    for function in (catalogue.search, catalogue.find_by_path, catalogue.find_by_hash):
        with contextlib.suppress(Reject):
            function(VIEW, text)
