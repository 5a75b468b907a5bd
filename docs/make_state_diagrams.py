"""Draws the state diagrams of `docs/concepts.md` from the tables in `quire.engine.states`.

`python docs/make_state_diagrams.py` rewrites the page between its markers; with `--check` it changes nothing
and ends with 1 when the page differs from the tables.
"""

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from quire.engine.states import REOPENED_STAGES, STAGES, TASKS
from quire.model.batch import Stage

PAGE = Path(__file__).parent / "concepts.md"
Table = Mapping[StrEnum, frozenset[StrEnum]]
WAYS_BACK = {Stage.DONE: "new round", Stage.ERROR: "goes on", Stage.CANCELLED: "goes on"}


def walk(table: Table) -> str:
    """The states in the order of the table; a state that nothing leads to is a beginning."""
    order = list(table)
    reached = {after for before in order for after in table[before] if after is not before}
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in order if state not in reached]
    for before in order:
        lines += [f"    {before} --> {after}" for after in order if after in table[before]]
    lines += [f"    {state} --> [*]" for state in order if not table[state]]
    return "\n".join(lines)


def ways_back() -> str:
    """From an end, by a person's act, each arrow with what it is called."""
    lines = ["stateDiagram-v2"]
    for before, reached in REOPENED_STAGES.items():
        lines += [f"    {before} --> {after}: {WAYS_BACK[before]}" for after in STAGES if after in reached]
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with every diagram drawn anew between its markers."""
    for name, drawing in {"stages": walk(STAGES), "again": ways_back(), "tasks": walk(TASKS)}.items():
        begin, end = f"<!-- diagram {name} begins -->", f"<!-- diagram {name} ends -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        drawn = f"{begin}\n```mermaid\n{drawing}\n```\n{end}"
        page, found = pattern.subn(lambda _, drawn=drawn: drawn, page)
        if found != 1:
            raise SystemExit(f"{PAGE.name} must have the markers of diagram {name} once, not {found} times")
    return page


def main(arguments: list[str]) -> int:
    page = PAGE.read_text("utf-8")
    drawn = filled(page)
    if "--check" in arguments:
        return int(drawn != page)
    PAGE.write_text(drawn, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
