"""Logical paths become names that file systems can hold, and stay different."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.batches.placing import MAX_NAME_BYTES, fit_path
from quire.model.errors import Bug

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=300)


def test_short_names_stay_as_they_are():
    assert fit_path("a b/é#%.tif.ref.json") == "a b/é#%.tif.ref.json"


def test_long_names_keep_their_ending():
    name = fit_path("n" * 250 + ".jpg.ref.json")
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert name.endswith(".jpg.ref.json")


def test_uploaded_paths_lie_in_the_folder_too():
    assert fit_path("/fonds/box/p1.jpg") == "fonds/box/p1.jpg"


@given(NAMES.filter(lambda name: name not in {".", ".."}))
def test_every_name_fits(name):
    assert 0 < len(fit_path(name).encode()) <= MAX_NAME_BYTES


@given(st.lists(NAMES.filter(lambda name: name not in {".", ".."}), unique=True, max_size=20))
def test_different_names_stay_different(names):
    assert len({fit_path(name) for name in names}) == len(names)


@pytest.mark.parametrize("path", ["../x", "a/../b", "//x", "/../x", "/", "a//b", ".", ""])
def test_nothing_leaves_the_folder(path):
    with pytest.raises(Bug):
        fit_path(path)
