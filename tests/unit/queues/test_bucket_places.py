"""Keys of queues in a bucket: whatever text and time come from outside."""

import re

from hypothesis import given
from hypothesis import strategies as st

from quire.blobs import keys
from quire.queues.bucket_store.places import (
    Places,
    hint_of,
    micros,
    number_of,
    rounded,
    segment,
    tombstone_of,
)

TEXT = st.text(st.characters(), max_size=300)
MOMENT = st.floats(0, 4e9)
ORDER = "0" * 26 + "0000001"


@given(TEXT, TEXT)
def test_a_segment_is_safe_and_tells_texts_apart(one, other):
    for text in (one, other):
        assert re.fullmatch(r"[A-Za-z0-9_]{0,40}-[0-9a-f]{40}", segment(text))
    assert (segment(one) == segment(other)) == (one == other)


@given(TEXT, TEXT, MOMENT, MOMENT, st.integers(1, 5), st.booleans(), st.integers(1, 10**9 - 1))
def test_a_hint_is_a_good_key_and_tells_what_went_in(queue, name, due_at, sent_at, tier, leased, rev):
    key = Places(queue).hint(
        tier=tier, due_at=due_at, order=ORDER, leased=leased, rev=rev, sent_at=sent_at, name=segment(name)
    )
    assert keys.check(key) == key
    hint = hint_of(key)
    assert (hint.tier, hint.order, hint.leased, hint.name) == (tier, ORDER, leased, segment(name))
    assert (hint.due_at, hint.sent_at) == (rounded(due_at), rounded(sent_at))


@given(MOMENT, MOMENT)
def test_hints_sort_by_time_and_are_never_later_than_what_they_tell(one, other):
    assert 0 <= one - rounded(one) < 2e-6
    assert rounded(rounded(one)) == rounded(one)
    if one < other:
        assert f"{micros(one):017d}" <= f"{micros(other):017d}"


@given(st.integers(-(10**12), 10**12))
def test_times_in_whole_microseconds_stay_what_they_are(number):
    moment = number / 1e6
    assert rounded(moment) == max(0.0, moment)


@given(TEXT)
def test_what_is_not_ours_is_no_hint(text):
    for reader in (hint_of, tombstone_of, number_of):
        assert reader(f"queues/in/q/due/3/{text}") is None or re.fullmatch(r"\d{17}.*", text)


def test_times_that_are_none_stay_within_a_key():
    assert len(str(micros(float("inf")))) == 17
    assert micros(-5) == 0
