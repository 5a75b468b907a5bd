"""How many orders travel together, as a table of rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.compute.pool import chunks
from quire.compute.pool.chunks import CHUNK_SECONDS, LARGEST_CHUNK, StepDurations

SECONDS = st.none() | st.floats(0, 1e6)
A, B = ("a", 1), ("a", 2)


@pytest.mark.parametrize(
    ("task_seconds", "chunk"),
    [
        (None, 1),
        (0.0, LARGEST_CHUNK),
        (0.000001, LARGEST_CHUNK),
        (CHUNK_SECONDS / 10, 10),
        (CHUNK_SECONDS / 2, 2),
        (CHUNK_SECONDS, 1),
        (0.2, 1),
        (3600.0, 1),
    ],
)
def test_a_chunk_is_about_the_target_time_of_work(task_seconds, chunk):
    assert chunks.full_chunk_size(task_seconds) == chunk


@pytest.mark.parametrize(
    ("remaining", "workers", "chunk"),
    [
        (1000, 4, 10),
        (40, 4, 10),
        (39, 4, 10),
        (37, 4, 10),
        (36, 4, 9),
        (5, 4, 2),
        (4, 4, 1),
        (1, 4, 1),
        (9, 0, 9),
    ],
)
def test_at_the_end_everybody_gets_a_part_of_the_rest(remaining, workers, chunk):
    assert chunks.next_chunk_size(CHUNK_SECONDS / 10, remaining, workers) == chunk


@given(SECONDS, st.integers(1, 10_000), st.integers(1, 64))
def test_no_chunk_is_empty_or_more_than_a_workers_part(task_seconds, remaining, workers):
    chunk = chunks.next_chunk_size(task_seconds, remaining, workers)
    assert 1 <= chunk <= LARGEST_CHUNK
    assert (chunk - 1) * workers < remaining
    assert chunk == 1 or chunk * (task_seconds or 0.0) <= CHUNK_SECONDS


@pytest.mark.parametrize(
    ("task_seconds", "depth"), [(None, 1), (0.0, 2), (CHUNK_SECONDS / 10, 2), (0.2, 1), (0.5, 1), (0.6, 0)]
)
def test_nothing_waits_behind_a_slow_task(task_seconds, depth):
    assert chunks.chunks_ahead(task_seconds) == depth


@pytest.mark.parametrize(
    ("known", "measured", "now"),
    [
        (None, 3.0, 3.0),
        (1.0, 1.0, 1.0),
        (1.0, 2.0, 1.3),
        (1.0, 0.0, 0.7),
        (0.001, 30.0, 30.0),  # the first one was no measure: believed at once
        (0.0, 0.5, 0.5),
    ],
)
def test_the_average_follows_and_a_shock_is_believed_at_once(known, measured, now):
    assert chunks.update_average(known, measured) == pytest.approx(now)


def test_each_version_of_a_step_has_its_own_pace():
    paces = StepDurations()
    paces.note(A, [0.01, 0.03])
    paces.note(B, [8.0])
    paces.note(A, [])
    assert (paces.of(A), paces.of(B), paces.of(("c", 1))) == (pytest.approx(0.02), 8.0, None)
    assert paces.latest == 8.0


@pytest.mark.parametrize(
    ("task_seconds", "out", "room"),
    [(None, 0, 6), (None, 4, 2), (None, 5, 0), (1.0, 0, 4), (1.0, 3, 0), (0.0, 0, 6 * LARGEST_CHUNK)],
)
def test_room_is_for_a_good_part_or_for_nothing(task_seconds, out, room):
    assert chunks.free_capacity(task_seconds, 2, out) == room
