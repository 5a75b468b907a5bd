"""Rows of the intake, for every ledger on SQL."""

from collections.abc import Collection, Sequence

from quire.ledger.intake import AWAITED, NAME, FolderNames, ListedName, TakenFile
from quire.ledger.rows import Row, file_columns
from quire.model.errors import Stale
from quire.model.files import File


def number_names(folder: FolderNames, last: int) -> list[ListedName]:
    """The names of a folder with the numbers that follow on `last`."""
    roles = [(path, AWAITED) for path in folder.awaited] + [(path, NAME) for path in folder.names]
    return [ListedName(no, *one) for no, one in enumerate(roles, start=last + 1)]


def keep_files(listed: Sequence[ListedName]) -> list[ListedName]:
    return [one for one in listed if not one.path.endswith("/")]


def check_listed_before(wanted: Collection[str], known: Sequence[ListedName]) -> None:
    """Raises Stale."""
    if {one.path for one in known} != set(wanted):
        raise Stale(f"the folder of {next(iter(wanted))} has changed since it was listed")


def refuse_more(batch_no: int) -> Stale:
    return Stale(f"batch {batch_no} takes no more files: it has ended, or all of them are there")


def name_columns(batch_no: int, one: ListedName) -> Row:
    file = File(key="", path=one.path, name=one.path.rpartition("/")[2], size=0, content_type="")
    return (batch_no, one.no, one.no, 0, False, one.role, *file_columns(file), None, "")


def taken_columns(one: TakenFile, file: File) -> Row:
    """The last but one: a file that no step takes has walked to its end."""
    walking = 0 if one.first is not None else -1
    return (file.key, file.size, file.content_type, file.digest, walking, one.no)
