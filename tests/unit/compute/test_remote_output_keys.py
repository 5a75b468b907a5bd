"""Keys of work that is done elsewhere: each page of each attempt has its own, and comes back as it went."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs.keys import check
from quire.compute.remote.output_keys import (
    MAX_PAGES,
    is_temporary,
    output_key,
    page_key,
    page_of,
    page_role,
    strip_prefix,
    work_key,
)

BATCH = "01KA0000000000000000000000"
TASK = "tiff_3f0a91c2"
attempts = st.integers(1, 200)
pages = st.integers(2, MAX_PAGES)


@given(pages)
def test_a_page_is_asked_for_by_its_number(page):
    assert page_of(page_role(page)) == page


@given(st.text(max_size=20))
def test_nothing_else_is_a_page(role):
    page = page_of(role)
    assert page is None or role == page_role(page)


@pytest.mark.parametrize("role", ["jpeg", "jpeg-0", "jpeg-1", f"jpeg-{MAX_PAGES + 1}", "jpeg-٣", "jpeg-2\n"])
def test_the_first_page_and_too_late_ones_are_not_asked_for(role):
    assert page_of(role) is None


@given(st.tuples(attempts, pages), st.tuples(attempts, pages))
def test_no_two_pages_have_one_place(one, other):
    first, second = (page_key(BATCH, TASK, *names) for names in (one, other))
    assert (first == second) == (one == other)
    assert check(first) == first
    alias = work_key(BATCH, TASK, other[0], ".tif")
    assert first not in {alias, output_key(alias, "jpeg")}
    assert not is_temporary(first)


@given(
    st.sampled_from(["", "in/", "in/side/", "staging/", f"staging/{BATCH}/"]), st.text("ab/.", max_size=20)
)
def test_a_key_comes_back_as_it_went(prefix, rest):
    key = f"staging/{BATCH}/x{rest}"
    assert strip_prefix(prefix + key, prefix, BATCH) == key


@pytest.mark.parametrize("key", ["staging/01KB/x.jpg", "other/x", "in/other/x", "in/staging/01KB/x", "in/"])
def test_what_is_not_of_the_batch_stays_as_it_is(key):
    assert strip_prefix(key, "in/", BATCH) == key


@pytest.mark.parametrize(
    ("name", "passing"),
    [
        (f"_work/{TASK}-1.tif", True),
        ("_work/img_77be-2.jpg", True),
        (f"_work/{TASK}-1.result.json", True),
        (f"_work/{TASK}-1.jpg", False),  # an output
        ("_work/img_77be-2.jpg.ref.json", False),
        ("_work/img_77be-2.jpg.thumb.jpg", False),
        ("box/tiff_3f0a91c2-1.tif", False),
        ("box/_work/tiff_3f0a91c2-1.tif", False),
    ],
)
def test_only_what_nobody_needs_later_is_passing(name, passing):
    assert is_temporary(f"staging/{BATCH}/{name}") is passing
