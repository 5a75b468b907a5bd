"""What a step gives back: files beside its document, and a value for the steps after it.

Promise: an output that was made can be written; a wrong name or change is refused on the step's own line.
"""

import mimetypes
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import Struct, field

from quire.authoring.places import find_person
from quire.model.errors import Reject
from quire.model.files import Change

T = TypeVar("T")
ChangeName: TypeAlias = Literal["hang", "join", "replace"]
Bytes: TypeAlias = bytes  # `bytes` is a method of outputs

LONGEST_NAME_BYTES = 200  # of the 255 of file systems; the rest is for the document's own name
_BAD_CHARACTERS = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_UNKNOWN_TYPE = "application/octet-stream"
# The table of Python alone: with that of the machine, results would differ between machines.
_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/markdown", ".md")


class OutputOptions(TypedDict, total=False):
    """What may be said of an output beside its name and its content.

    content_type:  when its name does not tell
    change:        "hang" (the default: it hangs on its document as an asset), "join" (it joins the documents
                   and walks on from the next phase) or "replace" (it takes the place of its document)
    tags:          its tags, which later steps can ask for: `accepts="tag:page"`
    preferred:     a whole name that it gets instead, unless another document has a claim to it; only if the
                   step's `renames` has the document's extension: `a.tif` → `a.jpg`
    role, facts:   for programs that read the results; the role is the name unless given
    """

    content_type: str
    change: ChangeName
    tags: Iterable[str]
    preferred: str
    role: str
    facts: Mapping[str, Any]


_OPTIONS = ", ".join(OutputOptions.__annotations__)


class Output(Struct, frozen=True, kw_only=True):
    """A file that a step has made: JSON, text, bytes, or a file on disk.

    It is laid out beside its document: the output `words.json` of `letter.txt` is `letter.txt.words.json`. An
    output of a folder lies in the folder. The options are those of `OutputOptions`.
    """

    name: str
    content_type: str
    data: Bytes = b""
    path: Path | None = None  # of an output that lies on disk; `data` is empty then
    change: ChangeName = "hang"
    tags: tuple[str, ...] = ()
    preferred: str = ""
    role: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def json(cls, name: str, data: object, **options: Unpack[OutputOptions]) -> "Output":
        """A JSON file of anything that msgspec encodes: dicts, lists, Structs, dataclasses, dates …"""
        try:
            encoded = msgspec.json.encode(data) + b"\n"
        except Exception as error:
            raise _bad(f"the output {name!r} cannot be written as JSON: {error}") from error
        return _build(name, "application/json", options, data=encoded)

    @classmethod
    def text(cls, name: str, text: str, **options: Unpack[OutputOptions]) -> "Output":
        """A text file in UTF-8. Its type follows from its name (`.md`, `.csv` …); otherwise it is plain."""
        try:
            encoded = text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise _bad(f"the output {name!r} is no text that UTF-8 can say: {error}") from error
        return _build(name, guess_type(name, "text/plain"), options, data=encoded)

    @classmethod
    def bytes(
        cls, name: str, data: Bytes | bytearray | memoryview, **options: Unpack[OutputOptions]
    ) -> "Output":
        """A file of these bytes. Its type follows from its name."""
        if not isinstance(data, Bytes | bytearray | memoryview):
            raise _bad(f"the output {name!r} takes bytes, not {type(data).__name__}")
        return _build(name, guess_type(name), options, data=Bytes(data))

    @classmethod
    def file(cls, path: Path | str, name: str = "", **options: Unpack[OutputOptions]) -> "Output":
        """A file on disk, under its own name unless another is given. Write large files into
        `document.scratch`: from there they are moved, from anywhere else they are copied.
        """
        place = Path(path)
        called = name or place.name
        return _build(called, guess_type(called), options, path=place)


class Result(Struct, Generic[T], frozen=True):
    """A value and outputs together. `tags` are added to the document's, for the steps after this one."""

    value: T
    outputs: Output | Iterable[Output] = ()
    tags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def guess_type(name: object, otherwise: str = _UNKNOWN_TYPE) -> str:
    found, encoding = _TYPES.guess_type(str(name))
    return otherwise if found is None or encoding else found


def _build(
    name: str, content_type: str, options: OutputOptions, *, data: Bytes = b"", path: Path | None = None
) -> Output:
    """Raises Reject for what cannot be laid out, TypeError for an option that there is not."""
    for option in options:
        if option not in OutputOptions.__annotations__:
            raise TypeError(f"an output has no option {option!r}; there are: {_OPTIONS}")
    _check_name(name)
    if preferred := options.get("preferred", ""):
        _check_name(preferred)
    change = options.get("change", "hang")
    if change not in tuple(Change):
        known = ", ".join(Change)
        raise _bad(f"the output {name!r} has the change {change!r}; choose one of: {known}")
    return Output(
        name=name,
        content_type=options.get("content_type") or content_type,
        data=data,
        path=path,
        change=change,
        tags=to_tags(options.get("tags", ())),
        preferred=preferred,
        role=options.get("role", ""),
        facts=options.get("facts", {}),
    )


def to_tags(given: object) -> tuple[str, ...]:
    """One tag or several. Raises Reject for anything else."""
    tags = (given,) if isinstance(given, str) else given
    if isinstance(tags, Iterable):
        found = tuple(tags)
        if all(isinstance(tag, str) and tag for tag in found):
            return found
    raise _bad(f"tags are words, not {given!r}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name in {".", ".."}:
        raise _bad(f"an output needs the plain name of a file, such as 'words.json', not {name!r}")
    if found := _BAD_CHARACTERS.search(name):
        raise _bad(f"the name of an output cannot hold {found[0]!r}: {name!r}")
    if len(name.encode()) > LONGEST_NAME_BYTES:
        raise _bad(f"the name of an output is longer than {LONGEST_NAME_BYTES} bytes: {name[:40]!r} …")


def _bad(text: str) -> Reject:
    return Reject(f"{text} ({find_person()})", code="bad_result")
