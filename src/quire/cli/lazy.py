"""Groups that import a command when it runs.

A table names every command, the function behind it and its line of help: `--help` and shell completion import
no command. Help is plain text; loading rich would take longer than everything else that help needs.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class CommandEntry(NamedTuple):
    """`target` is `module:function`, or `module:app` for a group that is defined elsewhere."""

    help: str
    target: str
    is_hidden: bool = False


class GroupEntry(NamedTuple):
    help: str
    commands: Mapping[str, "Entry"]
    is_hidden: bool = False


Entry: TypeAlias = CommandEntry | GroupEntry


class LazyGroup(TyperGroup):
    entries: ClassVar[Mapping[str, Entry]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._pending = dict(self.entries)
        for name, entry in self.entries.items():
            self.add_command(TyperCommand(name, short_help=entry.help, hidden=entry.is_hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Put the command in the place of its placeholder. May be repeated; ignores unknown names."""
        entry = self._pending.pop(name, None)
        if entry is not None:
            command = get_command(_build_app(name, entry))
            command.help = _keep_lines_of_examples(command.help or "")
            command.hidden = entry.is_hidden
            self.commands[name] = command


def build_group(
    name: str, text: str, entries: Mapping[str, Entry], *, add_completion: bool = False, **more: Any
) -> typer.Typer:
    """A group that needs a callback gets it from its owner: `app.callback()`."""
    group = type("Group", (LazyGroup,), {"entries": entries})
    return typer.Typer(
        name=name,
        help=text,
        cls=group,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


def _build_app(name: str, entry: Entry) -> typer.Typer:
    if isinstance(entry, GroupEntry):
        app = build_group(name, entry.help, entry.commands, no_args_is_help=True)
        app.callback()(_do_nothing)
        return app
    module, _, attribute = entry.target.partition(":")
    target: typer.Typer | Callable[..., None] = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return target
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(target)
    return app


def _do_nothing() -> None:
    """Typer makes a group of an app only if it has commands of its own or a callback."""


def _keep_lines_of_examples(text: str) -> str:
    """A backspace before a paragraph keeps the formatter from wrapping it: here if it has indented lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"\b\n{one}" if "\n " in f"\n{one}" else one for one in paragraphs)
