"""Lays files out in a folder, by logical path. Every file is written under a temporary name and renamed, so
no half-written file is ever visible; a file that is there with the same content is left alone.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path

from quire.blobs import checked_reads, fixity
from quire.blobs.port import Blobs
from quire.model.errors import Bug, DamagedBlob, Misconfigured, Missing
from quire.model.files import File

COPYING_AT_ONCE = 4
MAX_NAME_BYTES = 255
_HASH_BYTES = 1 << 20


async def place_files(files: Sequence[File], out: Path, blobs: Blobs) -> list[File]:
    """Lay files out; return those whose stored bytes are damaged or gone: they are not laid out. Damaged
    blobs are set aside, so that the next run makes them again. Raises Misconfigured when one cannot be
    written.
    """
    # A few threads with many files each: a hop for every file would cost as much as its copy.
    shares = [files[at::COPYING_AT_ONCE] for at in range(min(COPYING_AT_ONCE, len(files)))]
    placed = await asyncio.gather(*(asyncio.to_thread(_place_local, share, out, blobs) for share in shares))
    lost = await asyncio.gather(*(_place_remote(remote, out, blobs) for remote, _ in placed))
    return [file for share in (*(damaged for _, damaged in placed), *lost) for file in share]


def remove_file(file: File, out: Path) -> bool:
    """Remove a file that was laid out, unless something else is in its place; folders that become empty go
    with it.
    """
    target = out / fit_path(file.path)
    if not _has_content(target, file):
        return False
    target.unlink(missing_ok=True)
    for folder in target.parents:
        if folder == out or out not in folder.parents:
            break
        with suppress(OSError):
            folder.rmdir()
    return True


def _place_local(files: Sequence[File], out: Path, blobs: Blobs) -> tuple[list[File], list[File]]:
    """Copy the files whose blobs are on this machine; return the others, and those that are damaged."""
    remote, damaged = [], []
    for file in files:
        target = out / fit_path(file.path)
        if _has_content(target, file):
            continue
        source = blobs.local_path(file.key)
        if source is None:
            remote.append(file)
            continue
        try:
            with _replace_file(target) as part:
                fixity.copy_checked(source, part, file.digest, file.key)
        except DamagedBlob:
            fixity.set_aside_file(blobs, file.key, file.digest)
            damaged.append(file)
    return remote, damaged


async def _place_remote(files: Sequence[File], out: Path, blobs: Blobs) -> list[File]:
    """The same for blobs elsewhere; return those that are damaged or gone. The disk is written to in threads:
    the engine goes on meanwhile.
    """
    lost = []
    for file in files:
        target = out / fit_path(file.path)
        part = await asyncio.to_thread(_begin_part, target)
        try:
            async for piece in checked_reads.stream(blobs, file.key, file.digest):
                await asyncio.to_thread(_append, part, piece)
            await asyncio.to_thread(part.replace, target)
        except (DamagedBlob, Missing):
            lost.append(file)
        except OSError as error:
            raise _cannot_write(target, error) from error
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
    return lost


def _begin_part(target: Path) -> Path:
    with _replace_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _part_of(target)
        part.write_bytes(b"")
    return part


def _append(part: Path, piece: bytes) -> None:
    with part.open("ab") as file:
        file.write(piece)


@contextmanager
def _replace_file(target: Path) -> Iterator[Path]:
    """A temporary file beside the target; renamed to it at the end."""
    part = _part_of(target)
    with _replace_errors(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield part
            part.replace(target)
        except (OSError, DamagedBlob):
            part.unlink(missing_ok=True)
            raise


def _part_of(target: Path) -> Path:
    return target.with_name(f".{hashlib.sha256(target.name.encode()).hexdigest()[:32]}.part")


@contextmanager
def _replace_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> Misconfigured:
    advice = "free some space" if error.errno in {ENOSPC, EDQUOT} else "mend that"
    return Misconfigured(
        f"cannot write {target}: {error.strerror}; {advice} or choose another --out, then run again"
    )


def _has_content(target: Path, file: File) -> bool:
    try:
        if target.is_symlink() or target.stat().st_size != file.size:
            return False
        digest = hashlib.sha256()
        with target.open("rb") as existing:
            while piece := existing.read(_HASH_BYTES):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == file.digest


def fit_path(path: str) -> str:
    """A logical path as a path in the folder: names too long for file systems are cut and get a hash of the
    whole name, so that they stay different; extensions are kept. Uploaded paths begin with a slash, which
    stands for the folder.
    """
    segments = path.removeprefix("/").split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise Bug(f"not a logical path: {path!r}")
    return "/".join(_fit_name(segment) for segment in segments)


def _fit_name(name: str) -> str:
    raw = name.encode()
    if len(raw) <= MAX_NAME_BYTES:
        return name
    mark = "~" + hashlib.sha256(raw).hexdigest()[:10]
    dot = name.find(".", max(0, len(name) - 32))
    ending = name[dot:] if dot >= 0 else ""
    room = MAX_NAME_BYTES - len(mark) - len(ending.encode())
    return raw[:room].decode(errors="ignore") + mark + ending
