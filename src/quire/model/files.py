"""Files of a batch. The bytes are in the blob store; `File` is the record of one."""

import hashlib
from enum import StrEnum
from typing import Any
from unicodedata import normalize

from msgspec import Struct, field

MARK_DIGITS = 12


class Change(StrEnum):
    """What an output does to the file list."""

    HANG = "hang"  # it hangs on its document, beside the list
    JOIN = "join"  # it joins the list and walks on from the next phase
    REPLACE = "replace"  # it takes its document's place in the list


class File(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One file of a batch's list.

    `marked` is only for steps that depend on it (`Step.reads`): empty unless every output of the step gets a
    mark in its name, because another input is called like the document but for case. See `mark_of`.
    """

    key: str
    path: str
    name: str
    size: int
    content_type: str
    digest: str = ""
    cid: str | None = None
    source_file: str | None = None
    tags: tuple[str, ...] = ()
    processing_config: dict[str, Any] = field(default_factory=dict)
    marked: str = ""


class Product(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A file that a step made, stored under `key` before the step's report is sent.

    `role` says what it is to the pipeline ("jpeg", "ref", "thumb" …); `facts` are what the step
    found out about it (page number, width, height …). It is laid out beside its document: as `preferred` when
    that name belongs to nobody else, otherwise (or without one) as the document's name, a dot and `name`.
    """

    role: str
    key: str
    size: int
    content_type: str
    digest: str
    facts: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    preferred: str = ""
    change: Change = Change.HANG
    tags: tuple[str, ...] = ()


class BlobUse(Struct, frozen=True, gc=False, kw_only=True):
    """A file of a batch that has these bytes, and the key of its blob: another one than that of the content
    where it was uploaded.
    """

    digest: str
    key: str
    size: int
    batch_id: str
    path: str
    is_input: bool


def mark_of(marked: str, ordinal: int) -> str:
    """The mark in the name of an output: `marked` says of which document and step, `ordinal` which of the
    step's outputs it is, counted from 0.
    """
    lineage = f"{marked}/{ordinal}".removeprefix("/")  # paths of uploads begin with one
    return hashlib.sha256(lineage.encode()).hexdigest()[:MARK_DIGITS]


def fold(path: str) -> str:
    """The path as names are compared: two that fold alike would lie on each other in some file system."""
    return path.casefold() if path.isascii() else normalize("NFC", normalize("NFC", path).casefold())


def folder_of(path: str) -> str:
    """The folder of a logical path, `/` at the top; the path may begin with a slash."""
    return "/" + path.rpartition("/")[0].removeprefix("/")


def sibling(path: str, name: str) -> str:
    """The path of another name in the same folder."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{name}"


def stem_and_extension(name: str) -> tuple[str, str]:
    """`p1.tif` → (`p1`, `.tif`); a leading dot does not begin an extension."""
    stem, dot, extension = name.rpartition(".")
    return (stem, dot + extension) if stem else (name, "")
