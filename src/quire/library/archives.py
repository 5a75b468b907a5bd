"""Result archives of converted documents: `content.md`, `assets/…`, `info.json` in a ZIP; written, read,
unpacked, and checked before they are committed.

Promises: equal contents give equal bytes; the text is found in the archives of every tool and version;
nothing leaves the folder an archive is unpacked to, links and odd names are skipped, and an archive that
unpacks to more than is allowed is refused before the disk is full. A new result is checked like a foreign
one: its converter read an untrusted document. Blocking. Must not know: the bucket.
"""

import errno
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from quire.model.errors import Reject
from quire.steps import markdown_links

TEXTS = ("content.md", "index.md")
CONTENT, INFO, ASSETS = TEXTS[0], "info.json", "assets/"
_PICTURE = re.compile(r"(?!\.)[\w .()+-]{1,200}\Z", re.ASCII)  # what Quire calls one
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_MARK = re.compile(r"<!-- page \d+ -->")
_LINK = re.compile(
    r"(\]\(\s*<?|(?:src|href)\s*=\s*[\"']|^[ \t]*\[[^\]\n]+\]:\s*<?)(?:\./)?assets/", re.MULTILINE
)
_PIECE = 1 << 20
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644
_UNIX = 3
# A broken archive surfaces as any of these, while it is opened or while it is read.
_FAULTS = (
    *(BadZipFile, LargeZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError),
    *(ValueError, LookupError, OverflowError),
)


class ArchiveLimits(Struct, frozen=True, kw_only=True):
    max_members: int = 200_000
    max_text_bytes: int = 256 << 20
    max_info_bytes: int = 16 << 20
    max_asset_bytes: int = 20 << 30  # of all together


DEFAULT_LIMITS = ArchiveLimits()


