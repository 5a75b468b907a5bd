"""Text for terminals. Text from outside is displayed and never interpreted."""

import unicodedata
from collections.abc import Container, Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quire.model.probe import Probe


def printable(text: object) -> str:
    """Control and format characters become escapes: a file name cannot colour, hide or rewrite a message."""
    return "".join(
        character if unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else ascii(character)[1:-1]
        for character in str(text)
    )


def probe_line(probe: "Probe") -> str:
    detail = f": {printable(probe.detail)}" if probe.detail else ""
    return f"{'ok' if probe.ok else 'FAILED':<8}{probe.name}{detail}"


def plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[int] = ()
) -> str:
    """Columns two spaces apart, those of `right` flush right. The last column wraps at 80 characters."""
    lines = [list(headings), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    start = sum(widths[:-1]) + 2 * (len(widths) - 1)
    return "\n".join(_format_row(line, widths, right, start) for line in lines)


def _format_row(cells: Sequence[str], widths: Sequence[int], right: Container[int], start: int) -> str:
    *others, last = cells
    front = "".join(
        f"{cell:>{width}}  " if number in right else f"{cell:<{width}}  "
        for number, (cell, width) in enumerate(zip(others, widths, strict=False))
    )
    wrapped = wrap(last, max(20, 80 - start), break_on_hyphens=False) or [""]
    return f"\n{'':<{start}}".join([f"{front}{wrapped[0]}".rstrip(), *wrapped[1:]])
