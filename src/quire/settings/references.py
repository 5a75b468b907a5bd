"""References to pipelines as settings and command lines have them.

Promise: relative files are resolved once, where the reference is read: against the folder of the settings
file, or the working folder. Must not know: how code is loaded.
"""

import re
from pathlib import Path

from msgspec import structs

from quire.authoring.references import Reference, parse_reference
from quire.model.errors import Misconfigured

EXPECTED = "module:object, file.py or file.py:object, with NAME@VERSION= in front for a version that is kept"
MAX_CHARACTERS = 4096

_CHOICE = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})(?:@([1-9][0-9]{0,8}))?")


def read_reference(text: str, base: Path) -> Reference:
    """Relative files start at `base`. Raises ValueError with what was expected."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(EXPECTED)
    try:
        reference = parse_reference(text)
    except Misconfigured as error:
        raise ValueError(EXPECTED) from error
    if not reference.file:
        return reference
    try:
        path = (base / Path(reference.file).expanduser()).absolute()
    except RuntimeError as error:  # "~" of a user without a home folder
        raise ValueError("a file whose ~ names a known user") from error
    return structs.replace(reference, file=str(path))


def parse_choice(text: str) -> tuple[str, int] | None:
    """A pipeline by `NAME` or `NAME@VERSION` (0: its default version); None when it is no name."""
    found = _CHOICE.fullmatch(text)
    return (found[1], int(found[2] or 0)) if found else None
