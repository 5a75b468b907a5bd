"""Splits an ingredient line into quantity, unit, name and notes, and puts the parts together again."""

from quire.model.recipe import Ingredient


def parse_ingredient(line: str) -> Ingredient:
    """Split a line. Never raises, and every word of the line is in one of the parts."""
    raise NotImplementedError


def write_ingredient(ingredient: Ingredient) -> str:
    """Put the parts into one line, from which `parse_ingredient` reads them again."""
    raise NotImplementedError


def is_heading(line: str) -> bool:
    """Whether the line names a part of the list (`For the sauce:`) instead of an ingredient."""
    raise NotImplementedError
