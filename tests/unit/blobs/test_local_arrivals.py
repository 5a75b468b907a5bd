"""Bytes are counted while they arrive: by body, by part, and of all parts together."""

import pytest

from quire.blobs.local.arrivals import AT_ONCE, Arrivals, Meter, UploadBytes
from quire.model.errors import Reject, Retry


def test_a_body_ends_with_the_first_byte_too_many():
    meter = Meter(10)
    meter.expect(10)
    meter.count(10)
    for call in (lambda: meter.expect(11), lambda: meter.count(1)):
        with pytest.raises(Reject) as refused:
            call()
        assert refused.value.code == "too_large"


def test_parts_that_arrive_at_once_are_counted_together():
    whole = UploadBytes(10, {1: 4})
    with whole.receiving(2, 10) as second, whole.receiving(3, 10) as third:
        second.count(3)
        third.count(3)
        with pytest.raises(Reject):
            third.expect(4)
        with pytest.raises(Reject):
            second.count(1)
        assert (whole.room(1), whole.room(4)) == (3, 0)


def test_a_part_that_is_sent_again_counts_once_also_while_both_arrive():
    whole = UploadBytes(10, {1: 4, 2: 6})
    with whole.receiving(2, 10) as stalled:
        stalled.count(5)
        with whole.receiving(2, 10) as again:
            again.expect(6)
            again.count(6)
    assert whole.room(3) == 1  # the one that ended last is stored
    with pytest.raises(Reject), whole.receiving(3, 10) as other:
        other.count(2)


def test_what_a_failed_body_would_have_replaced_counts_again():
    whole = UploadBytes(10, {1: 4})
    with pytest.raises(Reject), whole.receiving(1, 10) as meter:
        meter.count(11)
    assert whole.room(2) == 6


def test_requests_of_one_upload_share_its_count_until_the_last_ends():
    arrivals = Arrivals()
    first = arrivals.join_upload("u", 10, {})
    assert arrivals.join_upload("u", 99, {7: 7}) is first
    assert arrivals.join_upload("v", 10, {}) is not first
    del first
    assert arrivals.join_upload("u", 10, {7: 7}).room(1) == 3


def test_a_few_bodies_of_one_url_arrive_at_once_and_no_more():
    arrivals = Arrivals()
    open_bodies = [arrivals.one_more("k", "u", 1) for _ in range(AT_ONCE)]
    for one in open_bodies:
        one.__enter__()
    with pytest.raises(Retry) as refused, arrivals.one_more("k", "u", 1):
        raise AssertionError("it was let in")
    assert (refused.value.code, refused.value.delay_seconds) == ("rate_limited", 1)
    with arrivals.one_more("k", "u", 2), arrivals.one_more("k", "", 0):
        pass
    open_bodies.pop().__exit__(None, None, None)
    with arrivals.one_more("k", "u", 1):
        pass
