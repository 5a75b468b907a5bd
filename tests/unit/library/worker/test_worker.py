"""A worker on a store in memory, with real converting processes: every way in which a job can end."""

import asyncio
import io
import json
import zipfile

import msgspec
import pytest
from msgspec import structs
from tests.situations.libraries import CountingObjects, ingest_text, list_keys, memory_library, worker_options

from quire.library import logs
from quire.library.context import LibraryRules
from quire.library.protocol import janitor, layout, lifecycle, operator
from quire.library.protocol.bodies import JobRecord, TodoMarker, decode
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.worker import registration, slots
from quire.library.worker.job_run import JobOutcome
from quire.library.worker.loop import WorkerEventKind, work
from quire.library.worker.run_windows import parse_window
from quire.library.worker.source import KnownSource
from quire.model.errors import Misconfigured, Retry
from quire.testing.time import CountingIds, FakeClock

HOUR = 3600


class LibraryUnderTest:
    def __init__(self, tmp_path, **rules):
        self.scratch = tmp_path / "scratch"
        self.clock = FakeClock()
        context = memory_library(clock=self.clock, ids=CountingIds(), rules=LibraryRules(**rules))
        self.objects = CountingObjects(context.objects)
        self.context = structs.replace(context, objects=self.objects)
        self.stop = asyncio.Event()
        self.told = []
        self.on = {}  # what to do when something is told

    async def work(self, lookup=None, **changes):
        given = {"run_once": True, **changes}
        return await work(
            self.context,
            worker_options(self.scratch, **given),
            self.stop,
            on_event=self._heard,
            lookup=lookup,
        )

    def _heard(self, told):
        self.told.append(told)
        if told.kind in self.on:
            self.on[told.kind](told)

    def kinds(self):
        return [told.kind for told in self.told]

    async def state(self, job):
        found = await self.context.objects.read(layout.state(job))
        return None if found is None else decode(found.body, JobRecord)

    async def json(self, key):
        found = await self.context.objects.read(key)
        return None if found is None else msgspec.json.decode(found.body)

    async def done(self, job):
        return await self.context.objects.head(layout.out(job)) is not None


@pytest.fixture
def library(tmp_path):
    return LibraryUnderTest(tmp_path)


async def test_a_job_is_converted_and_nothing_else_is_left_of_it(library):
    job = await ingest_text(library.context, "pages 2", name="Rules v2 ü.pdf")
    worked = await library.work()
    assert worked.outcomes == {JobOutcome.DONE: 1}
    assert await list_keys(library.context) == []
    with zipfile.ZipFile(io.BytesIO(await library.context.blobs.get(layout.out(job)))) as archive:
        info = json.loads(archive.read("info.json"))
    assert info["hash"] == job
    assert (info["original_filename"], info["tags"], info["worker_id"]) == (
        "Rules v2 ü.pdf",
        ["a", "ü"],
        "w1",
    )
    assert list((library.scratch / "w1").iterdir()) == []
    assert slots.take_slot(library.scratch, "w1").read() is None


async def test_a_name_that_was_lost_is_recalled(library):
    job = await ingest_text(library.context, "x")

    async def lookup(ident):
        assert ident == job
        return KnownSource("Games/Rules.pdf", ("Games",))

    await library.work(lookup)
    with zipfile.ZipFile(io.BytesIO(await library.context.blobs.get(layout.out(job)))) as archive:
        info = json.loads(archive.read("info.json"))
    assert (info["original_filename"], info["tags"]) == ("Rules.pdf", ["Games"])


