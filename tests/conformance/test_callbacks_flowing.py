"""Callbacks of remote workers for batches whose documents move on by themselves, on every ledger."""

import json

import pytest
from tests.conformance.test_callbacks import (
    DUPLICATE,
    FOLDER,
    ID,
    JPEG,
    LATE,
    OK,
    REFERENCE,
    CallbackBench,
    tiff,
)
from tests.conformance.test_remote_tasks import SECRET, Signing
from tests.servers.postgres import fresh_schema
from tests.situations.flowing import settle_one
from tests.suites.ledger_situations import act

from quire.batches.remote.output_places import grant_places
from quire.batches.remote.queue_members import LedgerQueueMembers
from quire.batches.remote.tasks import LedgerRemoteTasks, RemoteTaskOptions
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.engine.retry import RetryPolicy
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Stage, TaskState
from quire.model.plan import Plan, PlanPhase, PlanStep, parse_accepts
from quire.model.work import Outcome, Report
from quire.pipelines.preprocess import JPEGS, REFERENCES, SOURCE_TAG

PICTURES = Plan(
    name="pictures",
    version=1,
    queue="pictures",
    phases=(
        PlanPhase(
            name="TIFF_CONVERSION",
            task_prefix="tiff",
            steps=(
                PlanStep(
                    name="tiff",
                    step="tiff_to_jpeg",
                    version=1,
                    accepts=parse_accepts("image/tiff"),
                    renames=(".tif", ".tiff"),
                    outputs=JPEGS,
                    tags=(SOURCE_TAG,),
                    compute="process",
                ),
            ),
        ),
        PlanPhase(
            name="IMAGE_PROCESSING",
            task_prefix="img",
            steps=(
                PlanStep(
                    name="image",
                    step="image_variants",
                    version=1,
                    accepts=parse_accepts("image/jpeg"),
                    outputs=REFERENCES,
                    compute="process",
                ),
            ),
        ),
    ),
)


class FlowBench(CallbackBench):
    """The pipeline is not known in this process: whoever settles needs none of its code."""

    def __init__(self, ledger):
        super().__init__(ledger)
        options = RemoteTaskOptions(base_url="https://quire.example", secret=SECRET)
        self.tasks = LedgerRemoteTasks(self.context, Signing(), options)

    async def begun(self, names=("/box/p1.tif", "/box/p2.tif"), plan=PICTURES, **changes):
        await super().begun(names, plan, **changes)

    async def referred(self, path, **changes):
        key = f"{FOLDER}{path}.ref.json"
        await self.blobs.put(key, json.dumps(REFERENCE, indent=2).encode())
        said = {"ref_json_r2_key": key, "ref_data": REFERENCE} | changes
        return await self.call(path, prefix="img", **said)


