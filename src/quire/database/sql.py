"""Loads named queries and numbered migrations from `.sql` files.

A query begins at a line `-- name: some_name`; comment lines right after it say what it is for.
"""

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load_queries(package: str, *files: str) -> dict[str, str]:
    """The named queries of these files, without their comments."""
    found: dict[str, str] = {}
    for file in files:
        parts = _NAME.split(resources.files(package).joinpath(file).read_text(encoding="utf-8"))
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: _without_comments(text) for name, text in found.items()}


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """(number, name, script) of each `NNNN_name.sql`, in order."""
    found = []
    for entry in resources.files(package).iterdir():
        number, _, rest = entry.name.partition("_")
        if entry.name.endswith(".sql") and number.isdigit():
            found.append((int(number), rest.removesuffix(".sql"), entry.read_text(encoding="utf-8")))
    return sorted(found)


def _without_comments(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().rstrip(";")
