"""Every command of `quire`, imported: for tests that look at names, options and help."""

from typing import Any

from typer.main import get_command

from quire.cli.app import app
from quire.cli.lazy import LazyGroup


def load_commands() -> Any:
    """The root command; `commands` of it and of every group below holds the real commands."""
    return _load_all(get_command(app))


def _load_all(command: Any) -> Any:
    if isinstance(command, LazyGroup):
        for name in command.entries:
            command.load(name)
            _load_all(command.commands[name])
    return command