@pytest.mark.parametrize(
    ("text", "words", "stage"),
    [
        ("crash", "SIGABRT", "converting"),
        ("fail", "page 3 is a riddle", "converting"),
        ("stumble", "KeyError", "converting"),
        ("nothing", "told nothing", "packaging"),
        ("mute", "told nothing", "packaging"),
        ("twice", "left no Markdown", "packaging"),
        ("linked", "assets/none.png", "packaging"),
        ("named", ".hidden.png", "packaging"),
    ],
)
async def test_a_bad_conversion_fails_with_its_reason(library, text, words, stage):
    job = await ingest_text(library.context, text)
    worked = await library.work()
    assert worked.outcomes == {JobOutcome.FAILED: 1}
    state = await library.state(job)
    assert (state.state, state.charged) == ("failed", 1)
    assert words in state.error
    assert await list_keys(library.context) == sorted([layout.failed(job), layout.state(job)])
    told = await library.json(logs.error_key(job))
    assert words in told["error"]
    assert told["context"] == {"stage": stage, "worker_id": "w1", "retry_count": 0, "max_retries": 3}
    assert set(told) == {"error", "timestamp", "traceback", "context"}
    if text == "nothing":
        assert (await library.context.objects.read(logs.log_key(job))).body == b"this and that"


async def test_a_source_that_is_not_what_it_is_named_after(library):
    job = await ingest_text(library.context, "x")
    library.context.blobs.store(layout.raw(job), b"%PDF y")
    await library.work()
    assert "instead of its name" in (await library.state(job)).error
    assert not await library.done(job)


async def test_a_source_that_is_not_there(library):
    job = await ingest_text(library.context, "x")
    await library.context.blobs.delete(layout.raw(job))
    await library.work()
    assert "not in the bucket" in (await library.state(job)).error


async def test_a_job_is_given_up_after_its_last_attempt(tmp_path):
    library = LibraryUnderTest(tmp_path, max_retries=1)
    job = await ingest_text(library.context, "crash")
    assert (await library.work()).outcomes == {JobOutcome.FAILED: 1}
    # Nobody runs a janitor: the worker that finds nothing looks after what failed.
    assert (await library.work()).outcomes == {JobOutcome.DEAD: 1}
    assert (await library.work()).outcomes == {}
    assert await list_keys(library.context) == sorted([layout.dead(job), layout.state(job)])
    assert (await library.json(layout.dead(job)))["total_retries"] == 2


async def test_told_to_stop_it_gives_its_job_back_uncounted(library):
    job = await ingest_text(library.context, "hang", tier="2_high")
    library.on[WorkerEventKind.CLAIMED] = lambda _: library.stop.set()
    worked = await library.work(run_once=False)
    assert worked.outcomes == {JobOutcome.RELEASED: 1}
    assert await list_keys(library.context) == sorted([layout.todo("2_high", job), layout.state(job)])
    state = await library.state(job)
    assert (state.state, state.charged, state.attempt) == ("waiting", 0, 1)
    assert (await library.json(layout.todo("2_high", job)))["recovered_from"] == "graceful_shutdown"
    assert (await library.json(registration.key("w1")))["status"] == "stopped"
    assert list((library.scratch / "w1").iterdir()) == []


async def test_one_run_does_the_job_that_its_sweep_put_back(library):
    """A published janitor judged a dead worker of ours: a claim is refused until the sweep has counted it."""
    job = await ingest_text(library.context, "x")
    claim = lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor("gone"))
    await library.context.perform(claim)
    await library.context.objects.put(layout.todo("3_normal", job), b'{"retries": 1}')
    await library.context.objects.delete([layout.processing(job)])
    library.clock.advance(HOUR)
    worked = await library.work()
    assert worked.outcomes == {JobOutcome.DONE: 1}
    assert await library.done(job)


async def test_one_run_does_what_a_published_tool_retried_a_moment_ago(library):
    job = await ingest_text(library.context, "x")
    for _ in range(library.context.rules.max_retries + 1):
        await library.context.objects.put(layout.todo("3_normal", job), b"")
        claim = lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor("w0"))
        held = await library.context.perform(claim)
        await library.context.perform(lifecycle.fail(held, library.context.actor("w0"), "no"))
        if (await library.state(job)).state == "failed":
            await library.context.perform(janitor.settle(job, library.context.actor("j")))
    assert (await library.state(job)).state == "dead"
    retried = b'{"retries": 4, "queued_at": 1, "recovered_from": "manual_retry_dead-letter"}'
    await library.context.objects.put(layout.todo("1_critical", job), retried)
    await library.context.objects.delete([layout.dead(job)])
    worked = await library.work(sweep=False)
    assert worked.outcomes == {JobOutcome.DONE: 1}


