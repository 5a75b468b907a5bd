"""The form in which text is given: no NUL, plain line ends, single blanks, one empty line at most."""

import re

_LINE_ENDS = re.compile(r"\r\n?")
_BLANKS = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r"\n{3,}")


def normalise_text(text: str) -> str:
    """Doing it twice changes nothing more."""
    plain = _BLANKS.sub(" ", _LINE_ENDS.sub("\n", text.replace("\0", "")))
    lines = "\n".join(line.strip() for line in plain.split("\n"))
    return _EMPTY_LINES.sub("\n\n", lines).strip()
