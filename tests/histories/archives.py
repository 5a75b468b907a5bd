"""Folders in one file each, and back, with every time of change to the nanosecond.

Promise: what is unpacked is what was packed. The local store tells versions of a blob by such times, so a
copy with rounded ones would have lost the labels of its blobs. Folders get the present time: uploads in parts
are given up when their folder has not changed for long, and those in a history are to be gone on with.
"""

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

_BILLION = 10**9


def pack(folder: Path, archive: Path, names: Sequence[str]) -> None:
    """These files and folders of `folder`, with nobody's name on them."""
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            for path in sorted([folder / name, *(folder / name).rglob("*")]):
                _add(tar, path, str(path.relative_to(folder)))


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            tar.extract(member, folder, filter="data", set_attrs=False)
            path = folder / member.name
            path.chmod(member.mode)
            if member.isfile():
                seconds, _, fraction = member.pax_headers["mtime"].partition(".")
                moment = int(seconds) * _BILLION + int(fraction)
                os.utime(path, ns=(moment, moment))


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tar.gettarinfo(path, name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    moment = path.stat().st_mtime_ns
    # As text: tarfile itself would round it to what fits into a float.
    entry.pax_headers = {"mtime": f"{moment // _BILLION}.{moment % _BILLION:09d}"}
    if entry.isfile():
        with path.open("rb") as file:
            tar.addfile(entry, file)
    else:
        tar.addfile(entry)
