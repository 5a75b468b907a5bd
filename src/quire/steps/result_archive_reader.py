"""Reads the result of a conversion, Quire's or a published worker's, and checks one before it is stored.

Reading is tolerant: `content.md`, else `index.md`, else the only `*.md`; sizes as numbers or texts; an
`info.json` that is missing. Checking is strict: only what `result_archive` writes passes. Both
treat the archive as hostile: names are checked, sizes are limited before and while bytes are unpacked.
"""

import errno
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from quire.model.errors import Reject
from quire.steps import markdown_links
from quire.steps.result_archive import ASSETS, CONTENT, INFO

_OLD_CONTENT = "index.md"
_NAME = re.compile(r"(?!\.)[\w .()+-]{1,200}\Z", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_MARK = re.compile(r"<!-- page \d+ -->")
_MOST_MEMBERS = 200_000
_PIECE = 1 << 20


class ReadLimits(Struct, frozen=True, kw_only=True):
    max_text_bytes: int = 512_000_000
    max_info_bytes: int = 64_000_000
    max_asset_bytes: int = 4_000_000_000  # of all together


class MarkdownResult(Struct, frozen=True, kw_only=True):
    """`info` is as it stands in the archive, but `size_bytes` is a number or None, `tags` a list of texts."""

    markdown: str
    info: dict[str, Any]
    assets: tuple[str, ...]  # their names below assets/


def read_result(path: Path, limits: ReadLimits | None = None) -> MarkdownResult:
    """Raises Reject when there is no text to be found in it."""
    limits = limits or ReadLimits()
    with _open_archive(path) as archive:
        members = _members(archive)
        text = _unpack(archive, members[_content_name(members)], limits.max_text_bytes)
        info: dict[str, Any] = {}
        if INFO in members:
            info = _info(_unpack(archive, members[INFO], limits.max_info_bytes))
        assets = tuple(sorted(name[len(ASSETS) :] for name in members if _is_asset(name)))
    return MarkdownResult(markdown=text.decode("utf-8", "replace"), info=info, assets=assets)


def unpack_assets(path: Path, folder: Path, limits: ReadLimits | None = None) -> list[Path]:
    """Write the assets into the folder, which exists; what has no plain file name is left out."""
    room = (limits or ReadLimits()).max_asset_bytes
    written = []
    with _open_archive(path) as archive:
        for name, member in sorted(_members(archive).items()):
            if not _is_asset(name):
                continue
            target = folder / name[len(ASSETS) :]
            with target.open("wb") as stream:
                for piece in _pieces(archive, member, room):
                    room -= len(piece)
                    stream.write(piece)
            written.append(target)
    return written


def check_archive(path: Path, expected_hash: str | None = None, limits: ReadLimits | None = None) -> None:
    """Raises Reject (`bad_archive`) unless it is a whole and proper result, of the source with that hash."""
    limits = limits or ReadLimits()
    with _open_archive(path) as archive:
        members = _members(archive)
        for name in members:
            if name not in {CONTENT, INFO} and not _is_asset(name):
                raise _bad(f"it has a member {name[:100]!r} that does not belong there")
        for name in (CONTENT, INFO):
            if name not in members:
                raise _bad(f"there is no {name} in it")
        info = _check_info(_unpack(archive, members[INFO], limits.max_info_bytes), expected_hash)
        text = _check_text(_unpack(archive, members[CONTENT], limits.max_text_bytes), info)
        for target in markdown_links.targets(text, ASSETS):
            if target not in members:
                raise _bad(f"{CONTENT} links to {target[:100]!r}, which is not in it")
        room = limits.max_asset_bytes
        for name, member in members.items():
            if _is_asset(name):
                room -= sum(map(len, _pieces(archive, member, room)))  # reading checks the sums of the bytes


def _check_text(raw: bytes, info: dict[str, Any]) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(f"{CONTENT} is not UTF-8") from error
    blank = info.get("blank_pages")
    all_blank = isinstance(blank, list) and len(blank) == info.get("pages")
    if not all_blank and not _MARK.sub("", text).strip():
        raise _bad(f"{CONTENT} is empty, and not all pages are blank")
    return text


def _check_info(raw: bytes, expected_hash: str | None) -> dict[str, Any]:
    info = _info(raw)
    found = info.get("hash")
    if not isinstance(found, str) or not _HASH.match(found):
        raise _bad(f"{INFO} has no hash")
    if expected_hash is not None and found != expected_hash:
        raise _bad(f"it is the result of {found}, not of {expected_hash}")
    return info


def _info(raw: bytes) -> dict[str, Any]:
    try:
        info = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    size = info.get("size_bytes")
    if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 19:
        size = int(size)
    info["size_bytes"] = size if isinstance(size, int) and not isinstance(size, bool) else None
    tags = info.get("tags")
    info["tags"] = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return info


def _members(archive: ZipFile) -> dict[str, ZipInfo]:
    found: dict[str, ZipInfo] = {}
    if len(archive.infolist()) > _MOST_MEMBERS:
        raise _bad(f"it has more than {_MOST_MEMBERS} members")
    for member in archive.infolist():
        if member.is_dir():
            continue
        if member.filename in found:
            raise _bad(f"it has two members {member.filename[:100]!r}")
        found[member.filename] = member
    return found


def _content_name(members: dict[str, ZipInfo]) -> str:
    for name in (CONTENT, _OLD_CONTENT):
        if name in members:
            return name
    texts = [name for name in members if name.lower().endswith(".md")]
    if len(texts) != 1:
        raise _bad(f"there is no {CONTENT} in it, and {len(texts)} other texts")
    return texts[0]


def _is_asset(name: str) -> bool:
    return name.startswith(ASSETS) and _NAME.match(name, len(ASSETS)) is not None


def _unpack(archive: ZipFile, member: ZipInfo, limit: int) -> bytes:
    return b"".join(_pieces(archive, member, limit))


def _pieces(archive: ZipFile, member: ZipInfo, limit: int) -> Iterator[bytes]:
    if member.file_size > limit:
        raise _too_large(member, limit)
    with archive.open(member) as stream:
        while piece := stream.read(_PIECE):
            limit -= len(piece)
            if limit < 0:
                raise _too_large(member, limit)
            yield piece


@contextmanager
def _open_archive(path: Path) -> Iterator[ZipFile]:
    # A broken archive surfaces as any of these, while it is opened or while it is read.
    try:
        with ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise
    except (
        BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
        LookupError,
        OverflowError,
    ) as error:
        raise _bad(" ".join(str(error).split())[:200] or type(error).__name__) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # A member that says it lies before the beginning of the file.
        raise _bad("a member lies outside of it") from error


def _too_large(member: ZipInfo, limit: int) -> Reject:
    return _bad(f"{member.filename[:100]!r} is larger than the limit of {max(limit, 0)} bytes")


def _bad(detail: str) -> Reject:
    return Reject(
        f"the archive is not a valid result of a conversion ({detail}). Convert the document again.",
        code="bad_archive",
    )
