"""Callbacks of remote workers, on every ledger: settled like any report, or refused with the reason."""

import io
import json

import pytest
from msgspec import structs
from PIL import Image
from tests.servers.postgres import fresh_schema
from tests.situations.flowing import begin_flow, claim_all, read_tasks, settle_one
from tests.suites.ledger_situations import act

from quire.batches.remote.attempts import AttemptAddress, CallbackAnswer
from quire.batches.remote.callbacks import settle_callback
from quire.batches.remote.context import RemoteContext
from quire.compute.remote.callback_body import MAX_BODY_BYTES
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.engine import moves
from quire.engine.retry import RetryPolicy
from quire.ledger.port import StrayKind, TaskSelection
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Stage, TaskState
from quire.model.errors import Missing, Reject
from quire.model.files import File
from quire.model.ids import task_id
from quire.model.work import Outcome, Report
from quire.pipelines.preprocess import build_preprocess
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock

ID = "01KA0000000000000000000000"
FOLDER = f"staging/{ID}"
# The phases whose workers may run elsewhere.
PLAN = structs.replace(build_preprocess().plan(), version=1, phases=build_preprocess().plan().phases[1:])
OK, DUPLICATE, LATE = (
    CallbackAnswer(ok=True),
    CallbackAnswer(ok=True, duplicate=True),
    CallbackAnswer(ok=True, late=True),
)
NAMES = ("/box/p1.tif", "/box/p2.tif", "/box/up.jpg")
JPEG = b"a picture"
REFERENCE = {"url": "https://cdn.example/asset/1", "ipfs_cid": "bafk", "type": "image/jpeg", "size": 9}
MISSING = object()


def tiff(*, pages):
    out = io.BytesIO()
    sheets = [Image.new("L", (8, 6)) for _ in range(pages)]
    sheets[0].save(out, "TIFF", save_all=True, append_images=sheets[1:])
    return out.getvalue()


class CallbackBench:
    """A batch whose tasks run on remote workers."""

    def __init__(self, ledger):
        self.blobs = MemoryBlobs()
        self.ledger = ledger
        self.clock = FakeClock()
        self.context = RemoteContext(
            batches=ledger,
            tasks=ledger,
            flow=ledger,
            records=ledger,
            members=ledger,
            blobs=self.blobs,
            clock=self.clock,
            ids=CountingIds(),
            pipelines={PLAN.name: PLAN},
        )
        self.claims = {}

    def blobs_below(self, folder):
        return sorted(key for key in self.blobs._blobs if key.startswith(f"{folder}/"))

    async def begun(self, names=NAMES, plan=PLAN, **changes):
        files = [
            File(
                key=f"{FOLDER}{name}",
                path=name,
                name=name.rpartition("/")[2],
                size=100,
                content_type="image/jpeg" if name.endswith("jpg") else "image/tiff",
                digest=f"digest of {name}",
            )
            for name in names
        ]
        for file in files:
            await self.blobs.put(file.key, b"uploaded")
        await begin_flow(self.ledger, self.blobs, self.clock, plan, files, ID, **changes)
        await self.claimed(1)

    async def claimed(self, phase=None):
        """Claim what can be claimed, of one phase or of all."""
        found = await claim_all(self.ledger, ID, now=self.clock.now(), phase=phase)
        self.claims |= found
        return list(found)

    async def ended(self):
        """The batch, which the scheduler has ended because nothing is left to do."""
        batch = await self.ledger.get_batch(ID)
        assert batch.position.stage is Stage.ENDING
        return await self.ledger.apply_move(moves.end(batch, PLAN, now=self.clock.now()))

    def about(self, path, *, prefix="tiff", **changes):
        order = self.claims[path].order
        known = {
            "batch_id": ID,
            "task_id": task_id(prefix, ID, order.file.key),
            "task_no": order.task_no,
            "attempt": order.attempt,
        }
        return AttemptAddress(**(known | changes))

    async def call(self, path="/box/p1.tif", *, prefix="tiff", url=None, **said):
        about = self.about(path, prefix=prefix, **(url or {}))
        body = {"task_id": about.task_id, "batch_id": about.batch_id, "status": "success"} | said
        body = {name: value for name, value in body.items() if value is not MISSING}
        return await settle_callback(self.context, about, json.dumps(body).encode())

    async def converted(self, path="/box/p1.tif", **changes):
        key = f"{FOLDER}{path.removesuffix('.tif')}.jpg"
        await self.blobs.put(key, JPEG)
        said = {
            "output_r2_key": key,
            "output_file_name": key.rpartition("/")[2],
            "output_file_size": len(JPEG),
            "performance": {"total_time_ms": 2900, "download_time_ms": 700},
        }
        return await self.call(path, **(said | changes))

    async def task(self, path="/box/p1.tif"):
        order = self.claims[path].order
        return await self.ledger.get_task(order.batch_no, order.task_no)

    async def counts(self):
        """Of the phases that have tasks."""
        batch = await self.ledger.get_batch(ID)
        counted = await self.ledger.count_tasks(batch.no)
        return [(one.total, one.done, one.failed) for one in counted if one.total]

    async def settled(self, path="/box/p1.tif"):
        batch = await self.ledger.get_batch(ID)
        return (await read_tasks(self.ledger, batch.no))[path]


