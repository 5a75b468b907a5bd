"""Times and servings are read from their labels."""

import pytest

from quire.steps.recipe.labels import Labels, read_labels

LINES = [
    (
        ["Prep time: 10 min", "Cook time: 1 hr 20 min", "Serves 4"],
        Labels(10, 80, None, "4", frozenset({0, 1, 2})),
    ),
    (
        ["Prep: 10 min | Cook: 20 min | Total: 30 min | Serves: 4-6"],
        Labels(10, 20, 30, "4-6", frozenset({0})),
    ),
    (["Prep Time", "15 mins", "Servings", "8"], Labels(15, None, None, "8", frozenset({0, 1, 2, 3}))),
    (["Makes 12 cookies"], Labels(servings="12 cookies", used=frozenset({0}))),
    (["Yield: 2 loaves"], Labels(servings="2 loaves", used=frozenset({0}))),
    (["4 servings"], Labels(servings="4", used=frozenset({0}))),
    (["Ready in 45 minutes"], Labels(total=45, used=frozenset({0}))),
    (["Servings: 1 (2 wraps)"], Labels(servings="1 (2 wraps)", used=frozenset({0}))),
    (["Vorbereitungszeit: 20 Min", "Kochzeit: 1 Std."], Labels(20, 60, None, "", frozenset({0, 1}))),
]


@pytest.mark.parametrize(("lines", "labels"), LINES, ids=lambda part: str(part)[:40])
def test_labels_are_read(lines: list[str], labels: Labels):
    assert read_labels(lines) == labels


@pytest.mark.parametrize(
    "line",
    [
        "Serves many people",
        "time 3 mins, this depends on the thickness",
        "Cook it well",
        "Prep your chicken",
        "",
    ],
)
def test_sentences_are_no_labels(line: str):
    assert read_labels([line]) == Labels()