async def test_when_its_window_closes_it_gives_its_job_back(library):
    job = await ingest_text(library.context, "hang")
    moments = iter([10 * HOUR, 12 * HOUR])  # when it begins, and when it looks again
    worked = await library.work(
        windows=(parse_window("08:00-12:00"),), abort_outside=True, local=lambda _: next(moments)
    )
    assert worked.outcomes == {JobOutcome.RELEASED: 1}
    assert (await library.json(layout.todo("3_normal", job)))["recovered_from"] == "schedule_window_closed"
    assert (await library.state(job)).charged == 0


async def test_outside_its_windows_it_claims_nothing(library):
    await ingest_text(library.context, "x")
    library.on[WorkerEventKind.CLOSED] = lambda _: library.stop.set()
    worked = await library.work(windows=(parse_window("08:00-09:00"),), local=lambda _: 12 * HOUR)
    assert worked.outcomes == {}
    assert library.told[1].text == str(20 * HOUR)


async def test_a_job_that_is_taken_from_it_is_not_touched_any_more(tmp_path):
    library = LibraryUnderTest(tmp_path, heartbeat_seconds=0.05)
    job = await ingest_text(library.context, "hang")
    taking = []

    def take(_):
        taking.append(
            asyncio.ensure_future(
                library.context.perform(operator.cancel(job, library.context.actor("p"), tier=None))
            )
        )

    library.on[WorkerEventKind.CLAIMED] = take
    worked = await library.work()
    await asyncio.gather(*taking)
    assert worked.outcomes == {JobOutcome.LOST: 1}
    assert not await library.done(job)
    assert (await library.state(job)).state == "waiting"
    assert await library.json(logs.error_key(job)) is None


async def test_a_result_of_a_job_that_was_taken_meanwhile_is_not_stored(library):
    job = await ingest_text(library.context, "x")

    async def take(_):
        await library.context.perform(operator.cancel(job, library.context.actor("p"), tier=None))
        library.clock.advance(11)  # so that the last beat does not count any more

    assert (await library.work(take)).outcomes == {JobOutcome.LOST: 1}
    assert not await library.done(job)
    assert (await library.state(job)).state == "waiting"


async def test_a_result_of_somebody_else_stays(library):
    job = await ingest_text(library.context, "x")
    library.on[WorkerEventKind.CLAIMED] = lambda _: library.context.blobs.store(layout.out(job), b"theirs")
    assert (await library.work()).outcomes == {JobOutcome.LOST: 1}
    assert await library.context.blobs.get(layout.out(job)) == b"theirs"
    assert await list_keys(library.context) == []


async def test_a_job_that_has_its_result_is_not_converted(library):
    job = await ingest_text(library.context, "x")
    library.context.blobs.store(layout.out(job), b"zip")
    assert (await library.work()).outcomes == {}
    assert await list_keys(library.context) == []


async def test_the_job_of_a_process_that_died_waits_again_and_stays_counted(library):
    job = await ingest_text(library.context, "x")
    dead = slots.take_slot(library.scratch, "w1")
    held = await library.context.perform(
        lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor(dead.name))
    )
    dead.write(job, held.job.attempt, held.job.started)
    (library.scratch / "w1").mkdir()
    (library.scratch / "w1" / "left-over").write_text("x")
    dead.close()
    told = []
    library.on[WorkerEventKind.RECOVERED] = told.append
    assert (await library.work()).outcomes == {JobOutcome.DONE: 1}
    assert [one.job for one in told] == [job]
    assert list((library.scratch / "w1").iterdir()) == []


