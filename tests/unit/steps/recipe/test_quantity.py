"""Quantities at the beginning of a line are read as they stand there."""

import pytest

from quire.steps.recipe.quantity import read_quantity, repair_misread, times_at

QUANTITIES = [
    "1",
    "12",
    "1/2",
    "1 1/2",
    "1-1/2",
    "½",
    "1½",
    "1 ½",
    "2-3",
    "2 to 3",
    "2–3",
    "1,5",
    "1.5",
    "0.25",
    ".5",
    "1/2-3/4",
    "10+",
    "1 or 2",
    "1⁄2",
]


@pytest.mark.parametrize("text", QUANTITIES)
def test_numbers_fractions_and_ranges(text: str):
    quantity = read_quantity(f"{text} cups flour")

    assert quantity is not None
    assert quantity.text == text


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "one",
        "half a",
        "half a dozen",
        "a dozen",
        "two dozen",
        "Three or four",
        "one and a half",
        "several",
        "zwei",
    ],
)
def test_numbers_in_words(text: str):
    quantity = read_quantity(f"{text} eggs")

    assert quantity is not None
    assert (quantity.text, quantity.in_words) == (text, True)


@pytest.mark.parametrize(
    "line", ["flour", "1. Mix all", "2) Bake", "1st step", "350°F", "", "another egg", "ones"]
)
def test_no_quantity(line: str):
    assert read_quantity(line) is None


def test_what_stands_before_is_kept():
    quantity = read_quantity("about 2 cups")

    assert quantity is not None
    assert (quantity.about, quantity.text) == ("about", "2")


def test_misread_ones_are_repaired_where_nothing_else_can_be_meant():
    assert repair_misread("l cup milk") == "1 cup milk"
    assert repair_misread("11/2 cups milk") == "1 1/2 cups milk"
    assert repair_misread("23/4 cups milk") == "2 3/4 cups milk"
    assert repair_misread("11/16 inch of ginger") == "11/16 inch of ginger"
    assert repair_misread("172 tsp salt") == "1/2 tsp salt"
    assert repair_misread("1172 cups flour") == "1 1/2 cups flour"
    assert repair_misread("374 cup milk") == "3/4 cup milk"
    assert repair_misread("172 g flour") == "172 g flour"
    assert repair_misread("2259 unsalted butter") == "225g unsalted butter"
    assert repair_misread("859 sugar") == "85g sugar"
    assert repair_misread("159 g sugar") == "159 g sugar"
    assert repair_misread("3 thsp sugar") == "3 tbsp sugar"
    assert repair_misread("2 thsps sugar") == "2 tbsps sugar"
    assert repair_misread("I/2 cup milk") == "1/2 cup milk"
    assert repair_misread("lemon") == "lemon"
    assert repair_misread("I can cook") == "I can cook"


def test_a_multiplication_sign_is_found():
    assert times_at("2 x 400 g", 1) == 4
    assert times_at("2 xylophones", 1) is None
