"""Rows are read by name: the columns of each query are those of its NamedTuple or value, in one order."""

import re

import pytest
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.postgres.rows import SQL as POSTGRES
from quire.ledger.rows import BatchRow, UploadRow
from quire.ledger.sqlite import SqliteLedger
from quire.ledger.sqlite.rows import SQL as SQLITE
from quire.ledger.submission_rows import SubmissionRow
from quire.ledger.values import FileVersion, Member, StrayReport

BATCH, UPLOAD = BatchRow._fields, UploadRow._fields
SUBMISSION = (*SubmissionRow._fields, *BATCH)
COLUMNS = {
    "batch_by_id": BATCH,
    "batch_by_no": BATCH,
    "list_batches": BATCH,
    "uploads_after": UPLOAD,
    "arrivals": UPLOAD,
    "awaited": UPLOAD,
    "submission_by_id": SUBMISSION,
    "idle_submissions": SUBMISSION,
    "sweepable": SUBMISSION,
    "crew": Member.__struct_fields__,
    "strays": StrayReport.__struct_fields__,
    "story_files": FileVersion.__struct_fields__,
}
# The table says `file_no` where the value says `no`.
_SAME = {"file_no": "no"}


def _placeholders(query: str) -> int:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", query)]
    return max(numbered) if numbered else query.count("?")


def _values(query: str) -> dict[str, None] | tuple[None, ...]:
    names = re.findall(r"%\((\w+)\)s", query)
    return dict.fromkeys(names) if names else (None,) * query.count("%s")


def _read_names(cursor) -> tuple[str, ...]:
    return tuple(_SAME.get(column[0], column[0]) for column in cursor.description)


@pytest.mark.parametrize("query", COLUMNS)
async def test_the_columns_of_a_query_on_sqlite_have_the_names_that_are_read(query: str, tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    try:
        await SqliteLedger(database).prepare()
        values = (0,) * _placeholders(SQLITE[query])
        found = await database.read(lambda connection: _read_names(connection.execute(SQLITE[query], values)))
    finally:
        await database.close()
    assert found == COLUMNS[query]


@pytest.mark.service
async def test_the_columns_on_postgresql_have_the_same_names_in_the_same_order(postgres_server):
    database = PostgresDatabase(fresh_schema(postgres_server))
    await database.open()

    async def describe(connection):
        found = {}
        for query in COLUMNS:
            text = POSTGRES[query]
            found[query] = _read_names(await connection.execute(text, _values(text.decode())))
        return found

    try:
        await PostgresLedger(database).prepare()
        assert await database.read(describe) == COLUMNS
    finally:
        await database.close()
