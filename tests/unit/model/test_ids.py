"""Derived ids are stable, safe in URLs, and different for different things."""

import re

from hypothesis import given
from hypothesis import strategies as st

from quire.model.ids import named_ulid, task_id


@given(st.text())
def test_a_name_has_one_ulid(name):
    assert named_ulid(name) == named_ulid(name)
    assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", named_ulid(name))


@given(st.text(max_size=30), st.text(max_size=30))
def test_task_ids_can_stand_in_urls_and_machine_names(batch, key):
    assert re.fullmatch(r"img_[0-9a-f]{20}", task_id("img", batch, key))


def test_task_ids_do_not_mix_batch_and_key():
    assert task_id("t", "ab", "c") != task_id("t", "a", "bc")
