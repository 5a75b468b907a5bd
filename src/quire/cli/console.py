"""Messages for people: on standard error, so that standard output holds only data."""

import json
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from quire.cli.text import printable

if TYPE_CHECKING:
    from rich.console import Console


class Reporter:
    """`events`: with --json, events are printed as lines of data; otherwise --json is silent."""

    def __init__(self, *, json_output: bool, events: bool = False) -> None:
        self.quiet = json_output
        self._events = json_output and events
        self.live = not json_output and sys.stderr.isatty()
        self._is_waiting = False

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False)

    def report(self, event: str, message: str, **more: str) -> None:
        """A message for people; a line of data for programs, where the command prints events."""
        if self._events:
            typer.echo(json.dumps({"event": event, "message": message, **more}))
        else:
            self.say(message)

    def notice(self, text: str) -> None:
        """Something about batches of others that a person may want to know; each is said once."""
        self.report("notice", f"Note: {printable(text)}")

    def warn(self, warnings: Sequence[str]) -> None:
        """What a backend may lose; printed once, at the start."""
        for warning in warnings:
            self.report("warning", f"Warning: {printable(warning)}")

    def report_outage(self, reason: str | None) -> None:
        """The database is unreachable (printed once per outage); with None: it is reachable again."""
        if reason is not None and not self._is_waiting:
            self.report("waiting", f"Waiting for the database: {printable(reason)}")
        if reason is None and self._is_waiting:
            self.report("back", "The database is back; continuing.")
        self._is_waiting = reason is not None
