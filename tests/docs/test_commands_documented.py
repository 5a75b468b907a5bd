"""The reference page of the commands knows every command, argument and option."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.situations.commands import load_commands

from quire.cli import exits

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text("utf-8")
ROOT_COMMAND = load_commands()
COMMANDS = {name: one for name, one in ROOT_COMMAND.commands.items() if not one.hidden}


def _section(command: str) -> str:
    found = re.search(rf"^## quire {command}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no heading for quire {command}"
    return found[1]


def _within(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command below this one, however deep, with its words; this one itself where it has none."""
    for name, one in getattr(command, "commands", {}).items():
        yield from _within(one, f"{path} {name}".strip())
    if path or not hasattr(command, "commands"):
        yield path, command


def _options() -> list[tuple[str, str]]:
    """Those of a group's commands stand in the group's section."""
    options = [
        (name, option)
        for name, command in COMMANDS.items()
        for _, one in _within(command)
        for parameter in one.params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    ]
    return list(dict.fromkeys(options))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_its_heading_and_an_example(command: str):
    assert f"quire {command}" in re.findall(r"```(?:\w*\n)(.*?)```", _section(command), re.DOTALL)[0]


@pytest.mark.parametrize(
    ("group", "command"),
    [(name, path) for name, command in COMMANDS.items() for path, _ in _within(command) if path],
)
def test_a_command_of_a_group_is_explained_with_it(group: str, command: str):
    assert re.search(rf"^\| `{command}[ A-Z…]*` \|", _section(group), re.MULTILINE)


@pytest.mark.parametrize(("command", "option"), _options())
def test_an_option_is_documented_with_its_command(command: str, option: str):
    assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", _section(command))


@pytest.mark.parametrize("option", [option for one in ROOT_COMMAND.params for option in one.opts])
def test_an_option_of_the_program_itself_is_documented(option: str):
    assert f"{option}`" in PAGE


def test_the_commands_of_a_group_within_a_group_are_looked_at():
    assert {"dead", "dead list", "dead replay"} <= {path for path, _ in _within(COMMANDS["queue"])}
    assert ("queue", "--rate") in _options()


def test_no_command_is_documented_that_does_not_exist():
    assert set(re.findall(r"^## quire (\w+)$", PAGE, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_documented_that_does_not_exist(command: str):
    rows = "\n".join(line for line in _section(command).splitlines() if line.startswith("| `-"))
    assert set(re.findall(r"--[a-z-]+", rows)) <= {option for name, option in _options() if name == command}


def test_every_exit_code_is_documented():
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    documented = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == documented
