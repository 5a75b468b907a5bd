"""A whole engine in one process: real SQLite, real blobs, compute that answers as it is told."""

import pytest

from quire.batches.submission import close_batch
from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.engine.dispatcher import Dispatcher
from quire.engine.loop import EngineLoop
from quire.engine.membership import Membership
from quire.engine.outbox import Outbox
from quire.engine.retry import PhasePolicy, RetryPolicy
from quire.engine.scheduler import Scheduler
from quire.engine.sharing import Shares
from quire.ledger.port import OperatorAction, Upload
from quire.ledger.sqlite import SqliteLedger
from quire.model.plan import digest_of, encode_plan
from quire.model.work import Outcome, StepResult
from quire.queues.sqlite import SqliteQueues
from quire.system import LoopSignal
from quire.testing.factories import draft
from quire.testing.inline_compute import InlineCompute
from quire.testing.time import CountingIds, FakeClock


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


class SmallEngine:
    def __init__(self, database, folder):
        self.database = database
        self.ledger = SqliteLedger(database)
        self.queues = SqliteQueues(database, CountingIds())
        self.blobs = LocalBlobs(folder / "blobs")
        self.clock = FakeClock()
        self.troubles = []

    async def submit(self, pipeline, names, batch_id="0" * 26, *, digest="", **changes):
        known = {"pipeline": pipeline.name, "plan": encode_plan(pipeline), "plan_digest": digest_of(pipeline)}
        batch = await self.ledger.open_batch(draft(batch_id, **(known | changes)))
        uploads = [
            Upload(path=name, state="taken", size=1, key=f"cas/{name}", content_type="x", digest=digest)
            for name in names
        ]
        await self.ledger.record_uploads(batch.no, uploads)
        return await close_batch(batch, pipeline, uploads=self.ledger, blobs=self.blobs, clock=self.clock)

    def loop(self, pipeline, judge=None, *, room=100, name="w", dispatches=True, ledger=None):
        ledger = ledger or self.ledger
        signal = PatientSignal(self.clock)
        self.compute = InlineCompute(judge or (lambda _: (Outcome.DONE, StepResult())), signal, room)
        pipelines = {pipeline.name: pipeline}
        scheduler = Scheduler(
            batches=ledger,
            flow=ledger,
            blobs=self.blobs,
            outbox=Outbox(ledger, ledger, ledger, ledger, self.queues, self.blobs, self.clock),
            pipelines=pipelines,
            clock=self.clock,
            policy=PhasePolicy(),
        )
        self.dispatcher = Dispatcher(
            batches=ledger,
            tasks=ledger,
            flow=ledger,
            blobs=self.blobs,
            compute=self.compute,
            pipelines=pipelines,
            clock=self.clock,
            ids=CountingIds(),
            policy=RetryPolicy(),
            shares=Shares(),
        )
        return EngineLoop(
            batches=ledger,
            tasks=ledger,
            flow=ledger,
            membership=Membership(ledger, self.clock, name=name, kind="run", place="here"),
            scheduler=scheduler,
            dispatcher=self.dispatcher if dispatches else None,
            clock=self.clock,
            signal=signal,
            trouble=self.troubles.append,
        )

    def act(self, reason="because"):
        return OperatorAction(actor="tester", reason=reason, now=self.clock.now())


async def ignore(_batch):
    return None


@pytest.fixture
async def small(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    engine = SmallEngine(database, tmp_path)
    await engine.ledger.prepare()
    await engine.queues.prepare()
    yield engine
    await database.close()
