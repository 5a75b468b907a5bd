"""Draws the state diagrams of `docs/concepts.md` from the tables in `quire.engine.states`.

`python docs/make_state_diagrams.py` rewrites the page between its markers; with `--check` it changes nothing
and exits with 1 when the page is out of date.
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
WAYS_BACK = {Stage.DONE: "new round", Stage.ERROR: "continues", Stage.CANCELLED: "continues"}


def draw_table(table: Table) -> str:
    """States in the order of the table; a state without a predecessor is a start."""
    order = list(table)
    reached = {after for before in order for after in table[before] if after is not before}
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in order if state not in reached]
    for before in order:
        lines += [f"    {before} --> {after}" for after in order if after in table[before]]
    lines += [f"    {state} --> [*]" for state in order if not table[state]]
    return "\n".join(lines)


def draw_ways_back() -> str:
    """From an end back to work, each arrow with its name."""
    lines = ["stateDiagram-v2"]
    for before, reached in REOPENED_STAGES.items():
        lines += [f"    {before} --> {after}: {WAYS_BACK[before]}" for after in STAGES if after in reached]
    return "\n".join(lines)


def fill_page(page: str) -> str:
    """The page with every diagram between its markers."""
    for name, drawing in {
        "stages": draw_table(STAGES),
        "again": draw_ways_back(),
        "tasks": draw_table(TASKS),
    }.items():
        begin, end = f"<!-- diagram {name} begins -->", f"<!-- diagram {name} ends -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        drawn = f"{begin}\n```mermaid\n{drawing}\n```\n{end}"
        page, found = pattern.subn(lambda _, drawn=drawn: drawn, page)
        if found != 1:
            raise SystemExit(f"{PAGE.name} must have the markers of diagram {name} once, not {found} times")
    return page


def main(arguments: list[str]) -> int:
    page = PAGE.read_text("utf-8")
    drawn = fill_page(page)
    if "--check" in arguments:
        return int(drawn != page)
    PAGE.write_text(drawn, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
