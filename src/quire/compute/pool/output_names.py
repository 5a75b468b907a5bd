"""The names that a step gives to its outputs.

Promise: a name that passes is one plain file name on every system: it leaves no folder and needs no quoting
in a log. Must not know: where the output is laid out.
"""

import unicodedata
from collections.abc import Iterable

from quire.model.errors import Reject

MAX_BYTES = 200
_SHOWN = 80
# Control characters, halves of characters, and separators of lines and paragraphs.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_name(name: object, step: str) -> None:
    """Raises Reject with code `bad_name`."""
    if (fault := _find_fault(name)) is not None:
        shown = ascii(name[:_SHOWN]) if isinstance(name, str) else f"a {type(name).__name__}"
        raise Reject(
            f"the step {step} returned an output called {shown}, which {fault}; give it a plain file name",
            code="bad_name",
        )


def check_distinct(names: Iterable[str], step: str) -> None:
    """Refuse two outputs of one name; case does not count. Raises Reject with code `name_twice`."""
    seen: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in seen:
            raise Reject(
                f"the step {step} returned two outputs called {name!a}; give each a name of its own",
                code="name_twice",
            )
        seen.add(folded)


def _find_fault(name: object) -> str | None:
    if not isinstance(name, str):
        return "is no text"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return f"is longer than {MAX_BYTES} bytes"
    if name in {"", ".", ".."} or "/" in name or "\\" in name:
        return "is a path"
    if any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in name):
        return "contains a control character or half a character"
    return None if unicodedata.is_normalized("NFC", name) else "is not in Unicode's normal form NFC"