async def test_the_job_of_a_living_process_of_the_same_id_is_its_own(library):
    job = await ingest_text(library.context, "x")
    alive = slots.take_slot(library.scratch, "w1")
    held = await library.context.perform(
        lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor(alive.name))
    )
    alive.write(job, held.job.attempt, held.job.started)
    worked = await library.work()
    assert (worked.worker, worked.outcomes) == ("w1-2", {})
    assert (await library.state(job)).state == "running"
    alive.close()


async def test_an_attempt_that_went_on_is_not_taken_back_by_a_restart(library):
    job = await ingest_text(library.context, "x")
    dead = slots.take_slot(library.scratch, "w1")
    dead.write(job, 1, 0)
    dead.close()
    await library.context.perform(
        lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor("other"))
    )
    await library.work()
    assert (await library.state(job)).worker == "other"
    assert WorkerEventKind.RECOVERED not in library.kinds()


async def test_an_attempt_of_the_same_number_on_a_machine_of_the_same_name_is_its_own(library):
    job = await ingest_text(library.context, "x")
    held = await library.context.perform(
        lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor("w1"))
    )
    dead = slots.take_slot(library.scratch, "w1")
    dead.write(job, held.job.attempt, held.job.started - 1)  # before the job was removed and put in again
    dead.close()
    await library.work()
    assert (await library.state(job)).state == "running"
    assert WorkerEventKind.RECOVERED not in library.kinds()


async def test_a_restart_of_the_last_attempt_buries_the_job(tmp_path):
    library = LibraryUnderTest(tmp_path, max_retries=0)
    job = await ingest_text(library.context, "x")
    dead = slots.take_slot(library.scratch, "w1")
    held = await library.context.perform(
        lifecycle.claim(JobCandidate(id=job, tier="3_normal"), library.context.actor("w1"))
    )
    dead.write(job, held.job.attempt, held.job.started)
    dead.close()
    library.stop.set()  # before it could find the job by itself
    await library.work()
    assert (await library.state(job)).state == "dead"
    assert await list_keys(library.context) == sorted([layout.dead(job), layout.state(job)])


async def test_a_store_that_does_not_take_the_result_for_a_while_is_waited_for(library):
    job = await ingest_text(library.context, "x")
    refused = []

    def refuse(what, key):
        if what == "create_file" and len(refused) < 3:
            refused.append(key)
            raise Retry("away")

    library.objects.before = refuse
    assert (await library.work()).outcomes == {JobOutcome.DONE: 1}
    assert len(refused) == 3
    assert await library.done(job)


async def test_a_store_that_never_takes_it_leaves_the_job_to_a_janitor(library):
    job = await ingest_text(library.context, "x")

    def refuse(what, key):
        if what == "create_file":
            raise Retry("away")

    library.objects.before = refuse
    with pytest.raises(Misconfigured, match="away"):
        await library.work()
    assert (await library.state(job)).state == "running"
    assert not await library.done(job)


async def test_keys_that_ran_out_are_named_after_a_few_tries(library):
    def refuse(what, key):
        if what == "list":
            raise Misconfigured("Check keys, region and rights on the bucket.", code="storage_denied")

    library.objects.before = refuse
    with pytest.raises(Misconfigured, match=r"stops after 5 refusals in a row: Check keys"):
        await library.work(run_once=False)
    assert library.kinds().count(WorkerEventKind.TROUBLE) == 5


async def test_refusals_with_successes_between_them_do_not_add_up(library):
    for number in range(14):
        await ingest_text(library.context, f"x {number}")
    claims = []

    def refuse(what, key):
        if what == "create" and key.startswith(layout.PROCESSING):
            claims.append(key)
            if len(claims) % 2:
                raise Misconfigured("denied")

    library.objects.before = refuse
    assert (await library.work(run_once=False, most_jobs=7)).outcomes == {JobOutcome.DONE: 7}
    assert library.kinds().count(WorkerEventKind.TROUBLE) == 7


