"""Lists become array literals that PostgreSQL reads as they were."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.database.postgres_arrays import encode_array
from quire.model.batch import TaskState

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
SPECIAL = st.sampled_from(["", "NULL", "null", '"', "\\", ",", "{}", " a ", '\\"', "\n", "é", "a,b"])
LISTS = {
    "bigint": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5),
    "double precision": st.lists(st.none() | st.floats(allow_nan=False) | st.integers(-9, 9), max_size=5),
    "text": st.lists(st.none() | TEXT | SPECIAL, max_size=5),
    "boolean": st.lists(st.none() | st.booleans(), max_size=5),
    "bytea": st.lists(st.none() | st.binary(max_size=5), max_size=5),
}


def draw(lists):
    drawn = []

    @settings(max_examples=50, database=None)
    @given(values=lists)
    def collect(values):
        drawn.append(values)

    collect()
    return drawn


@pytest.mark.service
@pytest.mark.parametrize("kind", LISTS)
async def test_the_server_reads_what_was_written(postgres_server, kind):
    database = PostgresDatabase(fresh_schema(postgres_server))
    drawn, query = draw(LISTS[kind]), f"SELECT %s::{kind}[]".encode()

    async def read(connection):
        cursor = connection.cursor(binary=True)
        return [(await (await cursor.execute(query, (values,))).fetchone())[0] for values in drawn]

    await database.open()
    try:
        assert await database.read(read) == drawn
    finally:
        await database.close()


def test_members_of_enumerations_are_their_words():
    assert encode_array([TaskState.DONE, TaskState.FAILED]) == '{"done","failed"}'


def test_what_no_column_holds_is_refused():
    with pytest.raises(TypeError, match="dict"):
        encode_array([{}])
