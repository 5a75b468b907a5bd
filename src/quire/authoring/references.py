"""How people name a pipeline: `NAME`, `module:object`, `file.py`, `file.py:object`, and with `NAME@VERSION=`
before any of them the version that it must be.
"""

import re

from msgspec import Struct

from quire.model.errors import Misconfigured

_EXPECTED = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_]*)@(?P<version>[1-9][0-9]{0,8})=(?P<rest>.*)", re.DOTALL
)
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
FORMS = "NAME, module:object, file.py or file.py:object"


class Reference(Struct, frozen=True, kw_only=True):
    """One of `entry_point`, `module` and `file` is given; `object_path` is empty for the only pipeline there.
    `expected` are the name and version that it must have.
    """

    entry_point: str = ""
    module: str = ""
    file: str = ""
    object_path: str = ""
    expected: tuple[str, int] | None = None

    def write(self) -> str:
        """As people write it; parsing that gives an equal reference."""
        before = f"{self.expected[0]}@{self.expected[1]}=" if self.expected else ""
        after = f":{self.object_path}" if self.object_path else ""
        return f"{before}{self.entry_point or self.module or self.file}{after}"


def parse_reference(text: str) -> Reference:
    """Raises Misconfigured for what names no pipeline."""
    expected = None
    rest = text.strip()
    if found := _EXPECTED.fullmatch(rest):
        expected, rest = (found["name"], int(found["version"])), found["rest"].strip()
    where, colon, name = rest.rpartition(":") if _ends_in_object(rest) else (rest, "", "")
    if where.endswith(".py") and "\0" not in where:
        return Reference(file=where, object_path=name, expected=expected)
    if _DOTTED.fullmatch(where) and (colon or "." in where):
        return Reference(module=where, object_path=name, expected=expected)
    if not colon and _NAME.fullmatch(where):
        return Reference(entry_point=where, expected=expected)
    raise Misconfigured(f"{text!r} names no pipeline; write {FORMS}")


def _ends_in_object(text: str) -> bool:
    return ":" in text and _DOTTED.fullmatch(text.rpartition(":")[2]) is not None
