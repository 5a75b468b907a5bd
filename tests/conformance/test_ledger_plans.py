"""What the SQLite ledger's statements cost: they follow the work, not the size of the batch.

Without statistics SQLite takes a batch for a handful of rows and may walk all of it. So each query's plan is
looked at, and the steps that the frequent calls take are counted on a small ledger and on a large one.
"""

import asyncio
import contextlib
import re
import sqlite3

import pytest
from tests.suites.submission_situations import awaited

from quire.database.sqlite import SqliteDatabase, split_statements
from quire.ledger.adoption_port import AdoptedDocument
from quire.ledger.flow_values import Admission, Effects, Follower, first_number
from quire.ledger.port import Settlement
from quire.ledger.sqlite import SqliteLedger
from quire.ledger.sqlite.rows import SQL
from quire.model.batch import FileOutcome, TaskState
from quire.model.errors import Reject
from quire.testing.factories import outbox_message, report

SMALL, LARGE = 600, 60_000
ME, OTHER = 1, 2
NOW = 10.0
PLAIN, ARRIVING, FLOWING = 1, 6, 1_000_000  # numbers of the batches

BIG_TABLES = {"files", "tasks", "attempts", "uploads", "members"}

# Queries that may walk a batch, or all of one kind in it.
WALKS = {
    "skip_untouched": "once in a batch's life: what no phase has touched",
    "first_failed_tasks": "a person looks at a batch: at most 10,000 failed tasks, along their own index",
    "chosen_failed": "a person asks what a retry would run: the failed tasks, along their own index",
    "again_select": "a person retries: the failed tasks, along their own index",
    "flow_done_members": "once in a batch's life: units whose task is done, along their own index",
    "flow_failed_beside": "a success came late: whether there are units, along their own index",
    "flow_units_from": "a person retries: units from a phase on, along their own index",
    "flow_reopen_tasks": "a person reopens: whatever was running",
    "adoption_attempts_of_failed": "a person retries: failed tasks of the former form, along their own index",
    "adoption_failed": "a person retries: failed tasks of the former form, along their own index",
    "adoption_interrupt": "once in the life of a batch of the former form: whatever runs, along an index",
    "adoption_one_round": "once in the life of a batch that earlier versions have retried",
    "adoption_reset_all_inputs": "once in the life of a batch of the former form, when a person retries it",
    "blob_uses": "a scrub found damaged blobs: once for all of them in a stretch, to find other copies",
    "drop_uploads": "once in a batch's life: it was processed elsewhere",
    "drop_files": "once in a batch's life: it was processed elsewhere",
    "drop_members": "once in a batch's life: it was processed elsewhere",
    "drop_unsettled": "once in a batch's life: it was processed elsewhere",
}

