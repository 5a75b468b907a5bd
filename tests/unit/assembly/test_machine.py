"""How much memory there is, by what control groups say."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.assembly.machine import memory_mb, usable_memory_mb

MB = 1 << 20
WHOLE = memory_mb()


@pytest.fixture
def group(tmp_path):
    """Writes what the groups say: `said` of ours, and limits by file."""

    def write(said, **limits):
        (tmp_path / "ours").write_text(said)
        for name, limit in limits.items():
            path = tmp_path / "groups" / name.replace("__", "/").replace("memory_", "memory.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{limit}\n")
        return memory_mb(tmp_path / "groups", tmp_path / "ours")

    return write


def test_without_groups_it_is_the_machines(tmp_path):
    assert memory_mb(tmp_path / "none", tmp_path / "none") >= WHOLE > 0
    assert usable_memory_mb() == WHOLE * 3 // 4


def test_version_2_at_the_top_of_a_container(group):
    assert group("0::/\n", memory_max=100 * MB) == 100


def test_the_narrowest_group_around_us_counts(group):
    said = "0::/a/b\n"
    assert group(said, a__b__memory_max=90 * MB, a__memory_max=70 * MB, memory_max="max") == 70


def test_no_limit_is_none(group):
    assert group("0::/\n", memory_max="max") >= WHOLE


def test_version_1_with_a_path_that_is_not_to_be_seen_from_inside(group):
    said = "4:cpu:/x\n3:memory,other:/docker/abc\n0::/\n"
    assert group(said, memory__memory_limit_in_bytes=80 * MB) == 80


@pytest.mark.parametrize("said", ["0::/../../etc\n", "0::/a/../../..\n", "x", "0::", ":::", "0:memory"])
def test_odd_words_are_no_limit_and_do_not_lead_out(group, tmp_path, said):
    (tmp_path / "memory.max").write_text("1048576")
    assert group(said) >= WHOLE


@given(st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_give_a_number(tmp_path, said):
    (tmp_path / "ours").write_text(said, errors="replace")
    assert memory_mb(tmp_path / "groups", tmp_path / "ours") > 0
