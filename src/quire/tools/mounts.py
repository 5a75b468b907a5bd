"""Which paths lie on network shares and other file systems that another program or machine answers for.

Nothing on such a file system is touched to find out: a share that does not answer would keep the process.
Only Linux says what is mounted where; elsewhere every path counts as one of this machine.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOST_LINKS = 40
# A kind that is not known here is taken for a share: that costs a copy, the opposite mistake a process.
_OF_THIS_MACHINE = re.compile(
    "ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|jfs|reiserfs|nilfs2|overlay|aufs|tmpfs|ramfs|devtmpfs|rootfs"
    "|vfat|exfat|msdos|ntfs3?|fuseblk|hfs|hfsplus|apfs|iso9660|udf|squashfs|erofs|proc|sysfs|cgroup2?|devpts"
    "|mqueue|hugetlbfs|securityfs|debugfs|tracefs|pstore|bpf|configfs|binfmt_misc|fusectl|nsfs|efivarfs|selinuxfs"
)


def find_shares() -> tuple[Path, ...]:
    """Where shares are mounted. One that is mounted at the root does not count: the program lies on it."""
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    found: dict[Path, bool] = {}
    for line in lines:
        place, _, rest = line.partition(" - ")
        fields = place.split(" ")
        if len(fields) > 4 and rest:
            # A later line covers an earlier one at the same place.
            found[Path(_unescape(fields[4]))] = _OF_THIS_MACHINE.fullmatch(rest.split(" ", 1)[0]) is None
    return tuple(path for path, is_share in found.items() if is_share and path != Path("/"))


def is_below(path: Path, shares: Sequence[Path]) -> bool:
    """Does it lie on one of the shares, also through links? Links are followed up to the first share."""
    if not shares:
        return False
    at, names, links = Path("/"), list(reversed(_names(path))), 0
    while names:
        name = names.pop()
        if name == "..":
            at = at.parent
            continue
        here = at / name
        if any(here.is_relative_to(share) for share in shares):
            return True
        try:
            target = here.readlink()
        except OSError:  # no link, or nothing there
            at = here
            continue
        links += 1
        if links > _MOST_LINKS:
            return False
        at = Path("/") if target.is_absolute() else at
        names += reversed([one for one in target.parts if one != "/"])
    return False


def _names(path: Path) -> list[str]:
    return [one for one in Path(os.path.abspath(path)).parts if one != "/"]  # noqa: PTH100 - it must not resolve


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