_NO_ALIAS = "INDEXED|WHERE|SET|ON|JOIN|CROSS|LEFT|ORDER|GROUP|UNION|LIMIT|VALUES"
_NAMED = re.compile(rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+((?:temp\.)?\w+)(?:\s+(?!(?:{_NO_ALIAS})\b)(\w+))?")
_ALL_OF_A_BATCH = re.compile(r"\(batch_no=\?\)")
_OPEN_END = re.compile(r"\(batch_no=\?.* AND \w+[<>]\?\)")
_BOTH_ENDS = re.compile(r"(\w+)>\? AND \1<\?\)")


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """By size; the counted calls change nothing in them."""
    folder = tmp_path_factory.mktemp("plans")
    counted = {size: Counted(filled(folder / f"{size}.db", size)) for size in (SMALL, LARGE)}
    yield counted
    for one in counted.values():
        one.connection.close()


class TestPlans:
    def test_no_query_walks_more_than_it_is_meant_to(self, ledgers):
        connection = ledgers[LARGE].connection
        connection.execute("CREATE TEMP TABLE chosen (task_no, file_no, phase, role, root_no)")
        walks = {name: walked for name, query in SQL.items() if (walked := walks_of(connection, query))}
        connection.execute("DROP TABLE temp.chosen")
        unexpected = {name: walked for name, walked in walks.items() if name not in WALKS}
        assert unexpected == {}
        assert sorted(walks) == sorted(WALKS)  # none is excused without need

    @pytest.mark.parametrize(
        ("query", "walk"),
        [
            ("SELECT 1 FROM files WHERE size = 1", "SCAN files"),
            ("SELECT 1 FROM batches b JOIN tasks t ON t.batch_no = b.no WHERE t.rank = 1", "SCAN t"),
            ("SELECT 1 FROM tasks WHERE batch_no = 1 AND attempt = 2", "SEARCH tasks USING PRIMARY KEY"),
            ("SELECT 1 FROM tasks WHERE batch_no = 1 AND task_no > 2", "SEARCH tasks USING PRIMARY KEY"),
            ("SELECT 1 FROM tasks WHERE batch_no = 1 AND task_no > 2 LIMIT 9", None),
            ("SELECT 1 FROM tasks WHERE batch_no = 1 AND task_no > 2 AND task_no < 5", None),
            ("SELECT 1 FROM rounds WHERE batch_no = 1", None),
        ],
    )
    def test_a_walk_is_seen(self, ledgers, query, walk):
        found = walks_of(ledgers[SMALL].connection, query)
        assert [line.startswith(walk) for line in found] == [True] if walk else found == []


class Calls:
    """Each is made on a small ledger and on a large one: the same work, among a hundred times as much."""

    async def inputs(self, ledger, _size):
        assert len(await ledger.list_inputs(PLAIN, after="d5", limit=100)) == 100

    async def inputs_of_an_outcome(self, ledger, _size):
        assert len(await ledger.list_inputs(PLAIN, limit=100, outcome=FileOutcome.PENDING)) == 100

    async def failed_inputs(self, ledger, _size):
        found = await ledger.list_inputs(PLAIN, after="d1", limit=20, outcome=FileOutcome.FAILED)
        assert len(found) == 20

    async def failed_inputs_of_a_class(self, ledger, _size):
        found = await ledger.list_inputs(PLAIN, limit=20, outcome=FileOutcome.FAILED, error_class="damaged")
        assert len(found) == 20

    async def next_alarm(self, ledger, _size):
        assert await ledger.next_alarm(now=1.0) == 5.0

    async def task(self, ledger, size):
        assert (await ledger.get_task(PLAIN, size)).phase == 1

    async def running(self, ledger, _size):
        assert len(await ledger.list_running(ME)) == 100

    async def running_of_one_without_work(self, ledger, _size):
        assert await ledger.list_running(OTHER) == []

    async def dismiss(self, ledger, _size):
        await ledger.remove_member(OTHER)
        assert [member.no for member in await ledger.list_members()] == [ME]

    async def dismiss_one_at_work(self, ledger, _size):
        await ledger.remove_member(ME)
        assert len(await ledger.list_members()) == 2

    async def beat(self, ledger, _size):
        assert await ledger.record_heartbeat(ME, now=NOW)

    async def take(self, ledger, _size):
        assert len(await ledger.take_batches(ME, limit=5, now=NOW)) == 1

    async def failed_tasks(self, ledger, size):
        assert len(await ledger.list_failed_tasks(PLAIN, after=size // 2, limit=20)) == 20

    async def story(self, ledger, size):
        files, attempts = await ledger.get_file_history(PLAIN, path_of(size, size // 4))
        assert (len(files), len(attempts)) == (2, 4)

    async def unit_members(self, ledger, size):
        assert len(await ledger.list_unit_members(PLAIN, unit_no(size, 3))) == 60

    async def earlier(self, ledger, size):
        found = await ledger.load_child_results(PLAIN, [unit_no(size, 3)])
        assert [one.path for one in found[unit_no(size, 3)]] == ["d3/sub"]

    async def announce(self, ledger, size):
        assert await ledger.announce_upload(ARRIVING, awaited("/d3/new/file.tif"), now=NOW) is None
        assert await ledger.announce_upload(ARRIVING, awaited(f"/{path_of(size, 7)}"), now=NOW) is not None

    async def announce_what_collides(self, ledger, size):
        for path in ("/d3", f"/{path_of(size, 7)}/below/it"):
            with pytest.raises(Reject):
                await ledger.announce_upload(ARRIVING, awaited(path), now=NOW)

    async def received(self, ledger, size):
        await ledger.record_received(ARRIVING, awaited(f"/{path_of(size, 7)}", ""), now=NOW)
        await ledger.withdraw_upload(ARRIVING, f"/{path_of(size, 10)}", now=NOW)

    async def awaited(self, ledger, _size):
        assert len(await ledger.list_awaited(ARRIVING, limit=3)) == 3

    async def arrivals(self, ledger, _size):
        assert len(await ledger.list_arrivals(ARRIVING, after=("/d3", "/d3/f"), limit=50)) == 50

    async def submission(self, ledger, size):
        assert (await ledger.get_submission("arriving")).files_announced == size

    async def close_submission(self, ledger, size):
        closed = await ledger.close_batch(
            ARRIVING, revision=0, manifest_key="m", total_files=size, message=outbox_message(), now=NOW
        )
        assert closed.total_files == size

    async def load(self, ledger, _size):
        assert (await ledger.measure_load("me")).batches == 1

    async def idle_submissions(self, ledger, _size):
        assert [one.batch.no for one in await ledger.list_idle_submissions(before=5.0, limit=9)] == [ARRIVING]

    async def flowing(self, ledger, _size):
        (found,) = await ledger.list_flowing(limit=100, now=1.0)
        assert [(offer.phase, offer.due) for offer in found.offers] == [(2, False)]

    async def flowing_with_what_is_due(self, ledger, _size):
        (found,) = await ledger.list_flowing(limit=100, now=NOW)
        assert [(offer.phase, offer.due) for offer in found.offers] == [(2, True)]

    async def claim_fresh_of_a_phase(self, ledger, _size):
        assert len(await ledger.claim_phase(FLOWING, 2, member=OTHER, limit=50, now=1.0)) == 50

    async def claim_what_is_due_of_a_phase(self, ledger, _size):
        claims = await ledger.claim_phase(FLOWING, 2, member=OTHER, limit=50, now=NOW)
        assert {claim.order.attempt for claim in claims} == {2}

    async def settle_and_beget(self, ledger, size):
        told = [settled(size, number) for number in range(size // 4 + 1, size // 4 + 101)]
        assert (await ledger.settle_flow(FLOWING, told, now=NOW)).applied == 100

    async def settle_and_beget_late(self, ledger, size):
        told = [settled(size, number) for number in range(size // 4 - 4, size // 4 + 101)]
        assert (await ledger.settle_flow(FLOWING, told, now=NOW)).strays == 5

    async def give_back_of_a_phase(self, ledger, size):
        first = first_number(2) + size // 4 + 1
        await ledger.release_flow_claims(FLOWING, [(first + number, 1) for number in range(100)])

    async def claims_again(self, ledger, size):
        assert len(await ledger.load_claims(FLOWING, [first_number(2) + size // 2])) == 1

    async def overdue(self, ledger, _size):
        assert len(await ledger.list_overdue(now=NOW, limit=500)) == 20

    async def reset_alarm(self, ledger, _size):
        await ledger.reset_alarm(FLOWING)

    async def rest(self, ledger, _size):
        await ledger.rest_batch(FLOWING, ME, now=NOW)

    async def joins(self, ledger, _size):
        joins = await ledger.list_complete_joins(FLOWING, 500)
        assert [len(join.branches) for join in joins] == [2] * 20

    async def apply_joins(self, ledger, size):
        numbers = range(size // 2 + 1, size // 2 + 21)
        effects = [
            (Effects(phase=3, root_no=no, parent_no=no, tries=2), [(1, "name_twice", "why")])
            for no in numbers
        ]
        await ledger.apply_joins(await ledger.get_batch("flowing"), effects, now=NOW)
        assert await ledger.list_complete_joins(FLOWING, 500) == []

    async def listed(self, ledger, size):
        wanted = [path_of(size, 7), path_of(size, 7) + ".none", "d3/", "none/", "twins:d3"]
        assert len(await ledger.find_listed(FLOWING, wanted)) == 2

    async def admit(self, ledger, size):
        batch = await ledger.get_batch("flowing")
        admissions = [Admission(no, None, Follower(2, (0,), no, 0)) for no in range(1, 101)]
        await ledger.admit_files(
            batch, admissions, cursor=size, admitted=100, admissible=size, complete=False, now=NOW
        )

    async def seen(self, ledger, size):
        assert len(await ledger.list_seen(FLOWING, 4, after=size // 2, limit=100)) == 100

    async def flow_units(self, ledger, _size):
        assert [below for _, below in await ledger.list_flow_units(FLOWING, 4, after=0, limit=4)] == [
            1,
            0,
        ] * 2

    async def flow_unit_numbers(self, ledger, _size):
        assert len(await ledger.find_unit_numbers(FLOWING, 4, ["d1", "d3", "d8/none"])) == 2

    async def nearest_root(self, ledger, _size):
        assert await ledger.find_nearest_root(FLOWING, 4, "d3") == 0

    async def values(self, ledger, size):
        assert list(await ledger.list_values(FLOWING, 4, [size // 2 + 1])) == [size // 2 + 1]

    async def take_former(self, ledger, _size):
        assert len(await ledger.take_former(ME, pipelines=["p"], limit=5, now=NOW)) == 4

    async def adopt(self, ledger, _size):
        batch = await ledger.get_batch("plain")
        plan = {"plan": "{}", "digest": "d", "phases": ["ONE", "TWO"], "waits_at": None}
        batch = await ledger.adopt_batch(batch, **plan, now=NOW)
        documents = await ledger.list_former(batch, limit=100)
        assert len(documents) == 100
        some = [AdoptedDocument(one.listed.root_no, open_task=one.task.no) for one in documents]
        batch = await ledger.adopt_documents(batch, some, cursor=100, complete=False, now=NOW)
        assert batch.position.cursor == 100

    async def sweepable(self, ledger, _size):
        found = await ledger.list_sweepable(before=1e9, limit=3)
        assert [one.batch.completed_at for one in found] == [1.0, 2.0, 3.0]


CALLS = [name for name in vars(Calls) if not name.startswith("_")]


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_costs_the_same_in_a_batch_of_any_size(ledgers, call):
    steps = {}
    for size, counted in ledgers.items():
        with counted.undone():
            await getattr(Calls(), call)(SqliteLedger(counted), size)
        steps[size] = counted.steps
    assert steps[SMALL] > 0
    assert steps[LARGE] < 3 * steps[SMALL], steps


class Counted:
    """Stands in for the database: everything runs on one connection, which counts its steps."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.steps = 0

    async def read(self, work):
        return work(self.connection)

    async def write(self, work):
        return work(self.connection)

    @contextlib.contextmanager
    def undone(self):
        """Counts, and leaves the ledger as it was."""
        self.steps = 0
        self.connection.execute("BEGIN")
        self.connection.set_progress_handler(self._step, 1)
        try:
            yield
        finally:
            self.connection.set_progress_handler(None, 1)
            self.connection.execute("ROLLBACK")

    def _step(self):
        self.steps += 1
        return 0


def walks_of(connection, query):
    """The lines of its plan in which it walks more of a big table than it was asked for."""
    query = re.sub(r"^CREATE TEMP TABLE \w+ AS", "", query)  # of these no plan is told
    names = {}
    for table, alias in _NAMED.findall(query):
        names.setdefault(alias or table, set()).add(table)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", [None] * parameters(query)).fetchall()
    return [line for *_, line in plan if _walks(line, names, limited="LIMIT" in query)]


def _walks(line, names, *, limited):
    verb, name = [*line.split(), "", ""][:2]
    if verb not in {"SCAN", "SEARCH"} or not BIG_TABLES & names.get(name, {name}):
        return False
    if verb == "SCAN" or "AUTOMATIC" in line or _ALL_OF_A_BATCH.search(line):
        return True
    return bool(_OPEN_END.search(line)) and not _BOTH_ENDS.search(line) and not limited


def parameters(query):
    """How many values it takes: a bare question mark has the number after the largest before it."""
    largest = 0
    for number in re.findall(r"\?(\d*)", query):
        largest = max(largest, int(number) if number else largest + 1)
    return largest


def path_of(size, number):
    return f"d{number % (size // 60)}/f{number}.tif"


def unit_no(size, directory):
    """The file of a directory's unit, and its task."""
    return 2 * size + 1 + 2 * directory


def settled(size, number):
    """A success of the second phase, after which two steps run side by side."""
    follower = Follower(3, (0, 1), number, 1)
    effects = Effects(phase=2, root_no=number, parent_no=number, followers=(follower,), walking=1)
    told = report(first_number(2) + number, 1, batch_no=FLOWING)
    return Settlement(report=told, state=TaskState.DONE, effects=effects)


async def prepared(path):
    database = SqliteDatabase(path)
    await database.open()
    await SqliteLedger(database).prepare()
    await database.close()


def filled(path, size):
    """Two batches of the former form and of this size in their second phase, the second with ranks, one that
    flows, and small ones beside.
    """
    asyncio.run(prepared(path))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("BEGIN")
    connection.execute(
        "INSERT INTO crew VALUES (1, 'me', 'h', 'p', 0, 1, 1, 1), (2, 'other', 'h', 'p', 0, 1, 1, 1)"
    )
    connection.execute("CREATE TEMP TABLE n (i INTEGER PRIMARY KEY)")
    for no, name, stage, files, rank, member in (
        (PLAIN, "plain", "working", size, None, 7),
        (2, "ranked", "working", size, 1, 7),
        (3, "moving", "transforming", SMALL, None, 7),
        (4, "ended", "done", SMALL, None, 7),
        (5, "beside", "working", SMALL, 1, 7),
    ):
        values = {"no": no, "id": name, "stage": stage, "size": files, "rank": rank, "member": member}
        for statement in split_statements(FILL):
            connection.execute(statement, values)
    for statement in split_statements(FILL_ARRIVING):
        connection.execute(statement, {"no": ARRIVING, "size": size})
    for statement in split_statements(FILL_FLOWING):
        connection.execute(statement, {"no": FLOWING, "size": size})
    connection.execute("COMMIT")
    connection.close()
    return path


# In the first phase every seventh task has failed and every tenth was tried twice; half of the inputs were
# made into another file. Of the second phase a quarter is done, then come 100 attempts that are out, 60 tasks
# that are due again, a tenth of the batch that is due later, and fresh ones. 60 files are in each directory.
FILL = """
DELETE FROM n;
INSERT INTO n
WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < :size) SELECT i FROM c;
INSERT INTO batches (no, id, pipeline, pipeline_version, plan, stage, phase, status, total_files, last_file,
                     last_task, next_task, rank, created_at, updated_at)
VALUES (:no, :id, 'p', 1, '{}', :stage, 2, 'TWO', :size, 2 * :size + :size / 30, 2 * :size + :size / 30,
        :size + :size / 4 + 160 + :size / 10 + 1, :rank, 1, 1);
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, rank_left)
VALUES (:no, 1, 1, 'ONE', 1, :size, 0), (:no, 1, 2, 'TWO', :size + 1, :size + :size / 30, :size);
INSERT INTO ranks SELECT :no, 1, 2, value, :size FROM json_each('[0, 1, 2]') WHERE :rank IS NOT NULL;
INSERT INTO alarms VALUES (:no, 5.0);
INSERT INTO uploads (batch_no, path, state)
SELECT :no, 'd' || (i % (:size / 60)) || '/f' || i || '.tif', 'taken' FROM n;
INSERT INTO uploads (batch_no, path, state, error_class)
SELECT :no, 'd' || (i % (:size / 60)) || '/g' || i || '.bad', 'failed', 'damaged' FROM n WHERE i % 10 = 0;
INSERT INTO files (batch_no, file_no, root_no, born, path, folded, name, key, size, content_type, outcome,
                   error_class)
SELECT :no, i, i, 0, path, path,
       'f' || i || '.tif', 'k' || i, 10, 'image/tiff', CASE WHEN i % 7 = 0 THEN 'failed' ELSE 'done' END,
       CASE WHEN i % 7 <> 0 THEN NULL WHEN i % 2 THEN 'damaged' ELSE 'busy' END
FROM (SELECT i, 'd' || (i % (:size / 60)) || '/f' || i || '.tif' AS path FROM n);
INSERT INTO files (batch_no, file_no, root_no, parent_no, born, path, folded, name, key, size, content_type,
                   role)
SELECT :no, :size + i, i, i, 1, path || '.one', folded || '.one', name, key || '.one', 10, 'text/plain', 'one'
FROM n JOIN files ON batch_no = :no AND file_no = i WHERE i <= :size / 2;
INSERT INTO files (batch_no, file_no, root_no, born, path, folded, name, key, size, content_type, role,
                   listed)
SELECT :no, 2 * :size + 1 + 2 * (i - 1) + value, i, 2, 'd' || (i - 1) || iif(value, '/sub', ''),
       'd' || (i - 1) || iif(value, '/sub', ''), 'd', '', 0, 'x/unit', 'unit', 0
FROM n, json_each('[0, 1]') WHERE i <= :size / 60;
INSERT INTO members SELECT :no, 2 * :size + 1 + 2 * (i % (:size / 60)), i FROM n;
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, failures, started_at, outcome,
                   error_class)
SELECT :no, i, 1, i, iif(i % 7, 'done', 'failed'), 1 + (i % 10 = 0), i % 10 = 0, 1,
       iif(i % 7, 'done', 'erred'), iif(i % 7, NULL, 'busy')
FROM n;
INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds)
SELECT :no, i, 1, 'erred', 'w', 1, 1 FROM n WHERE i % 10 = 0;
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, due_at, member, outcome,
                   rank)
SELECT :no, :size + i, 2, i,
       CASE WHEN i <= :size / 4 THEN 'done' WHEN i <= :size / 4 + 100 THEN 'running'
            WHEN i <= :size / 4 + 160 + :size / 10 THEN 'waiting' ELSE 'ready' END,
       i <= :size / 4 + 160 + :size / 10, iif(i <= :size / 4 + 160 + :size / 10, 1, NULL),
       CASE WHEN i <= :size / 4 + 100 THEN NULL WHEN i <= :size / 4 + 160 THEN 5 ELSE 1000 + i END,
       iif(i > :size / 4 AND i <= :size / 4 + 100, :member, NULL),
       CASE WHEN i <= :size / 4 THEN 'done' WHEN i <= :size / 4 + 100 THEN NULL
            WHEN i <= :size / 4 + 160 + :size / 10 THEN 'erred' END,
       CASE WHEN :rank IS NULL THEN NULL WHEN i <= :size / 4 THEN 0 WHEN i <= :size - 20 THEN 1 ELSE 2 END
FROM n;
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, outcome)
SELECT :no, file_no, 2, file_no, 'done', 1, 1, 'done' FROM files WHERE batch_no = :no AND file_no > 2 * :size;
"""

# One batch that is open, of every tenth file nothing has come yet; and as many that have ended, of which the
# last three were not swept.
FILL_ARRIVING = """
DELETE FROM n;
INSERT INTO n
WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < :size) SELECT i FROM c;
INSERT INTO batches (no, id, pipeline, pipeline_version, plan, stage, status, created_at, updated_at, owner,
                     staged)
VALUES (:no, 'arriving', 'p', 1, '{}', 'open', 'OPEN', 1, 1, 'me', 1);
INSERT INTO batches (no, id, pipeline, pipeline_version, plan, stage, status, created_at, updated_at,
                     completed_at, owner, staged)
SELECT :no + i, 'ended' || i, 'p', 1, '{}', 'done', 'DONE', 1, 1, :size - i + 1, 'me', i > :size - 3 FROM n;
INSERT INTO submissions (batch_no, session_id, uploader, root_path, parent_pi, file_count, total_size,
                         metadata, custom_prompts, owner, fingerprint, files_announced, files_taken,
                         active_at, finalized_at, swept_at)
VALUES (:no, '', '', '', '', 0, 0, '{}', '{}', 'me', '', :size, :size, 1, NULL, NULL);
INSERT INTO submissions (batch_no, session_id, uploader, root_path, parent_pi, file_count, total_size,
                         metadata, custom_prompts, owner, fingerprint, active_at, finalized_at, swept_at)
SELECT :no + i, '', '', '', '', 0, 0, '{}', '{}', 'me', '', 1, iif(i % 2, 1, NULL),
       iif(i > :size - 3, NULL, 1)
FROM n;
INSERT INTO uploads (batch_no, path, folder, state)
SELECT :no, '/d' || (i % (:size / 60)) || '/f' || i || '.tif', '/d' || (i % (:size / 60)),
       iif(i % 10 = 0, 'awaited', 'taken')
FROM n;
"""

# One batch that flows. The first phase is done; of the second a quarter is done, then come 100 attempts that
# are out, 60 tasks that are due again and a tenth of the batch that is due later, 20 whose answer from
# outside is overdue and a tenth that is awaited, and fresh ones. In the third two steps run side by side: a
# quarter of the documents is joined, the joins of 20 are to be applied, those of the others wait. The fourth
# has units.
FILL_FLOWING = """
DELETE FROM n;
INSERT INTO n
WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < :size) SELECT i FROM c;
INSERT INTO batches (no, id, pipeline, pipeline_version, plan, stage, phase, cursor, status, total_files,
                     last_file, created_at, updated_at, sources, admissible, open_tasks, waits_at)
VALUES (:no, 'flowing', 'p', 1, '{}', 'flowing', 2, :size, 'TWO', :size, 2 * :size, 1, 1, 1, :size, :size, 4);
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, next_task, last_task)
VALUES (:no, 1, 1, 'ONE', 0, :size, :size, :size + 1, :size),
       (:no, 1, 2, 'TWO', 0, :size, :size / 4, :size / 4 + 180 + :size / 5 + 1, :size),
       (:no, 1, 3, 'THREE', 0, 2 * :size, :size, 2 * :size + 1, 2 * :size),
       (:no, 1, 4, 'FOUR', 0, 0, 0, 1, 0);
INSERT INTO alarms VALUES (:no, 5.0);
INSERT INTO files (batch_no, file_no, root_no, born, path, folded, name, key, size, content_type)
SELECT :no, i, i, 0, path, path, 'f' || i || '.tif', 'k' || i, 10, 'image/tiff'
FROM (SELECT i, 'd' || (i % (:size / 60)) || '/f' || i || '.tif' AS path FROM n);
INSERT INTO files (batch_no, file_no, root_no, born, path, folded, name, key, size, content_type, role,
                   listed)
SELECT :no, :size + 1 + 2 * (i - 1) + value, i, 4, 'd' || (i - 1) || iif(value, '/sub', ''),
       'd' || (i - 1) || iif(value, '/sub', ''), 'd', '', 0, 'x/unit', 'unit', 0
FROM n, json_each('[0, 1]') WHERE i <= :size / 60;
INSERT INTO members SELECT :no, :size + 1 + 2 * (i % (:size / 60)), i FROM n;
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, outcome)
SELECT :no, (1 << 40) + i, 1, i, 'done', 1, 1, 'done' FROM n;
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, due_at, member, outcome)
SELECT :no, (2 << 40) + i, 2, i, state, state <> 'ready', iif(state <> 'ready', 1, NULL),
       CASE WHEN state NOT IN ('waiting', 'external') THEN NULL WHEN past <= 160 OR past > 160 + :size / 10
            AND past <= 180 + :size / 10 THEN 5 ELSE 1000 + i END,
       iif(state = 'running', 1, NULL),
       CASE state WHEN 'done' THEN 'done' WHEN 'waiting' THEN 'erred' WHEN 'external' THEN 'external' END
FROM (SELECT i, i - :size / 4 AS past,
             CASE WHEN i <= :size / 4 THEN 'done' WHEN i <= :size / 4 + 100 THEN 'running'
                  WHEN i <= :size / 4 + 160 + :size / 10 THEN 'waiting'
                  WHEN i <= :size / 4 + 180 + :size / 5 THEN 'external' ELSE 'ready' END AS state FROM n);
INSERT INTO tasks (batch_no, task_no, phase, file_no, branch, state, attempt, started_at, outcome)
SELECT :no, (3 << 40) + 2 * i - value, 3, i, 1 - value,
       CASE WHEN i <= :size / 2 + 20 OR value THEN 'done' ELSE 'blocked' END, 1, 1,
       CASE WHEN i <= :size / 2 + 20 OR value THEN 'done' END
FROM n, json_each('[1, 0]') WHERE i <= :size / 4 OR i > :size / 2;
INSERT INTO joins
SELECT :no, 3, i, iif(i <= :size / 2 + 20, 0, 1), i <= :size / 4
FROM n WHERE i <= :size / 4 OR i > :size / 2;
"""