class FlowCallbackSuite:
    """Needs the fixture `ledger`."""

    @pytest.fixture
    async def bench(self, ledger):
        bench = FlowBench(ledger)
        await bench.begun()
        return bench

    async def test_documents_go_through_both_phases_by_callbacks_alone(self, bench):
        assert await bench.converted("/box/p1.tif") == OK
        assert await bench.claimed() == ["/box/p1.jpg"], "it does not wait for the other TIFF"
        assert await bench.referred("/box/p1.jpg") == OK
        assert await bench.converted("/box/p2.tif") == OK
        await bench.claimed()
        assert await bench.referred("/box/p2.jpg") == OK
        batch = await bench.ledger.get_batch(ID)
        assert batch.position.stage is Stage.ENDING
        made = {
            one.path: [(file.path, file.tags, file.source_file) for _, file in one.made]
            for one in await bench.ledger.list_inputs(batch.no, limit=9)
        }
        assert [path for path in made["/box/p1.tif"] if path[0] != "/box/p1.tif"] == [
            ("/box/p1.jpg", ("TiffConverter",), "p1.tif"),
            ("/box/p1.jpg.ref.json", ("ImageProcessor",), "p1.jpg"),
        ]

    async def test_pages_of_our_own_worker_join_the_list_in_their_order(self, bench):
        task = bench.about("/box/p1.tif").task_id
        places = [f"{FOLDER}/box/p1.jpg", f"{FOLDER}/_work/{task}-1-p00002.jpg"]
        await bench.blobs.put(places[1], JPEG)
        products = [
            {"role": "jpeg", "key": key, "size": len(JPEG), "content_type": "image/jpeg"} for key in places
        ]
        assert await bench.converted(quire={"facts": {"pages": 2}, "products": products}) == OK
        assert sorted(await bench.claimed()) == ["/box/p1-p002.jpg", "/box/p1.jpg"]

    async def test_pages_that_a_worker_would_lose_fail_the_task(self, bench):
        await bench.blobs.put(f"{FOLDER}/box/p1.tif", tiff(pages=2))
        assert await bench.converted() == OK
        assert (await bench.task()).state is TaskState.FAILED
        assert (await bench.counts())[0] == (2, 0, 1)

    async def test_a_failure_is_tried_again_and_the_last_one_counts(self, bench):
        for failures in (1, 2, 3):
            assert await bench.call(status="error", error="cannot decode strip 4") == OK
            assert (await bench.task()).claim.failures == failures
            bench.clock.advance(60.0)
            await bench.claimed()
        assert (await bench.task()).state is TaskState.FAILED
        assert (await bench.counts())[0] == (2, 0, 1)

    async def test_who_says_it_twice_is_told_so_and_nothing_is_counted(self, bench):
        assert await bench.converted() == OK
        before = await bench.counts()
        assert await bench.converted() == DUPLICATE
        assert await bench.call(status="error") == DUPLICATE
        assert await bench.counts() == before

    async def test_a_callback_of_a_phase_that_the_batch_has_left_is_late(self, bench):
        await bench.converted("/box/p1.tif")
        await bench.converted("/box/p2.tif")
        assert await bench.converted("/box/p1.tif") == LATE

    async def test_an_attempt_that_was_overtaken_is_late(self, bench):
        first = bench.about("/box/p1.tif")
        await bench.call(status="error")
        bench.clock.advance(60.0)
        await bench.claimed()
        assert await bench.converted(url={"attempt": first.attempt}) == LATE
        assert (await bench.task()).state is TaskState.RUNNING
        assert await bench.converted() == OK

    async def test_a_success_after_a_timeout_counts_while_nothing_followed(self, bench):
        claim = bench.claims["/box/p1.tif"]
        told = Report(
            *(*claim.order.attempt_key, Outcome.TIMED_OUT, 1.0, 60.0, "w"), error_class="timed_out", error="-"
        )
        now = bench.clock.now()
        await settle_one(bench.ledger, claim, told, state=TaskState.FAILED, blame=True, now=now)
        assert (await bench.counts())[0] == (2, 0, 1)
        assert await bench.converted() == OK
        assert (await bench.counts())[0] == (2, 1, 0)

    async def test_a_callback_after_the_end_is_kept_and_changes_nothing(self, bench):
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.cancel(batch.no, act())
        before = await bench.counts()
        assert await bench.converted() == DUPLICATE
        assert await bench.counts() == before
        assert len(await bench.ledger.list_stray_reports(batch.no, limit=9)) == 1

    async def test_a_worker_gets_what_it_needs_for_its_attempt(self, bench):
        order = bench.claims["/box/p1.tif"].order
        call = PICTURES.phases[0].call(PICTURES.phases[0].steps[0])
        said = await bench.tasks.build_environment(call, order)
        about = bench.about("/box/p1.tif")
        assert (said["TASK_ID"], said["BATCH_ID"]) == (about.task_id, ID)
        assert said["INPUT_R2_KEY"] == f"{FOLDER}/box/p1.tif"
        assert f"task={order.task_no}&" in said["CALLBACK_URL"]

    async def test_attempts_are_finished_when_they_no_longer_run(self, bench):
        keys = {path: claim.order.attempt_key for path, claim in bench.claims.items()}
        assert await bench.tasks.find_finished(keys.values()) == set()
        await bench.converted("/box/p1.tif")
        assert await bench.tasks.find_finished(keys.values()) == {keys["/box/p1.tif"]}
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.cancel(batch.no, act())
        assert await bench.tasks.find_finished(keys.values()) == set(keys.values())

    async def test_further_pages_have_places_while_the_attempt_runs(self, bench):
        about = bench.about("/box/p1.tif")

        async def places():
            body = b'{"roles": ["jpeg-2"]}'
            return await grant_places(bench.context, Signing(), about, body, base_url="https://q")

        found = await places()
        assert found.current
        assert [one.key for one in found.places] == [f"{FOLDER}/_work/{about.task_id}-1-p00002.jpg"]
        await bench.converted("/box/p1.tif")
        assert not (await places()).current

    async def test_a_result_whose_callback_was_lost_is_settled(self, bench):
        order = bench.claims["/box/p1.tif"].order
        assert not await bench.tasks.settle_stored_result(order)
        await bench.blobs.put(f"{FOLDER}/box/p1.jpg", JPEG)
        assert await bench.tasks.settle_stored_result(order)
        assert (await bench.task()).state is TaskState.DONE

    async def test_a_report_to_a_member_that_is_gone_is_settled(self, bench):
        claim = bench.claims["/box/p1.tif"]
        members = LedgerQueueMembers(bench.context, RetryPolicy())
        await members.settle_report(Report(*claim.order.attempt_key, Outcome.DONE, 1.0, 1.0, "w"))
        assert (await bench.task()).state is TaskState.DONE
        await members.settle_report(Report(claim.order.batch_no, 1 << 41, 1, Outcome.DONE, 1.0, 1.0, "w"))


class TestSqlite(FlowCallbackSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(FlowCallbackSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()