async def test_a_job_whose_claim_is_denied_is_no_success(library):
    await ingest_text(library.context, "x")

    def refuse(what, key):
        if what == "create":
            raise Misconfigured("denied")

    library.objects.before = refuse
    with pytest.raises(Misconfigured, match="5 refusals in a row: denied"):
        await library.work(run_once=False)


async def test_trouble_of_the_machine_is_not_the_jobs_fault(library):
    jobs = [await ingest_text(library.context, f"trouble {number}") for number in range(8)]
    with pytest.raises(Misconfigured, match="5 refusals in a row"):
        await library.work(run_once=False)
    states = [state for job in jobs if (state := await library.state(job)) is not None]
    assert [(state.state, state.charged) for state in states] == [("waiting", 0)] * 5


async def test_a_store_that_is_away_is_waited_for(library):
    await ingest_text(library.context, "x")
    refused = []

    def refuse(what, key):
        if what == "list" and len(refused) < 10:
            refused.append(key)
            raise Retry("away")

    library.objects.before = refuse
    assert (await library.work()).outcomes == {JobOutcome.DONE: 1}
    assert len(refused) == 10


async def test_a_rehearsal_changes_nothing(library):
    job = await ingest_text(library.context, "x")
    before = await list_keys(library.context), await list_keys(library.context, "registry")
    worked = await library.work(dry_run=True)
    assert worked.outcomes == {}
    assert [(told.kind, told.job) for told in library.told] == [(WorkerEventKind.WOULD_CLAIM, job)]
    assert before == (await list_keys(library.context), await list_keys(library.context, "registry"))


async def test_as_many_jobs_as_it_was_told(library):
    for number in range(5):
        await ingest_text(library.context, f"x {number}")
    assert (await library.work(run_once=False, most_jobs=3)).outcomes == {JobOutcome.DONE: 3}
    assert len(await list_keys(library.context)) == 2


async def test_its_registration_is_as_other_tools_read_it(library):
    await ingest_text(library.context, "x")
    await ingest_text(library.context, "crash")
    await library.work(run_once=False, most_jobs=2)
    told = await library.json(registration.key("w1"))
    assert set(told) == {
        *("worker_id", "hostname", "platform", "platform_release", "python_version", "cpu_count"),
        *("memory_gb", "registered_at", "pid", "last_heartbeat", "status", "current_job", "metrics"),
        "stopped_at",
    }
    assert (told["status"], told["current_job"], told["worker_id"]) == ("stopped", None, "w1")
    assert told["metrics"]["jobs_completed"] == told["metrics"]["jobs_failed"] == 1
    assert set(told["metrics"]) == {
        *("session_start", "session_duration_seconds", "jobs_completed", "jobs_failed"),
        *("bytes_processed", "avg_processing_time", "jobs_per_hour"),
    }


async def test_its_registration_is_written_once_a_minute_at_most(library):
    for number in range(6):
        await ingest_text(library.context, f"x {number}")
    library.on[WorkerEventKind.ENDED] = lambda _: library.clock.advance(25)
    await library.work(run_once=False, most_jobs=6)
    written = [
        key for what, key in library.objects.requests if what == "put" and key == registration.key("w1")
    ]
    assert len(written) == 3  # at the start, after 75 seconds, at the end


async def test_what_waits_again_tells_other_tools_how_often_it_was_tried(library):
    job = await ingest_text(library.context, "fail", tier="4_low")
    await library.work()
    library.stop.set()
    await ingest_text(library.context, "x")
    from quire.library.janitor import sweep

    await sweep(library.context)
    found = await library.context.objects.read(layout.todo("4_low", job))
    said = decode(found.body, TodoMarker)
    assert (said.retries, said.recovered_from, said.last_error) == (1, "failed_queue", "page 3 is a riddle")
