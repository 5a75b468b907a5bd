"""The reference page of the settings says what the code says."""

from pathlib import Path

import pytest

from quire.settings import KEYS, Key

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def _documented() -> dict[str, list[str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_key_is_documented_with_its_variable_default_and_meaning(key: Key):
    assert _documented().get(key.name) == [key.variable, key.default, key.description]


def test_no_key_is_documented_that_does_not_exist():
    assert set(_documented()) == {key.name for key in KEYS}


def test_every_key_has_a_meaning():
    assert all(key.description for key in KEYS)
