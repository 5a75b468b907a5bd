"""Result archives of converted documents: read, unpacked, and checked before they are committed.

Promises: the text is found in the archives of every tool and version; nothing leaves the folder an archive
is unpacked to, links and odd names are skipped, and an archive that unpacks to more than is allowed is
refused before the disk is full. A new result is checked like a foreign one: its converter read an untrusted
document. Blocking. Must not know: the bucket.
"""

import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Self

import msgspec
from msgspec import Struct

from quire.model.errors import Reject

TEXTS = ("content.md", "index.md")
ASSETS, INFO = "assets", "info.json"
MAX_MEMBERS = 200_000
MAX_TEXT_BYTES = 256 << 20
MAX_INFO_BYTES = 16 << 20
MAX_UNPACKED_BYTES = 20 << 30
MAX_CONTENT_BYTES = 16 << 30  # of all members of a new result together, unpacked
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_LINK = re.compile(
    r"(\]\(\s*<?|(?:src|href)\s*=\s*[\"']|^[ \t]*\[[^\]\n]+\]:\s*<?)(?:\./)?assets/", re.MULTILINE
)
_FAULTS = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


class ResultArchive:
    """An open archive; close it. Raises Reject with code `bad_archive` when it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_FAULTS, ValueError) as error:
            raise _reject(f"it is not a zip archive ({error})") from error
        self._members = {one.filename: one for one in self._zip.infolist() if _is_safe(one)}
        if len(self._zip.infolist()) > MAX_MEMBERS:
            raise _reject(f"it has more than {MAX_MEMBERS} members")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def text(self) -> str:
        """The Markdown."""
        name = self._text_name()
        body = self._read(name, MAX_TEXT_BYTES + 1)
        if len(body) > MAX_TEXT_BYTES:
            raise _reject(f"its text has more than {MAX_TEXT_BYTES >> 20} MiB")
        return body.decode("utf-8", "replace")

    def lines(self, most: int) -> list[str]:
        """The first lines of the Markdown, overlong ones cut."""
        body = self._read(self._text_name(), most * 4096)
        return [line[:1000] for line in body.decode("utf-8", "replace").splitlines()[:most]]

    def info(self) -> dict[str, Any]:
        """The content of info.json; empty when it is missing or unreadable."""
        if INFO not in self._members:
            return {}
        try:
            return msgspec.json.decode(self._read(INFO, MAX_INFO_BYTES), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return {}

    def assets(self) -> list[str]:
        """Names below the assets folder."""
        inside = (name.partition("/") for name in self._members)
        return [rest for folder, _, rest in inside if folder == ASSETS and rest]

    def unpack_assets(self, target: Path) -> int:
        """Unpack into a folder, which is created if there are assets; returns how many."""
        names = self.assets()
        left = MAX_UNPACKED_BYTES
        for name in names:
            left -= self._unpack(f"{ASSETS}/{name}", target / name, left)
        return len(names)

    def _unpack(self, name: str, target: Path, left: int) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        try:
            with self._zip.open(self._members[name]) as source, target.open("xb") as file:
                while piece := source.read(1 << 20):
                    written += len(piece)
                    if written > left:
                        raise _reject(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB")
                    file.write(piece)
        except _FAULTS as error:
            raise _reject(f"its member {name[:80]!r} cannot be read ({error})") from error
        return written

    def _text_name(self) -> str:
        for name in TEXTS:
            if name in self._members:
                return name
        others = [name for name in self._members if name.lower().endswith(".md")]
        if len(others) == 1:
            return others[0]
        what = "no Markdown" if not others else "several Markdown files and none is content.md"
        raise _reject(f"it holds {what}")

    def _read(self, name: str, most: int) -> bytes:
        try:
            with self._zip.open(self._members[name]) as source:
                return source.read(most)
        except _FAULTS as error:
            raise _reject(f"its member {name[:80]!r} cannot be read ({error})") from error


def unpack(path: Path, folder: Path) -> tuple[Path, int]:
    """Unpack an archive into a folder, replacing files of the same names; returns the Markdown file and the
    number of assets.
    """
    with ResultArchive(path) as archive:
        text = archive.text()
        fresh = folder / f".{ASSETS}.part"
        remove_folder(fresh)
        fresh.mkdir(parents=True)
        number = archive.unpack_assets(fresh)
        info = archive.info()
    remove_folder(folder / ASSETS)
    if number:
        fresh.rename(folder / ASSETS)
    remove_folder(fresh)
    target = folder / TEXTS[0]
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


class _Info(Struct):
    hash: str


def find_fault(archive: Path, ident: str) -> str:
    """What is wrong with a new result; empty when nothing is."""
    try:
        if not stat.S_ISREG(archive.lstat().st_mode):
            return "the conversion's result is not a file"
        with zipfile.ZipFile(archive) as found:
            return _find_fault_in(found, ident)
    except FileNotFoundError:
        return "the conversion ended well but left no result"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        return f"the conversion's result is a damaged archive: {error}"


def _find_fault_in(found: zipfile.ZipFile, ident: str) -> str:
    members = found.infolist()
    names = {member.filename for member in members}
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_CONTENT_BYTES:
        return "the conversion's result has too many members or unpacks to too much"
    if missing := [name for name in (TEXTS[0], INFO) if name not in names]:
        return f"the conversion's result has no {' and no '.join(missing)}"
    if found.getinfo(INFO).file_size > MAX_INFO_BYTES:
        return f"the {INFO} of the conversion's result is too large"
    damaged = found.testzip()
    if damaged is not None:
        return f"the conversion's result is a damaged archive: {damaged[:200]!r} is not what was put in"
    try:
        said = msgspec.json.decode(found.read(INFO), type=_Info)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"the {INFO} of the conversion's result cannot be read: {error}"
    return "" if said.hash == ident else f"the conversion's result is of another document: {said.hash[:64]!r}"


def _is_safe(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a plain file with a plain relative name. Links are not safe."""
    mode = member.external_attr >> 16
    if member.is_dir() or (mode and stat.S_IFMT(mode) not in {0, stat.S_IFREG}):
        return False
    name = member.filename
    parts = name.split("/")
    plain = not _UNSAFE.search(name) and len(name.encode("utf-8", "replace")) <= 1000
    return plain and not PurePosixPath(name).is_absolute() and {"", ".", ".."}.isdisjoint(parts)


def _reject(why: str) -> Reject:
    advice = "Convert the document again: delete its archive below store/out, then `retry` it."
    return Reject(f"The result cannot be read: {why}. {advice}", code="bad_archive")