class CallbackSuite:
    """Needs the fixture `ledger`."""

    @pytest.fixture
    async def bench(self, ledger):
        bench = CallbackBench(ledger)
        await bench.begun()
        return bench

    async def test_a_success_settles_its_task_with_the_products_the_pipeline_expects(self, bench):
        bench.clock.advance(10.0)
        assert await bench.converted() == OK
        task = await bench.settled()
        assert task.state is TaskState.DONE
        (jpeg,) = task.result.products
        assert (jpeg.role, jpeg.key, jpeg.size) == ("jpeg", f"{FOLDER}/box/p1.jpg", len(JPEG))
        batch = await bench.ledger.get_batch(ID)
        _, (attempt,) = await bench.ledger.get_file_history(batch.no, "/box/p1.tif")
        assert (attempt.worker, attempt.seconds, attempt.outcome) == ("callback", 2.9, "done")
        counts, _ = await bench.ledger.count_tasks(batch.no)
        assert (counts.spent.bytes_in, counts.spent.bytes_out) == (100, len(JPEG))

    async def test_a_batch_goes_through_both_phases_by_callbacks_alone(self, bench):
        await bench.converted("/box/p1.tif")
        await bench.converted("/box/p2.tif")
        assert sorted(await bench.claimed()) == ["/box/p1.jpg", "/box/p2.jpg", "/box/up.jpg"]
        for path in ("/box/p1.jpg", "/box/p2.jpg", "/box/up.jpg"):
            key = f"{FOLDER}{path}.ref.json"
            await bench.blobs.put(key, json.dumps(REFERENCE, indent=2).encode())
            answer = await bench.call(
                path,
                prefix="img",
                ref_json_r2_key=key,
                ref_data=REFERENCE,
                archive_r2_key="archive/1/original.jpg",
            )
            assert answer == OK
        task = await bench.settled("/box/p1.jpg")
        assert task.result.facts == {
            "ref_data": REFERENCE,
            "cid": "bafk",
            "archive_r2_key": "archive/1/original.jpg",
        }
        batch = await bench.ended()
        made = {
            one.path: [(file.path, file.tags, file.source_file) for _, file in one.made]
            for one in await bench.ledger.list_inputs(batch.no, limit=9)
        }
        assert made["/box/p1.tif"] == [
            ("/box/p1.jpg", ("TiffConverter",), "p1.tif"),
            ("/box/p1.jpg.ref.json", ("ImageProcessor",), "p1.jpg"),
        ]

    async def paged(self, bench, *, stored=(2, 3), told=(2, 3), **changes):
        """What a worker of ours says of a TIFF of three pages."""
        task = bench.about("/box/p1.tif").task_id
        first = f"{FOLDER}/box/p1.jpg"
        places = {page: f"{FOLDER}/_work/{task}-1-p{page:05d}.jpg" for page in (2, 3, 4)}
        for page in stored:
            await bench.blobs.put(places[page], b"page %d" % page)
        named = [(1, first, len(JPEG)), *((page, places[page], 6) for page in told)]
        products = [
            {
                "role": "jpeg",
                "key": key,
                "size": size,
                "content_type": "image/jpeg",
                "facts": {"page": page, "pages": 3, "width": page, "cid": f"bafk{page}"},
            }
            for page, key, size in named
        ]
        own = {"facts": {"pages": 3, "cid_profile": "x"}, "products": products} | changes
        assert await bench.converted(quire=own) == OK
        return await bench.settled()

    async def test_all_pages_that_are_told_become_files_in_their_order(self, bench):
        task = await self.paged(bench)
        assert task.state is TaskState.DONE
        assert [(one.size, one.facts) for one in task.result.products] == [
            (size, {"page": page, "pages": 3, "width": page, "cid": f"bafk{page}"})
            for page, size in ((1, len(JPEG)), (2, 6), (3, 6))
        ]
        assert task.result.facts == {"pages": 3, "cid_profile": "x", "file_name": "p1.jpg"}
        await bench.converted("/box/p2.tif")
        assert {"/box/p1.jpg", "/box/p1-p002.jpg", "/box/p1-p003.jpg"} <= set(await bench.claimed())

    @pytest.mark.parametrize(
        ("changes", "error_class", "words"),
        [
            ({"stored": (2,)}, "missing", "p00003.jpg"),
            ({"told": (2,)}, "bad_callback", "names 2 of 3 pages"),
            ({"told": ()}, "bad_callback", "names 1 of 3 pages"),
            ({"told": (3, 2)}, "bad_callback", "page 2 is not under its key"),
            ({"told": (2, 4), "stored": (2, 4)}, "bad_callback", "page 3 is not under its key"),
            ({"told": (2, 2)}, "bad_callback", "page 3 is not under its key"),
            ({"facts": {"pages": "x" * 500}}, "bad_callback", "of " + "x" * 20 + " pages"),
        ],
    )
    async def test_pages_that_cannot_be_believed_are_a_failure(self, bench, changes, error_class, words):
        task = await self.paged(bench, **changes)
        assert (task.state, task.error_class) == (TaskState.WAITING, error_class)
        assert words in task.error

    async def test_a_worker_that_knows_one_page_does_not_lose_the_others_in_silence(self, bench):
        await bench.blobs.put(f"{FOLDER}/box/p1.tif", tiff(pages=2))
        await bench.converted()
        task = await bench.settled()
        assert (task.state, task.error_class) == (TaskState.FAILED, "many_pages")
        assert "set compute.tiff to local" in task.error

    async def test_one_page_is_all_there_is_that_is_taken(self, bench):
        await bench.blobs.put(f"{FOLDER}/box/p1.tif", tiff(pages=1))
        await bench.converted()
        assert (await bench.settled()).state is TaskState.DONE

    async def test_keys_of_the_bucket_are_those_of_the_house_with_its_prefix(self, bench):
        key = f"{FOLDER}/box/p1.jpg"
        await bench.blobs.put(key, JPEG)
        about = bench.about("/box/p1.tif")
        product = {"role": "jpeg", "key": f"in/side/{key}", "size": 9, "content_type": "image/jpeg"}
        body = {
            "task_id": about.task_id,
            "batch_id": ID,
            "status": "success",
            "output_r2_key": f"in/side/{key}",
            "output_file_name": "p1.jpg",
            "output_file_size": 9,
            "quire": {"products": [product | {"facts": {"width": 7}}]},
        }
        await settle_callback(bench.context, about, json.dumps(body).encode(), prefix="in/side/")
        (jpeg,) = (await bench.settled()).result.products
        assert (jpeg.key, jpeg.facts["width"]) == (key, 7)

    async def test_an_error_is_tried_again_and_the_last_one_fails_the_task(self, bench):
        for attempt in (1, 2, 3):
            assert await bench.call(status="error", error="cannot decode strip 4") == OK
            task = await bench.task()
            assert task.claim.failures == attempt
            bench.clock.advance(60.0)
            await bench.claimed()
        assert task.state is TaskState.FAILED
        failed = await bench.settled()
        assert (failed.error_class, failed.error) == ("worker_error", "cannot decode strip 4")

    async def test_the_policy_of_the_house_says_when(self, bench):
        about = bench.about("/box/p1.tif")
        body = {"task_id": about.task_id, "batch_id": ID, "status": "error"}
        slow = RetryPolicy(first_delay_seconds=1000.0, longest_delay_seconds=1000.0)
        await settle_callback(bench.context, about, json.dumps(body).encode(), policy=slow)
        bench.clock.advance(500.0)
        assert await bench.claimed(1) == []
        bench.clock.advance(600.0)
        assert await bench.claimed(1) == ["/box/p1.tif"]

    @pytest.mark.parametrize(
        ("changes", "error_class", "words"),
        [
            ({"output_r2_key": MISSING}, "bad_callback", "names output_r2_key"),
            ({"output_r2_key": ""}, "bad_callback", "names output_r2_key"),
            ({"output_file_name": None}, "bad_callback", "output_file_name"),
            ({"output_file_size": MISSING}, "bad_callback", "output_file_size"),
            ({"output_file_size": 0}, "bad_callback", "more than 0 bytes"),
            ({"output_file_size": -1}, "bad_callback", "more than -1 bytes"),
            ({"output_file_size": 8}, "size_mismatch", "has 9 bytes in the store, the worker says 8"),
            ({"output_r2_key": f"{FOLDER}/box/none.jpg"}, "missing", "none.jpg"),
            ({"output_r2_key": f"{FOLDER}/box/up.jpg"}, "bad_callback", "key of another file"),
            ({"output_r2_key": f"{FOLDER}/box/p1.tif"}, "bad_callback", "key of another file"),
            ({"output_r2_key": f"{FOLDER}/_manifest.json"}, "bad_callback", "key of another file"),
            ({"output_r2_key": "staging/01KB/x.jpg"}, "bad_callback", "is not in staging/01KA"),
            ({"output_r2_key": f"{FOLDER}/../x.jpg"}, "bad_key", "'..'"),
            ({"ref_json_r2_key": "x", "output_r2_key": None}, "bad_callback", "names output_r2_key"),
        ],
    )
    async def test_a_success_that_cannot_be_believed_is_a_failure(self, bench, changes, error_class, words):
        assert await bench.converted(**changes) == OK
        task = await bench.settled()
        assert (task.state, task.error_class) == (TaskState.WAITING, error_class)
        assert words in task.error

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"ref_json_r2_key": MISSING}, "names ref_json_r2_key and ref_data"),
            ({"ref_data": MISSING}, "names ref_json_r2_key and ref_data"),
            ({"ref_data": {}}, "begins with http"),
            ({"ref_data": {"url": "ftp://x"}}, "begins with http"),
            ({"ref_json_r2_key": f"{FOLDER}/empty.json"}, "has 0 bytes"),
        ],
    )
    async def test_a_reference_that_cannot_be_believed_is_a_failure(self, bench, changes, words):
        await bench.converted("/box/p1.tif")
        await bench.converted("/box/p2.tif")
        await bench.claimed()
        key = f"{FOLDER}/box/up.jpg.ref.json"
        await bench.blobs.put(key, b"{}")
        await bench.blobs.put(f"{FOLDER}/empty.json", b"")
        said = {"ref_json_r2_key": key, "ref_data": REFERENCE} | changes
        assert await bench.call("/box/up.jpg", prefix="img", **said) == OK
        task = await bench.settled("/box/up.jpg")
        assert task.state is TaskState.WAITING
        assert words in task.error

    async def test_who_says_it_twice_is_told_so_and_nothing_is_counted(self, bench):
        assert await bench.converted() == OK
        before = await bench.counts()
        assert await bench.converted() == DUPLICATE
        assert await bench.call(status="error", error="no") == DUPLICATE
        assert await bench.counts() == before == [(2, 1, 0), (2, 0, 0)]
        batch = await bench.ledger.get_batch(ID)
        strays = await bench.ledger.list_stray_reports(batch.no, limit=9)
        assert [one.kind for one in strays] == [StrayKind.DUPLICATE] * 2

    async def test_a_failed_task_is_not_failed_again(self, bench):
        policy = RetryPolicy()
        for _ in range(3):
            await bench.call(status="error")
            bench.clock.advance(policy.longest_delay_seconds)
            await bench.claimed()
        assert await bench.call(status="error") == DUPLICATE
        assert await bench.converted() == DUPLICATE  # its failure was not for lost time
        assert await bench.counts() == [(2, 0, 1), (1, 0, 0)]

    async def test_a_success_after_a_timeout_counts_while_the_phase_runs(self, bench):
        claim = bench.claims["/box/p1.tif"]
        order = claim.order
        told = Report(
            *(order.batch_no, order.task_no, 1, Outcome.TIMED_OUT, 1.0, 60.0, "w"),
            error_class="timed_out",
            error="no answer",
        )
        await settle_one(bench.ledger, claim, told, state=TaskState.FAILED, blame=True, now=bench.clock.now())
        assert await bench.counts() == [(2, 0, 1), (1, 0, 0)]
        assert await bench.converted() == OK
        assert await bench.counts() == [(2, 1, 0), (2, 0, 0)]

    async def test_an_attempt_that_was_overtaken_is_late(self, bench):
        first = bench.about("/box/p1.tif")
        await bench.call(status="error")
        bench.clock.advance(60.0)
        await bench.claimed()
        assert await bench.converted(url={"attempt": first.attempt}) == LATE
        assert (await bench.task()).state is TaskState.RUNNING
        assert await bench.converted() == OK

    async def test_a_callback_of_an_earlier_phase_is_late(self, bench):
        await bench.converted("/box/p1.tif")
        await bench.converted("/box/p2.tif")
        assert await bench.converted("/box/p1.tif") == LATE
        batch = await bench.ledger.get_batch(ID)
        assert len(await bench.ledger.list_stray_reports(batch.no, limit=9)) == 1
        assert await bench.counts() == [(2, 2, 0), (3, 0, 0)]

    async def test_a_callback_of_an_earlier_round_is_late(self, bench):
        await bench.converted("/box/p1.tif")
        for _ in range(3):
            await bench.call("/box/p2.tif", status="error")
            bench.clock.advance(60.0)
            await bench.claimed()
        old = bench.about("/box/p2.tif")
        await bench.claimed()
        for path in ("/box/p1.jpg", "/box/up.jpg"):
            key = f"{FOLDER}{path}.ref.json"
            await bench.blobs.put(key, b"{}")
            await bench.call(path, prefix="img", ref_json_r2_key=key, ref_data=REFERENCE)
        batch = await bench.ended()
        names = [phase.name for phase in PLAN.phases]
        await bench.ledger.retry_flow(batch, TaskSelection(), act(), waiting=(), names=names)
        await bench.claimed()
        new = bench.about("/box/p2.tif")
        assert (old.task_id, old.task_no) == (new.task_id, new.task_no)
        assert (old.attempt, new.attempt) == (3, 4)
        assert await bench.converted("/box/p2.tif", url={"task_no": old.task_no, "attempt": 3}) == LATE
        assert await bench.converted("/box/p2.tif") == OK

    @pytest.mark.parametrize(
        "url",
        [
            {"batch_id": "01KB0000000000000000000000"},
            {"task_id": "tiff_00000000000000000000"},
            {"task_no": 99},
            {"task_no": 2},  # another task's number
            {"attempt": 2},
            {"attempt": 0},
        ],
    )
    async def test_what_never_was_is_missing(self, bench, url):
        with pytest.raises(Missing) as caught:
            await bench.converted(url=url)
        assert caught.value.code in {"unknown_batch", "unknown_task"}
        assert (await bench.task()).state is TaskState.RUNNING
        batch = await bench.ledger.get_batch(ID)
        assert await bench.ledger.list_stray_reports(batch.no, limit=9) == []

    @pytest.mark.parametrize(
        "said",
        [
            {"batch_id": "01KB"},
            {"task_id": "tiff_other"},
            {"task_id": MISSING},
            {"status": "done"},
            {"status": MISSING},
            {"status": "error", "error": 7},
            {"output_file_size": "9"},
            {"output_file_size": 1.5},
            {"output_file_size": 2**70},
            {"output_r2_key": ["x"]},
            {"ref_data": "x"},
            {"ref_data": {"url": 7}},
            {"performance": {"total_time_ms": "fast"}},
            {"performance": []},
        ],
    )
    async def test_a_body_that_is_none_is_refused_and_changes_nothing(self, bench, said):
        with pytest.raises(Reject) as caught:
            await bench.converted(**said)
        assert caught.value.code == "bad_callback"
        assert (await bench.task()).state is TaskState.RUNNING

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", "bad_callback"),
            (b"[]", "bad_callback"),
            (b"\xff", "bad_callback"),
            (b'{"x":' + b"[" * 100_000, "bad_callback"),
            (b" " * (MAX_BODY_BYTES + 1), "too_large"),
        ],
    )
    async def test_any_bytes_are_a_callback_or_refused(self, bench, body, code):
        with pytest.raises(Reject) as caught:
            await settle_callback(bench.context, bench.about("/box/p1.tif"), body)
        assert caught.value.code == code

    @pytest.mark.parametrize(
        ("performance", "seconds"),
        [
            (None, 10.0),
            ({}, 10.0),
            ({"total_time_ms": 2900}, 2.9),
            ({"total_time_ms": -5}, 0.0),
            ({"total_time_ms": 1e300}, 10.0),
        ],
    )
    async def test_an_attempt_took_no_longer_than_it_was_out(self, bench, performance, seconds):
        bench.clock.advance(10.0)
        await bench.converted(performance=performance)
        batch = await bench.ledger.get_batch(ID)
        counts, _ = await bench.ledger.count_tasks(batch.no)
        assert counts.spent.seconds == pytest.approx(seconds)


class TestSqlite(CallbackSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(CallbackSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()
