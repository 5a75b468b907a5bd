"""Sizes of photos that are read."""

from hypothesis import given
from hypothesis import strategies as st

from quire.steps.recipe.photo import GRID, MAX_PIXELS, fit_grid

SIDES = st.integers(1, 60_000)


@given(SIDES, SIDES)
def test_sides_are_on_the_grid_and_pixels_within_the_limit(width, height):
    wide, high = fit_grid(width, height)
    assert wide % GRID == high % GRID == 0
    assert wide >= GRID
    assert high >= GRID
    assert wide * high <= MAX_PIXELS


def test_a_strip_of_a_picture_keeps_its_width():
    wide, high = fit_grid(1, 60_000)
    assert (wide, high % GRID) == (GRID, 0)
    assert fit_grid(60_000, 1) == (high, wide)


@given(st.integers(200, 10_000), st.integers(200, 10_000))
def test_the_shape_is_kept(width, height):
    wide, high = fit_grid(width, height)
    if max(width, height) < 4 * min(width, height):
        assert abs(wide / high - width / height) / (width / height) < 0.2


def test_a_small_photo_is_not_made_larger_than_the_next_step_of_the_grid():
    assert fit_grid(280, 140) == (280, 140)
    assert fit_grid(1, 1) == (GRID, GRID)
