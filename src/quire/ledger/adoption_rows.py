"""Rows of batches of the former form, for every ledger on SQL."""

from quire.ledger.adoption_port import FormerDocument, FormerTask
from quire.ledger.rows import Row, decode_result, read_listed_file
from quire.model.batch import FileOutcome, TaskState


def read_former(columns: Row) -> FormerDocument:
    """From twelve columns of the file, four of where it stands, seven of its task."""
    born, enters, takes_part, outcome, task_no, *task = columns[12:]
    return FormerDocument(
        listed=read_listed_file(columns[:12]),
        born=born,
        enters=enters,
        takes_part=bool(takes_part),
        outcome=None if outcome is None else FileOutcome(outcome),
        task=None if task_no is None else _read_task(task_no, tuple(task)),
    )


def _read_task(task_no: int, columns: Row) -> FormerTask:
    state, tries, result, error_class, error, folded = columns
    words = (error_class, error, bool(folded))
    return FormerTask(task_no, TaskState(state), tries, decode_result(result), *words)
