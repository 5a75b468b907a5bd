"""Reads JSON as pages hold it: in comments, with line breaks in strings, extra commas, bare quotes.

What is valid is read as it is. Repairs are those that can mean only one thing; linear in the length.
"""

import html
import json
import re

LONGEST = 2_000_000
_OPENINGS = ("//", "/*", "<![CDATA[", "<!--", "*/")
_CLOSINGS = ("]]>", "-->", "*/", "//", "/*", ";")
_MOST_DOCUMENTS = 20
_MOST_LEVELS = 500
_PREFIXED = re.compile(r'"(?:schema:|https?://schema\.org/)(\w{1,40}"\s{0,20}:)')
_BEGIN = re.compile(r"[\[{]\s{0,100}[\[{\"\]}]")
_LOOK_AHEAD = 64
_VALUES = ("true", "false", "null", "/*", "//")
_ESCAPABLE = '"\\/bfnrtu'


def read_json(text: str) -> tuple[list[object], bool]:
    """The documents in the text, and whether it had to be repaired. Nothing readable gives no documents."""
    if len(text) > LONGEST:
        return [], False
    documents, repaired = _read(_PREFIXED.sub(r'"\1', _unwrap(text)))
    if len(documents) == 1 and isinstance(documents[0], str):  # JSON that was written as JSON once more
        return _read(_unwrap(documents[0]))
    return documents, repaired


def _read(bare: str) -> tuple[list[object], bool]:
    if not bare:
        return [], False
    documents = _decode(bare)
    if documents:
        return documents, False
    if "&quot;" in bare[:2000]:
        documents = _decode(html.unescape(bare))
        if documents:
            return documents, True
    found = _BEGIN.search(bare)
    if found is None:
        return [], False
    begin = found.start()
    end = max(bare.rfind("}"), bare.rfind("]")) + 1
    documents = _decode(bare[begin:end]) if end > begin else []
    if documents:
        return documents, False
    return _decode(repair(bare[begin:])), True


def repair(text: str) -> str:
    """A text that is closer to JSON; empty for one that is nested too deep."""
    out: list[str] = []
    stack: list[str] = []
    place, last = 0, ""  # `last`: the last letter outside of strings; `"` for a string
    length = len(text)
    while place < length:
        letter = text[place]
        if letter == '"':
            if last in {'"', "}", "]"}:
                out.append(",")
            place = _copy_string(text, place, out)
            last = '"'
            continue
        if letter.isspace():
            out.append(" ")
        elif text.startswith(("/*", "//"), place):
            in_line = text[place + 1] == "/"
            end = text.find("\n" if in_line else "*/", place + 2)
            place = length if end < 0 else end + (0 if in_line else 1)
        elif letter == ",":
            if last not in {",", "{", "[", ":", ""}:
                out.append(",")
                last = ","
        elif letter in "}]":
            _close(out, stack, letter, last)
            last = letter
            if not stack:
                break
        else:
            if letter in "{[":
                if last in {'"', "}", "]"}:
                    out.append(",")
                if len(stack) >= _MOST_LEVELS:  # each mark that closes looks for its opening one
                    return ""
                stack.append("}" if letter == "{" else "]")
            out.append(letter)
            last = letter
        place += 1
    if last == ",":
        _drop_comma(out)
    elif last == ":":
        out.append("null")
    out.extend(reversed(stack))
    return "".join(out)


def _unwrap(text: str) -> str:
    """Without the comment or CDATA marks around the text."""
    bare = text.strip().strip("\ufeff").strip()
    for _ in range(6):
        before = bare
        for mark in _OPENINGS:
            bare = bare.removeprefix(mark).lstrip()
        for mark in _CLOSINGS:
            bare = bare.removesuffix(mark).rstrip()
        if bare == before:
            break
    return bare


def _decode(text: str) -> list[object]:
    decoder = json.JSONDecoder(strict=False)
    documents: list[object] = []
    place = 0
    try:
        while place < len(text) and len(documents) < _MOST_DOCUMENTS:
            document, place = decoder.raw_decode(text, place)
            documents.append(document)
            while place < len(text) and (text[place].isspace() or text[place] in ";,"):
                place += 1
    except (ValueError, RecursionError):
        # What stands behind a whole document does not make it less whole.
        return documents if documents and text[:place].strip().endswith(("}", "]")) else []
    return documents


def _copy_string(text: str, begin: int, out: list[str]) -> int:
    """Copy a string, escaping quotes that cannot be its end. Returns the place behind it."""
    out.append('"')
    place, kept = begin + 1, begin + 1
    length = len(text)
    while place < length:
        letter = text[place]
        if letter == "\\":
            if text[place + 1 : place + 2] not in _ESCAPABLE or place + 1 >= length:
                out.append(text[kept:place])
                kept = place + 1
            place += 2
            continue
        if letter == '"':
            if _ends_string(text, place + 1):
                out.append(text[kept:place] + '"')
                return place + 1
            out.append(text[kept:place] + '\\"')
            kept = place + 1
        place += 1
    out.append(text[kept:length] + '"')
    return length


def _ends_string(text: str, place: int) -> bool:
    ahead = text[place : place + _LOOK_AHEAD].lstrip()
    if not ahead or ahead[0] in ":}]":
        return True
    if ahead[0] == ",":
        behind = ahead[1:].lstrip()
        return not behind or behind[0] in '"{[}],-0123456789' or behind.startswith(_VALUES)
    # A comma was forgotten between two lines.
    return ahead[0] == '"' and "\n" in text[place : place + _LOOK_AHEAD].split('"', 1)[0]


def _close(out: list[str], stack: list[str], letter: str, last: str) -> None:
    if last == ",":
        _drop_comma(out)
    elif last == ":":
        out.append("null")
    if stack and stack[-1] != letter and letter in stack:
        while stack[-1] != letter:
            out.append(stack.pop())
    if stack and stack[-1] == letter:
        stack.pop()
        out.append(letter)


def _drop_comma(out: list[str]) -> None:
    for place in range(len(out) - 1, max(len(out) - 10_000, -1), -1):
        if out[place] == ",":
            del out[place]
            return
