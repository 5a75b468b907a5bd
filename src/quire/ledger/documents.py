"""Documents that a process has met lately: what their rows say never changes, and a claim need not read it
again.

Folders and whole batches are no documents here: the list of their members is filled in later.
"""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from quire.ledger.flow_rows import UNIT_TYPE
from quire.ledger.flow_values import Admission, TaskPlace, phase_of
from quire.ledger.rows import Row, read_file
from quire.ledger.values import Claim
from quire.model.files import File
from quire.model.work import Order

MOST = 20_000


class Document(Struct, frozen=True, gc=False):
    """A file of a batch, the input that it was made of, and by which steps."""

    file: File
    root_no: int
    lineage: str


Documents = dict[int, Document]  # by number


# Rows of tasks, and their documents: from memory, and those that had to be read.
ClaimedRows = tuple[list[Row], Documents, Documents]
NOTHING_CLAIMED: ClaimedRows = ([], {}, {})


class KnownDocuments:
    """Those that were admitted, while there is room: they are claimed in the order of their admission. And
    the latest that had to be read. Looked up by any thread, changed by one.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._documents: OrderedDict[tuple[int, int], Document] = OrderedDict()

    def find(self, batch_no: int, file_nos: Iterable[int]) -> Documents:
        """Those that are known, by number."""
        known = self._documents
        found = {}
        for number in file_nos:
            document = known.get((batch_no, number))
            if document is not None:
                found[number] = document
        return found

    def admit(self, batch_no: int, admissions: Iterable[Admission]) -> None:
        """Keep inputs that will be claimed, as long as there is room."""
        for one in admissions:
            if len(self._documents) >= self._most:
                return
            file = one.file or one.listed
            if file is not None and one.first is not None:
                self._documents[batch_no, one.no] = Document(file, one.no, "")

    def keep(self, batch_no: int, documents: Documents) -> None:
        """Keep documents that were read for a claim: their next task is likely to follow."""
        for number, document in documents.items():
            if document.file.content_type != UNIT_TYPE:
                self._documents[batch_no, number] = document
        while len(self._documents) > self._most:
            self._documents.popitem(last=False)


def read_document(columns: Row) -> Document:
    """From the input's number, the lineage and ten columns of the file."""
    root_no, lineage, *own = columns
    return Document(read_file(tuple(own)), root_no, lineage)


def read_claims(batch_no: int, rows: Iterable[Row], documents: Documents) -> list[Claim]:
    """From five columns of each attempt, its branch, document, tries before and values given."""
    claims = []
    for task_no, attempt, failures, interruptions, started_at, branch, file_no, tries, given in rows:
        one = documents[file_no]
        order = Order(batch_no, task_no, attempt, one.file)
        place = TaskPlace(phase_of(task_no), branch, file_no, one.root_no, one.lineage, tries, given)
        claims.append(Claim(order, failures, interruptions, started_at, place))
    return claims
