"""Draws the generated parts of `docs/map.md`: import graph, layers and a sentence for each room.

`python docs/make_map.py` rewrites the page between its markers; with `--check` it changes nothing and exits
with 1 when the page is out of date. The graph comes from the imports in `src/quire`, the layers from the
import contract in `pyproject.toml`, each sentence from the docstring of the room.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "map.md"
SOURCE = ROOT / "src" / "quire"
PACKAGE = "quire"

Graph = Mapping[str, frozenset[str]]


def build_graph() -> Graph:
    """Rooms and the rooms that they import."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    rooms = graph.find_children(PACKAGE)
    for room in rooms:
        graph.squash_module(room)
    return {
        room.removeprefix(f"{PACKAGE}."): frozenset(
            imported.removeprefix(f"{PACKAGE}.")
            for imported in graph.find_modules_directly_imported_by(room) & rooms - {room}
        )
        for room in sorted(rooms)
    }


def reduce_graph(graph: Graph) -> Graph:
    """Without the arrows that follow from others: the transitive reduction of a graph without cycles."""
    return {
        room: frozenset(
            target
            for target in targets
            if not any(target in find_reachable(graph, other) for other in targets - {target})
        )
        for room, targets in graph.items()
    }


def find_reachable(graph: Graph, room: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(graph[room])
    while waiting:
        if (found := waiting.pop()) not in reached:
            reached.add(found)
            waiting += graph[found]
    return reached


def draw_graph(graph: Graph) -> str:
    arrows = [f"    {room} --> {target}" for room in graph for target in sorted(graph[room])]
    return "\n".join(["```mermaid", "graph TD", *arrows, "```"])


def list_layers() -> str:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return "\n".join(["```", *layers, "```"])


def list_rooms(graph: Graph) -> str:
    rows = [f"| `{room}` | {read_first_sentence(room)} |" for room in graph]
    return "\n".join(["| room | what it is |", "|---|---|", *rows])


def read_first_sentence(room: str) -> str:
    module = SOURCE / f"{room}.py"
    module = module if module.exists() else SOURCE / room / "__init__.py"
    docstring = ast.get_docstring(ast.parse(module.read_text("utf-8")))
    if not docstring:
        raise SystemExit(
            f"{module.relative_to(ROOT)} needs a docstring: one sentence that says what the room is"
        )
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]


def fill_page(page: str) -> str:
    """The page with every generated part between its markers."""
    graph = build_graph()
    parts = {"graph": draw_graph(reduce_graph(graph)), "layers": list_layers(), "rooms": list_rooms(graph)}
    for name, text in parts.items():
        begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        page, found = pattern.subn(lambda _, whole=f"{begin}\n{text}\n{end}": whole, page)
        if found != 1:
            raise SystemExit(f"{PAGE.name} must have the markers of {name} once, not {found} times")
    return page


def main(arguments: list[str]) -> int:
    page = PAGE.read_text("utf-8")
    filled = fill_page(page)
    if "--check" in arguments:
        return int(filled != page)
    PAGE.write_text(filled, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
