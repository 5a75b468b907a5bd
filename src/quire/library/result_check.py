"""Is what came out of a conversion the archive that was wanted? Asked before it is committed.

The process that made it read a document of somebody else's, so it is read as a stranger's: limits first.
Blocking. Must not know: the bucket.
"""

import stat
import zipfile
import zlib
from pathlib import Path

import msgspec
from msgspec import Struct

CONTENT, INFO = "content.md", "info.json"
MOST_MEMBERS = 200_000
MAX_INFO_BYTES = 16 << 20
MAX_CONTENT_BYTES = 16 << 30  # of all members together, unpacked


class _Info(Struct):
    hash: str


def find_fault(archive: Path, ident: str) -> str:
    """What is wrong with it, in words; empty when nothing is."""
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
    if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > MAX_CONTENT_BYTES:
        return "the conversion's result has too many members or unpacks to too much"
    if missing := [name for name in (CONTENT, INFO) if name not in names]:
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
