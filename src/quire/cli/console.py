"""Where talk goes: standard error, so that standard output holds data alone."""

import json
import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from quire.cli.text import shown


class Talk:
    """`events`: with --json what happens goes out as lines of data; otherwise --json is silent."""

    def __init__(self, *, json_output: bool, events: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = json_output
        self._events = json_output and events
        self.live = not json_output and sys.stderr.isatty()
        self._waiting = False

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False)

    def happened(self, event: str, words: str, **more: str) -> None:
        """For people a line of talk; for programs a line of data, where the command has such."""
        if self._events:
            typer.echo(json.dumps({"event": event, "message": words, **more}))
        else:
            self.say(words)

    def warn(self, warnings: Sequence[str]) -> None:
        """What a backend may lose, said once at the start."""
        for words in warnings:
            self.happened("warning", f"Warning: {shown(words)}")

    def trouble(self, words: str | None) -> None:
        """The ledger is away (said once), or with None: it is back."""
        if words is not None and not self._waiting:
            self.happened("waiting", f"Waiting for the database: {shown(words)}")
        if words is None and self._waiting:
            self.happened("back", "The database is back; going on.")
        self._waiting = words is not None