class ResultArchive:
    """An open archive; close it. What cannot be read raises Reject with code `bad_archive`."""

    def __init__(self, path: Path, limits: ArchiveLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        with _translated():
            self._zip = ZipFile(path)
        self._names = [one.filename for one in self._zip.infolist() if not one.is_dir()]
        self._members = {one.filename: one for one in self._zip.infolist() if _is_safe(one)}
        try:
            if len(self._names) > limits.max_members:
                raise _bad(f"it has more than {limits.max_members} members")
            if len(set(self._names)) < len(self._names):
                raise _bad("it has two members of one name")
        except Reject:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def text(self) -> str:
        """The Markdown."""
        return self._read(self._text_name(), self._limits.max_text_bytes).decode("utf-8", "replace")

    def lines(self, most: int) -> list[str]:
        """The first lines of the Markdown, overlong ones cut."""
        with _translated(), self._zip.open(self._members[self._text_name()]) as source:
            body = source.read(most * 4096)
        return [line[:1000] for line in body.decode("utf-8", "replace").splitlines()[:most]]

    def info(self) -> dict[str, Any]:
        """The content of info.json, with its size as a number; empty when it is missing or unreadable."""
        if INFO not in self._members:
            return {}
        try:
            info = msgspec.json.decode(self._read(INFO, self._limits.max_info_bytes), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return {}
        if (size := info.get("size_bytes")) is not None:
            info["size_bytes"] = _to_number(size)
        return info

    def assets(self) -> list[str]:
        """Names below the assets folder."""
        return [name.removeprefix(ASSETS) for name in self._members if name.startswith(ASSETS)]

    def unpack_assets(self, target: Path) -> int:
        """Unpack into a folder, which is created if there are assets; returns how many."""
        names, left = self.assets(), self._limits.max_asset_bytes
        for name in names:
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as stream:
                for piece in self._pieces(ASSETS + name, left):
                    left -= len(piece)
                    stream.write(piece)
        return len(names)

    def check(self, expected_hash: str) -> None:
        """Raises Reject unless it is a whole and proper result of Quire, of the source with that hash."""
        for name in self._names:
            is_picture = name.startswith(ASSETS) and _PICTURE.match(name, len(ASSETS))
            if name not in {CONTENT, INFO} and not (is_picture and name in self._members):
                raise _bad(f"it has a member {name[:100]!r} that does not belong there")
        for name in (CONTENT, INFO):
            if name not in self._members:
                raise _bad(f"there is no {name} in it")
        info = self.info()
        found = info.get("hash")
        if not isinstance(found, str) or not _HASH.match(found):
            raise _bad(f"{INFO} has no hash")
        if found != expected_hash:
            raise _bad(f"it is the result of {found}, not of {expected_hash}")
        self._check_text(info)
        left = self._limits.max_asset_bytes
        for name in self.assets():
            left -= sum(map(len, self._pieces(ASSETS + name, left)))  # reading checks the sums of the bytes

    def _check_text(self, info: dict[str, Any]) -> None:
        try:
            text = self._read(CONTENT, self._limits.max_text_bytes).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad(f"{CONTENT} is not UTF-8") from error
        blank = info.get("blank_pages")
        all_blank = isinstance(blank, list) and len(blank) == info.get("pages")
        if not all_blank and not _MARK.sub("", text).strip():
            raise _bad(f"{CONTENT} is empty, and not all pages are blank")
        for target in markdown_links.targets(text, ASSETS):
            if target not in self._members:
                raise _bad(f"{CONTENT} links to {target[:100]!r}, which is not in it")

    def _text_name(self) -> str:
        for name in TEXTS:
            if name in self._members:
                return name
        others = [name for name in self._members if name.lower().endswith(".md")]
        if len(others) == 1:
            return others[0]
        what = "no Markdown" if not others else "several Markdown files and none is content.md"
        raise _bad(f"it holds {what}")

    def _read(self, name: str, limit: int) -> bytes:
        return b"".join(self._pieces(name, limit))

    def _pieces(self, name: str, limit: int) -> Iterator[bytes]:
        """The bytes of a member, limited by its header and while they are unpacked."""
        member, left = self._members[name], limit
        too_large = _bad(f"{name[:100]!r} unpacks to more than the limit of {limit} bytes")
        if member.file_size > limit:
            raise too_large
        with _translated(), self._zip.open(member) as stream:
            while piece := stream.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise too_large
                yield piece


def write_archive(
    target: Path, markdown: Path, pictures: Mapping[str, Path], info: Mapping[str, Any]
) -> None:
    """Write a result, which appears under its name when it is complete. Raises Reject for a bad name."""
    for name in pictures:
        if not _PICTURE.match(name):
            raise _bad(f"a picture is called {name[:100]!r}")
    part = target.with_name(f"{target.name}.part")
    try:
        with ZipFile(part, "w") as archive:
            for name in sorted(pictures):
                _add_file(archive, ASSETS + name, ZIP_STORED, pictures[name])
            _add_file(archive, CONTENT, ZIP_DEFLATED, markdown)
            body = msgspec.json.format(msgspec.json.encode(info), indent=2)
            archive.writestr(_member(INFO, ZIP_DEFLATED), body)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _add_file(archive: ZipFile, name: str, compression: int, source: Path) -> None:
    member = _member(name, compression)
    with source.open("rb") as stream:
        member.file_size = source.stat().st_size
        with archive.open(member, "w") as target:
            shutil.copyfileobj(stream, target, _PIECE)


def _member(name: str, compression: int) -> ZipInfo:
    """No trace of the machine or the time."""
    member = ZipInfo(name, _LONG_AGO)
    member.compress_type = compression
    member.create_system = _UNIX
    member.external_attr = _MODE << 16
    return member


def unpack(path: Path, folder: Path) -> tuple[Path, int]:
    """Unpack an archive into a folder, replacing files of the same names; returns the Markdown file and the
    number of assets.
    """
    assets = folder / ASSETS.rstrip("/")
    with ResultArchive(path) as archive:
        text = archive.text()
        fresh = folder / f".{assets.name}.part"
        remove_folder(fresh)
        fresh.mkdir(parents=True)
        number = archive.unpack_assets(fresh)
        info = archive.info()
    remove_folder(assets)
    if number:
        fresh.rename(assets)
    remove_folder(fresh)
    target = folder / CONTENT
    target.write_text(text, "utf-8")
    (folder / INFO).write_bytes(msgspec.json.encode(info))
    return target, number


def relink_assets(text: str, folder: str) -> str:
    """Make links to `assets/…` point to `folder`, which must be percent-encoded."""
    return _LINK.sub(lambda found: f"{found[1]}{folder}/", text)


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def list_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _is_safe(member: ZipInfo) -> bool:
    """Whether a member is a plain file with a plain relative name. Links are not safe."""
    mode = member.external_attr >> 16
    if member.is_dir() or (mode and stat.S_IFMT(mode) not in {0, stat.S_IFREG}):
        return False
    name = member.filename
    parts = name.split("/")
    plain = not _UNSAFE.search(name) and len(name.encode("utf-8", "replace")) <= 1000
    return plain and not PurePosixPath(name).is_absolute() and {"", ".", ".."}.isdisjoint(parts)


def _to_number(size: object) -> int | None:
    """Older workers wrote the size as a text."""
    if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 19:
        return int(size)
    return size if isinstance(size, int) and not isinstance(size, bool) else None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise _bad(f"it is damaged, or no ZIP archive ({detail})") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _bad("a member lies outside of it") from error


def _bad(why: str) -> Reject:
    advice = (
        "Convert the document again: delete its archive below store/out, if there is one, and `retry` it."
    )
    return Reject(f"The result cannot be read: {why}. {advice}", code="bad_archive")
