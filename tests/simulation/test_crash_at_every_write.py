"""A crash before and after every single write of conductor and mail, then a successor: nothing shows.

One process, real SQLite, real blobs, small chunks so that every loop goes round several times. Each case is
deterministic: its number is the seed.
"""

import pytest

from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.engine import conductor as conductor_module
from quire.engine.conductor import Conductor
from quire.engine.mail import LEASE_SECONDS, Mail
from quire.engine.retry import RetryPolicy
from quire.ledger.port import Upload
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import FileOutcome
from quire.model.pipeline import Added, Change, Kept, from_product
from quire.model.work import Outcome, StepResult
from quire.queues.sqlite import SqliteQueues
from quire.service.submit import submit
from quire.system import LoopSignal
from quire.testing.factories import draft, phase, pipeline, product
from quire.testing.inline import Countdown, CrashError, Crashing, InlineCompute, crashing
from quire.testing.time import CountingIds, FakeClock

NAMES = [f"f{number}" for number in range(5)] + ["bad", "shaky"]
BATCH = "0" * 26


def made(file, result, _taken):
    added = [
        Added(from_product(one, path=f"{file.path}.{one.role}", source=file, tags=("made",)), one.role)
        for one in result.products
    ]
    return Change(Kept((*file.tags, "seen")), tuple(added))


PIPELINE = pipeline(
    phase("ONE", becomes=made, cached=False),
    phase("TWO", finds=lambda file: "made" in file.tags, becomes=lambda *_: Change(None), cached=False),
)


def judge(order):
    if order.file.name == "bad":
        return Outcome.REJECTED, None
    if order.file.name == "shaky" and order.attempt == 1:
        return Outcome.ERRED, None
    return Outcome.DONE, StepResult(
        products=(product("jpeg"),)
    ) if "." not in order.file.name else StepResult()


class World:
    """What survives a crash: the disk. Everything else is built anew for each life."""

    def __init__(self, database, tmp_path):
        self.database = database
        self.ledger = SqliteLedger(database)
        self.queues = SqliteQueues(database, CountingIds())
        self.blobs = LocalBlobs(tmp_path / "blobs")
        self.clock = FakeClock()
        self.ran = []

    async def live(self, countdown):
        """One life of a conductor; its work is remembered in `ran`."""
        ledger = crashing(self.ledger, countdown)
        signal = PatientSignal(self.clock)
        compute = InlineCompute(judge, signal)
        mail = Mail(ledger, Crashing(self.queues, countdown), self.blobs, self.clock)
        conductor = Conductor(
            ledger=ledger,
            blobs=self.blobs,
            mail=mail,
            compute=compute,
            pipelines={PIPELINE.name: PIPELINE},
            clock=self.clock,
            ids=CountingIds(),
            signal=signal,
            policy=RetryPolicy(),
        )
        try:
            return await conductor.conduct(BATCH, ignore)
        finally:
            self.ran += compute.seen

    async def end(self):
        batch = await self.ledger.batch(BATCH)
        inputs = await self.ledger.inputs(batch.no, limit=99)
        files = await self.ledger.files(batch.no, after=0, limit=99)
        counts = await self.ledger.counts(batch.no)
        ends = [
            (one.path, one.outcome, one.error_class, [file.path for _, file in one.made]) for one in inputs
        ]
        return (
            (batch.status, ends, [(one.no, one.root_no, one.file) for one in files]),
            [(one.name, one.total, one.done, one.failed) for one in counts],
        )


class PatientSignal(LoopSignal):
    """Nothing else runs here: a wait without a signal is time passing."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    async def wait(self, timeout_seconds=None):
        if not await super().wait(0):
            self._clock.advance(timeout_seconds + 0.001)
            return False
        return True


async def ignore(_batch):
    return None


@pytest.fixture
async def world(tmp_path, monkeypatch):
    monkeypatch.setattr(conductor_module, "ROWS_AT_ONCE", 2)
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    world = World(database, tmp_path)
    await world.ledger.prepare()
    await world.queues.prepare()
    batch = await world.ledger.open_batch(draft(BATCH, pipeline=PIPELINE.name))
    await world.ledger.record_uploads(
        batch.no,
        [Upload(path=name, state="taken", size=1, key=f"cas/{name}", content_type="x") for name in NAMES],
    )
    await submit(batch, PIPELINE, ledger=world.ledger, blobs=world.blobs, clock=world.clock)
    yield world
    await database.close()


EXPECTED_ENDS = [
    ("bad", FileOutcome.FAILED, "rejected", []),
    *[(f"f{number}", FileOutcome.DONE, "", [f"f{number}.jpeg"]) for number in range(5)],
    ("shaky", FileOutcome.DONE, "", ["shaky.jpeg"]),
]


async def test_an_undisturbed_life_ends_as_it_should(world):
    await world.live(Countdown(10**9, after=False))
    (status, ends, files), counts = await world.end()
    assert (status, ends) == ("DONE", EXPECTED_ENDS)
    assert [file.path for _, _, file in files] == sorted(NAMES)
    assert counts == [("ONE", 7, 6, 1), ("TWO", 6, 6, 0)]
    assert len(world.ran) == 7 + 1 + 6  # each task once, the shaky one twice


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 60))
async def test_a_crash_at_any_write_changes_nothing_in_the_end(world, number, after):
    try:
        await world.live(Countdown(number, after=after))
    except CrashError:
        world.clock.advance(2 * LEASE_SECONDS)
        await world.live(Countdown(10**9, after=False))
    (status, ends, files), counts = await world.end()
    assert (status, ends) == ("DONE", EXPECTED_ENDS)
    assert [file.path for _, _, file in files] == sorted(NAMES)
    assert counts == [("ONE", 7, 6, 1), ("TWO", 6, 6, 0)]
    # At most what was out at the crash ran twice, and nothing that was settled.
    assert len(world.ran) <= 14 + 3
    doubled = await world.database.read(
        lambda connection: connection.execute(
            "SELECT count(*) - count(DISTINCT task_no) FROM attempts WHERE outcome = 'done'"
        ).fetchone()
    )
    assert doubled == (0,)
    kinds = [kind for _, kind, _ in await world.ledger.events(1, limit=99)]
    assert [kinds.count(kind) for kind in ("batch_started", "batch_done", "phase_started")] == [1, 1, 2]


# With fewer writes than a life needs to get anywhere there is no progress to be had.
@pytest.mark.parametrize("every", [5, 6, 7, 11])
async def test_a_house_that_crashes_all_the_time_still_gets_there(world, every):
    for _ in range(200):
        try:
            batch = await world.live(Countdown(every, after=True))
        except CrashError:
            world.clock.advance(2 * LEASE_SECONDS)
            continue
        assert batch.status == "DONE"
        break
    (status, ends, _), counts = await world.end()
    assert (status, ends) == ("DONE", EXPECTED_ENDS)
    assert counts == [("ONE", 7, 6, 1), ("TWO", 6, 6, 0)]


def _broken(*_):
    raise ZeroDivisionError("rules")


@pytest.mark.parametrize("rule", ["finds", "becomes", "rivals"])
async def test_a_pipeline_whose_rules_fail_ends_its_batch_with_the_reason(world, monkeypatch, rule):
    bad = pipeline(phase("ONE", cached=False, **{rule: _broken}))
    monkeypatch.setitem(globals(), "PIPELINE", bad)
    batch = await world.live(Countdown(10**9, after=False))
    assert batch.status == "ERROR"
    assert "ONE" in batch.error
    assert "ZeroDivisionError" in batch.error
