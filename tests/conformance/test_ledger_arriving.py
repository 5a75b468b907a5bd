"""Files arrive over HTTP in random order and all at once: what is counted is what a recount finds."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.servers.postgres import fresh_schema
from tests.simulation.shared.database import SimDatabase
from tests.suites.submission_situations import arrived, awaited, counters, new

from quire.database.postgres import PostgresDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.ledger.submissions import TAKEN
from quire.model.errors import Reject, Stale
from quire.testing.factories import outbox_message

SETTINGS = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# Some are the folders of others, some only look like it.
PATHS = ["/a", "/a/b", "/a/b/c", "/a0", "/a.b", "/%", "/é", "/e\u0301", "/😀/x"]
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["announce", "announce", "received", "received", "withdraw"]),
        st.sampled_from(PATHS),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=25,
)


class Model:
    """What should be noted: (stamp, size, is it taken) by path."""

    def __init__(self):
        self.files = {}
        self.changes = 0

    def announce(self, path, number):
        if any(path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in self.files):
            return Reject
        self.files[path] = (f"s{number}", 10 + number, False)
        self.changes += 1
        return None

    def received(self, path, number):
        stamp, size, taken = self.files.get(path, ("", 0, False))
        if stamp != f"s{number}":
            return Stale
        self.changes += not taken
        self.files[path] = (stamp, size if taken else 100 + number, True)
        return None

    def withdraw(self, path, _number):
        self.changes += self.files.pop(path, None) is not None

    @property
    def counters(self):
        taken = [size for _, size, is_taken in self.files.values() if is_taken]
        return len(self.files), len(taken), sum(taken), self.changes


async def played(ledger, batch_id, calls):
    no = (await ledger.open_submission(new(batch_id))).batch.no
    model = Model()
    for name, path, number in calls:
        expected = getattr(model, name)(path, number)
        answer = None
        try:
            match name:
                case "announce":
                    await ledger.announce_upload(no, awaited(path, f"s{number}", size=10 + number), now=5.0)
                case "received":
                    await ledger.record_received(no, awaited(path, f"s{number}", size=100 + number), now=6.0)
                case _:
                    await ledger.withdraw_upload(no, path, now=7.0)
        except (Reject, Stale) as error:
            answer = type(error)
        assert answer is expected, (name, path, number)
        assert counters(await ledger.get_submission(batch_id)) == model.counters
    noted = await ledger.list_arrivals(no, after=None, limit=99)
    assert {one.path: (one.stamp, one.size, one.state == TAKEN) for one in noted} == model.files
    assert {one.path for one in await ledger.list_awaited(no, limit=99)} == {
        path for path, (_, _, taken) in model.files.items() if not taken
    }


def play_many(opened, examples):
    """All in one store, each sequence in a batch of its own."""
    with asyncio.Runner() as runner:
        ledger = runner.run(opened.__aenter__())
        numbers = itertools.count()

        @settings(SETTINGS, max_examples=examples)
        @given(calls=CALLS)
        def play(calls):
            runner.run(played(ledger, f"01{next(numbers)}", calls))

        try:
            play()
        finally:
            runner.run(opened.__aexit__(None, None, None))


@asynccontextmanager
async def prepared(database, make):
    await database.open()
    try:
        ledger = make(database)
        await ledger.prepare()
        yield ledger
    finally:
        await database.close()


def test_sqlite_counts_what_a_recount_finds():
    play_many(prepared(SimDatabase(), SqliteLedger), 150)


@pytest.mark.service
def test_postgres_counts_what_a_recount_finds(postgres_server):
    play_many(prepared(PostgresDatabase(fresh_schema(postgres_server)), PostgresLedger), 40)


@pytest.mark.service
class TestTwoAtOnce:
    """Two houses on one PostgreSQL."""

    @pytest.fixture
    async def ledgers(self, postgres_server):
        dsn = fresh_schema(postgres_server)
        async with (
            prepared(PostgresDatabase(dsn), PostgresLedger) as one,
            prepared(PostgresDatabase(dsn), PostgresLedger) as two,
        ):
            yield one, two

    async def test_files_that_arrive_at_once_are_all_counted(self, ledgers):
        no = (await ledgers[0].open_submission(new())).batch.no
        paths = [f"/d{number % 3}/f{number}" for number in range(60)]
        await asyncio.gather(
            *(arrived(ledgers[number % 2], no, path) for number, path in enumerate(paths)),
            *(
                ledgers[number % 2].announce_upload(no, awaited("/same", f"s{number}"), now=5.0)
                for number in range(10)
            ),
        )
        assert counters(await ledgers[0].get_submission("01B")) == (61, 60, 600, 130)

    async def test_of_a_file_and_its_folder_one_is_refused(self, ledgers):
        no = (await ledgers[0].open_submission(new())).batch.no
        for number in range(20):
            calls = [
                ledgers[0].announce_upload(no, awaited(f"/d{number}"), now=5.0),
                ledgers[1].announce_upload(no, awaited(f"/d{number}/f/g"), now=5.0),
            ]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert sorted(type(one).__name__ for one in answers) == ["NoneType", "Reject"]
        assert (await ledgers[0].get_submission("01B")).files_announced == 20

    async def test_one_key_opens_one_batch(self, ledgers):
        calls = [
            ledgers[number % 2].open_submission(new(f"01{number}", idempotency_key="k"))
            for number in range(12)
        ]
        assert len({one.batch.no for one in await asyncio.gather(*calls)}) == 1

    async def test_nothing_is_received_beside_the_closing(self, ledgers):
        for round_no in range(10):
            opened = await ledgers[0].open_submission(new(f"01{round_no}"))
            no = opened.batch.no
            await ledgers[0].announce_upload(no, awaited("/a"), now=5.0)
            message = outbox_message(f"01{round_no}")
            closing = ledgers[0].close_batch(
                no, revision=1, manifest_key="m", total_files=0, message=message, now=9.0
            )
            both = (closing, ledgers[1].record_received(no, awaited("/a"), now=9.0))
            answers = await asyncio.gather(*both, return_exceptions=True)
            assert sum(isinstance(one, Stale) for one in answers) == 1
            found = await ledgers[0].get_submission(f"01{round_no}")
            assert (found.finalized_at is None) is (found.files_taken == 1)
