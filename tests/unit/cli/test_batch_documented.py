"""The reference page knows every command of `quire batch` with every option, and no other."""

import re
from pathlib import Path

import pytest
from tests.situations.commands import load_commands

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "commands.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("\n## quire batch\n") :].partition("\n## quire doctor\n")[0]
COMMANDS = load_commands().commands["batch"].commands
ROWS = [line.split(" | ") for line in SECTION.splitlines() if line.startswith("|") and "`--" in line]


def _documented(command: str) -> set[str]:
    rows = [row for row in ROWS if row[0] == "| every one" or f"`{command}`" in row[0]]
    return {option for row in rows for option in re.findall(r"`(--?[a-z-]+)", row[1])}


def _options(command: str) -> set[str]:
    params = COMMANDS[command].params
    return {option for one in params if one.param_type_name == "option" for option in one.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_documented_with_exactly_its_options(command: str):
    assert re.search(rf"^\| `{command}[` ]", SECTION, re.MULTILINE)
    assert _documented(command) == _options(command)


def test_no_command_is_documented_that_does_not_exist():
    table = SECTION.partition("| command | what it does |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == set(COMMANDS)
