"""What workers elsewhere are told and what is found of them, on every ledger."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import structs
from tests.conformance.test_callbacks import FOLDER, ID, PLAN, REFERENCE, CallbackBench, tiff
from tests.servers.postgres import fresh_schema
from tests.suites.ledger_situations import act

from quire.batches.remote.attempts import AttemptAddress, read_registry_token, verify
from quire.batches.remote.callbacks import settle_callback
from quire.batches.remote.output_places import grant_places
from quire.batches.remote.tasks import LedgerRemoteTasks, RemoteTaskOptions
from quire.compute.remote.environment import BucketAccess
from quire.compute.remote.output_keys import is_temporary
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_values import ListedInput
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import TaskState
from quire.model.errors import Missing, Reject
from quire.model.files import File, fold
from quire.model.ids import task_id
from quire.model.work import Order

SECRET = b"s" * 32
TIFF, IMAGE = (phase.steps[0] for phase in PLAN.phases)
CALLS = {"tiff": PLAN.phases[0].call(TIFF), "img": PLAN.phases[1].call(IMAGE)}


class Signing:
    """Presigned uploads whose URLs say what they allow."""

    async def sign_put(self, key, *, seconds, base_url, announced=True):
        return f"PUT {key} for {seconds} at {base_url} announced={announced}"

    async def sign_get(self, key, *, seconds, base_url, name):  # noqa: ARG002
        return f"GET {key} for {seconds} at {base_url}"


class ErrandSuite:
    """Needs the fixture `ledger`."""

    @pytest.fixture
    async def bench(self, ledger):
        bench = CallbackBench(ledger)
        await bench.begun()
        options = RemoteTaskOptions(base_url="https://quire.example", secret=SECRET)
        bench.tasks = LedgerRemoteTasks(bench.context, Signing(), options)
        return bench

    def order(self, bench, path="/box/p1.tif"):
        return bench.claims[path].order

    async def again(self, bench, path="/box/p1.tif"):
        """The next attempt of a task whose last one failed."""
        await bench.call(path, status="error")
        bench.clock.advance(60.0)
        await bench.claimed()
        return self.order(bench, path)

    async def pictures(self, bench):
        await bench.converted("/box/p1.tif")
        await bench.converted("/box/p2.tif")
        await bench.claimed()

    async def test_a_tiff_is_sent_out_with_all_that_its_worker_needs(self, bench):
        order = self.order(bench)
        said = await bench.tasks.build_environment(CALLS["tiff"], order)
        key = f"{FOLDER}/box/p1.tif"
        task = task_id("tiff", ID, key)
        at = "for 390 at https://quire.example"
        callback, more = said.pop("CALLBACK_URL"), said.pop("MORE_OUTPUTS_URL")
        assert more == callback.replace("?", "/outputs?")
        assert json.loads(said.pop("QUIRE_OPTIONS")) == TIFF.options
        assert said == {
            "TASK_ID": task,
            "BATCH_ID": ID,
            "INPUT_R2_KEY": key,
            "INPUT_FILE_NAME": "p1.tif",
            "INPUT_CONTENT_TYPE": "image/tiff",
            "INPUT_FILE_SIZE": "100",
            "INPUT_URL": f"GET {key} {at}",
            "OUTPUT_URL": f"PUT {FOLDER}/box/p1.jpg {at} announced=False",
            "OUTPUT_URL_RESULT": f"PUT {FOLDER}/_work/{task}-1.result.json {at} announced=False",
            "QUIRE_INPUT_KEY": key,
            "QUIRE_STEP": "tiff_to_jpeg",
            "QUIRE_MEMORY_MB": str(CALLS["tiff"].memory_mb),
        }
        parts = urlsplit(callback)
        assert parts.path == f"/callback/{ID}/{task}"
        signature = parse_qs(parts.query)["sig"][0]
        about = AttemptAddress(batch_id=ID, task_id=task, task_no=order.task_no, attempt=1)
        verify((SECRET,), about, signature)

    async def test_a_picture_too(self, bench):
        await self.pictures(bench)
        call = structs.replace(CALLS["img"], options=IMAGE.options | {"public_url": "https://cdn.example"})
        said = await bench.tasks.build_environment(call, self.order(bench, "/box/up.jpg"))
        key = f"{FOLDER}/box/up.jpg"
        assert said["INPUT_R2_KEY"] == key
        assert said["CDN_PUBLIC_URL"] == "https://cdn.example"
        assert not {"CDN_API_URL", "QUIRE_REGISTERS"} & set(said)
        for role, ending in (("REF", ".ref.json"), ("THUMB", ".thumb.jpg"), ("LARGE", ".large.jpg")):
            assert said[f"OUTPUT_URL_{role}"].startswith(f"PUT {key}{ending} ")
        assert "OUTPUT_URL" not in said

    async def test_a_later_attempt_writes_to_a_place_of_its_own(self, bench):
        order = await self.again(bench)
        said = await bench.tasks.build_environment(CALLS["tiff"], order)
        base = f"{FOLDER}/_work/{said['TASK_ID']}-2"
        assert said["INPUT_R2_KEY"] == f"{base}.tif"
        assert said["INPUT_URL"].startswith(f"GET {FOLDER}/box/p1.tif ")
        assert said["OUTPUT_URL"].startswith(f"PUT {base}.jpg ")
        assert said["OUTPUT_URL_RESULT"].startswith(f"PUT {base}.result.json ")

    @pytest.mark.parametrize(
        ("name", "alone"),
        [
            ("/box/p1.tif", True),
            ("/box/up.tif", False),  # beside up.jpg
            ("/box/P2.TIFF", False),  # p2.tif would like to be p2.jpg too
            ("/box/scan.dat", False),  # a TIFF by its content
            ("/box/" + "x" * 240 + ".tif", True),
        ],
    )
    async def test_where_names_collide_the_attempt_gets_one_of_its_own(self, bench, name, alone):
        """The order is of a task that is there, with a file as it may be called."""
        order = self.order(bench)
        known = order.file
        file = structs.replace(known, path=name, name=name.rpartition("/")[2], key=f"{FOLDER}{name}")
        order = Order(order.batch_no, order.task_no, order.attempt, file)
        said = await bench.tasks.build_environment(CALLS["tiff"], order)
        own = said["INPUT_R2_KEY"] == file.key
        assert own is alone

    async def test_a_file_that_lies_elsewhere_is_given_a_name_in_the_batchs_folder(self, bench):
        order = self.order(bench)
        file = structs.replace(order.file, key="cas/aa/bb")
        order = Order(order.batch_no, order.task_no, order.attempt, file)
        said = await bench.tasks.build_environment(CALLS["tiff"], order)
        assert said["INPUT_URL"].startswith("GET cas/aa/bb ")
        assert said["INPUT_R2_KEY"].startswith(f"{FOLDER}/_work/")

    def keyed(self, bench, prefix="in/side/"):
        access = BucketAccess(
            bucket="scans",
            archive_bucket="kept",
            endpoint="https://s3.example",
            access_key_id="id",
            secret_access_key="secret",
            account_id="acc",
        )
        options = RemoteTaskOptions(
            base_url="https://quire.example", secret=SECRET, access=access, prefix=prefix
        )
        bench.tasks = LedgerRemoteTasks(bench.context, Signing(), options)
        return bench.tasks

    async def test_keys_for_workers_stand_beside_their_urls(self, bench):
        said = await self.keyed(bench).build_environment(CALLS["tiff"], self.order(bench))
        assert said["INPUT_R2_KEY"] == f"in/side/{FOLDER}/box/p1.tif"
        assert said["INPUT_URL"].startswith(f"GET {FOLDER}/box/p1.tif ")
        assert said["OUTPUT_URL"].startswith(f"PUT {FOLDER}/box/p1.jpg ")
        wanted = {"R2_BUCKET": "scans", "R2_ACCESS_KEY_ID": "id", "R2_SECRET_ACCESS_KEY": "secret"}
        wanted |= {"R2_ACCOUNT_ID": "acc", "S3_ENDPOINT_URL": "https://s3.example"}
        assert wanted.items() <= said.items()
        assert "ARCHIVE_BUCKET" not in said
        assert bench.blobs_below(f"{FOLDER}/_work") == []
        await self.pictures(bench)
        said = await bench.tasks.build_environment(CALLS["img"], self.order(bench, "/box/up.jpg"))
        assert said["ARCHIVE_BUCKET"] == "kept"
        assert "INPUT_CID" not in said

    async def test_what_is_not_known_of_the_store_is_absent(self, bench):
        tasks = self.keyed(bench)
        access = structs.replace(tasks._options.access, archive_bucket="", endpoint="")
        tasks._options = structs.replace(tasks._options, access=access)
        await self.pictures(bench)
        said = await tasks.build_environment(CALLS["img"], self.order(bench, "/box/up.jpg"))
        assert not {"ARCHIVE_BUCKET", "S3_ENDPOINT_URL"} & set(said)

    async def test_a_worker_without_urls_registers_its_picture_at_an_address_of_its_attempt(self, bench):
        tasks = self.keyed(bench)
        await self.pictures(bench)
        order = self.order(bench, "/box/up.jpg")
        said = await tasks.build_environment(CALLS["img"], order)
        base, _, token = said["CDN_API_URL"].rpartition("/")
        assert (base, said["QUIRE_REGISTERS"]) == ("https://quire.example/registry", "true")
        about = AttemptAddress(batch_id=ID, task_id=said["TASK_ID"], task_no=order.task_no, attempt=1)
        assert read_registry_token((SECRET,), token) == about
        for other in (token[:-1], token.replace(".1.", ".2."), "", "....", token + ".", f"x{token}"):
            with pytest.raises(Reject) as refused:
                read_registry_token((SECRET,), other)
            assert refused.value.code == "bad_signature"
        tasks._options = structs.replace(tasks._options, registry_url="https://registry.example")
        said = await tasks.build_environment(CALLS["img"], order)
        assert said["CDN_API_URL"] == "https://registry.example"
        assert "QUIRE_REGISTERS" not in said

    async def test_the_input_lies_under_the_name_that_a_worker_with_keys_is_told(self, bench):
        order = await self.again(bench)
        tasks = self.keyed(bench)
        said = await tasks.build_environment(CALLS["tiff"], order)
        key = said["INPUT_R2_KEY"].removeprefix("in/side/")
        assert key.startswith(f"{FOLDER}/_work/")
        assert await bench.blobs.get(key) == b"uploaded"
        assert is_temporary(key)
        await bench.blobs.put(order.file.key, b"uploadeD")
        assert await tasks.build_environment(CALLS["tiff"], order)  # again
        assert said["QUIRE_INPUT_KEY"] == f"in/side/{order.file.key}"

    async def test_without_keys_nothing_is_copied(self, bench):
        await bench.tasks.build_environment(CALLS["tiff"], await self.again(bench))
        assert bench.blobs_below(f"{FOLDER}/_work") == []

    async def test_a_copy_never_takes_the_place_of_a_file_of_the_batch(self, bench):
        """Whoever knows how copies are called can upload a file of that name."""
        order = await self.again(bench)
        task = task_id("tiff", ID, order.file.key)

        async def taken(_, paths):
            return {
                path: [ListedInput(9, path, order.file)] for path in paths & {fold(f"/_work/{task}-2.tif")}
            }

        bench.tasks = self.keyed(bench)
        bench.ledger.find_listed = taken
        with pytest.raises(Reject, match="a file of the batch has the key"):
            await bench.tasks.build_environment(CALLS["tiff"], order)
        assert bench.blobs_below(f"{FOLDER}/_work") == []

    async def test_a_first_page_alone_is_not_taken_for_all(self, bench):
        await bench.blobs.put(f"{FOLDER}/box/p1.tif", tiff(pages=2))
        bench.blobs._clock = bench.clock
        await bench.blobs.put(f"{FOLDER}/box/p1.jpg", b"a picture")
        assert not await bench.tasks.settle_stored_result(self.order(bench))
        assert (await bench.task()).state is TaskState.RUNNING

    async def asked(self, bench, roles=(), path="/box/p1.tif", *, prefix="", kind="tiff", **url):
        about = bench.about(path, prefix=kind, **url)
        body = json.dumps({"roles": list(roles)}).encode()
        return await grant_places(bench.context, Signing(), about, body, base_url="https://q", prefix=prefix)

    async def test_pages_have_places_of_the_attempt(self, bench):
        task = bench.about("/box/p1.tif").task_id
        found = await self.asked(bench, ["jpeg-2", "jpeg-5000", "jpeg-2"], prefix="in/")
        assert found.current
        keys = [f"{FOLDER}/_work/{task}-1-p{page:05d}.jpg" for page in (2, 5000)]
        assert [(one.role, one.key) for one in found.places] == [
            ("jpeg-2", f"in/{keys[0]}"),
            ("jpeg-5000", f"in/{keys[1]}"),
        ]
        assert found.places[0].url == f"PUT {keys[0]} for 470 at https://q announced=False"

    @pytest.mark.parametrize(
        "roles",
        [
            ["jpeg-1"],
            ["jpeg-5001"],
            ["jpeg-02"],
            ["jpeg-2/../x"],
            ["jpeg"],
            ["ref"],
            ["jpeg-2"] * 101,
            ["x" * 21],
        ],
    )
    async def test_there_is_no_place_for_anything_else(self, bench, roles):
        with pytest.raises(Reject) as caught:
            await self.asked(bench, roles)
        assert caught.value.code == "bad_request"

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"roles":7}', b"\xff", b"[" * 9000])
    async def test_any_bytes_are_a_question_or_refused(self, bench, body):
        with pytest.raises(Reject) as caught:
            await grant_places(
                bench.context, Signing(), bench.about("/box/p1.tif"), body, base_url="https://q"
            )
        assert caught.value.code == "bad_request"

    async def test_an_attempt_that_is_over_gets_no_place(self, bench):
        assert (await self.asked(bench)).current
        await self.again(bench)
        over = await self.asked(bench, ["jpeg-2"], attempt=1)
        assert (over.current, over.places) == (False, ())
        assert (await self.asked(bench)).current
        await bench.converted("/box/p2.tif")
        assert not (await self.asked(bench, path="/box/p2.tif")).current
        with pytest.raises(Missing):
            await self.asked(bench, attempt=3)
        await bench.ledger.cancel((await bench.ledger.get_batch(ID)).no, act())
        assert not (await self.asked(bench)).current

    async def test_pictures_have_no_pages(self, bench):
        await self.pictures(bench)
        assert (await self.asked(bench, path="/box/up.jpg", kind="img")).current
        with pytest.raises(Reject):
            await self.asked(bench, ["jpeg-2"], path="/box/up.jpg", kind="img")

    async def test_what_is_not_running_is_over(self, bench):
        first, second = (self.order(bench, path) for path in ("/box/p1.tif", "/box/p2.tif"))
        names = [(one.batch_no, one.task_no, one.attempt) for one in (first, second)]
        assert await bench.tasks.find_finished(names) == set()
        await bench.converted("/box/p1.tif")
        assert await bench.tasks.find_finished(names) == {names[0]}
        await self.again(bench, "/box/p2.tif")
        assert await bench.tasks.find_finished(names) == set(names)
        current = (second.batch_no, second.task_no, 2)
        unknown = {(second.batch_no, 999, 1), (999, 1, 1)}
        assert await bench.tasks.find_finished([current, *unknown]) == unknown
        await bench.ledger.cancel(second.batch_no, act())
        assert await bench.tasks.find_finished([current]) == {current}

    async def test_a_result_that_was_kept_is_folded_as_if_it_had_been_called_in(self, bench):
        order = self.order(bench)
        assert not await bench.tasks.settle_stored_result(order)
        key = f"{FOLDER}/box/p1.jpg"
        await bench.blobs.put(key, b"a picture")
        body = {
            "task_id": task_id("tiff", ID, order.file.key),
            "batch_id": ID,
            "status": "success",
            "output_r2_key": key,
            "output_file_name": "p1.jpg",
            "output_file_size": 9,
            "quire": {
                "facts": {"cid_profile": "x"},
                "products": [
                    {
                        "role": "jpeg",
                        "key": key,
                        "size": 9,
                        "content_type": "image/jpeg",
                        "facts": {"width": 7, "cid": "bafk"},
                    }
                ],
            },
        }
        result = f"{FOLDER}/_work/{body['task_id']}-1.result.json"
        await bench.blobs.put(result, json.dumps(body).encode())
        assert await bench.tasks.settle_stored_result(order)
        task = await bench.settled()
        (jpeg,) = task.result.products
        assert jpeg.facts == {"width": 7, "cid": "bafk", "page": 1, "pages": 1}
        assert task.result.facts["cid_profile"] == "x"
        assert await bench.tasks.settle_stored_result(order)  # again, and nothing changes
        assert await bench.counts() == [(2, 1, 0), (2, 0, 0)]

    @pytest.mark.parametrize(
        ("body", "found"), [(b"", False), (b"{}", False), (b"x" * 300_000, False), (b'{"task_id"', False)]
    )
    async def test_a_result_that_is_none_is_not_taken(self, bench, body, found):
        order = self.order(bench)
        key = f"{FOLDER}/_work/{task_id('tiff', ID, order.file.key)}-1.result.json"
        await bench.blobs.put(key, body)
        assert await bench.tasks.settle_stored_result(order) is found
        assert (await bench.task()).state is TaskState.RUNNING

    async def test_an_output_alone_is_taken_from_workers_that_keep_no_result(self, bench):
        await bench.blobs.put(f"{FOLDER}/box/p1.jpg", b"")
        assert not await bench.tasks.settle_stored_result(self.order(bench))  # not a picture
        bench.blobs._clock = bench.clock
        await bench.blobs.put(f"{FOLDER}/box/p1.jpg", b"a picture")
        assert await bench.tasks.settle_stored_result(self.order(bench))
        assert (await bench.settled()).state is TaskState.DONE

    async def test_a_reference_alone_is_taken_when_it_is_whole(self, bench):
        await self.pictures(bench)
        order = self.order(bench, "/box/up.jpg")
        key = f"{FOLDER}/box/up.jpg.ref.json"
        await bench.blobs.put(key, json.dumps(REFERENCE).encode()[:-4])
        assert not await bench.tasks.settle_stored_result(order)
        await bench.blobs.put(key, json.dumps(REFERENCE).encode())
        assert await bench.tasks.settle_stored_result(order)
        assert (await bench.settled("/box/up.jpg")).result.facts["ref_data"] == REFERENCE

    async def test_copies_that_are_told_become_products_and_are_looked_at(self, bench):
        await self.pictures(bench)
        base = f"{FOLDER}/box/up.jpg"
        await bench.blobs.put(f"{base}.ref.json", json.dumps(REFERENCE).encode())
        await bench.blobs.put(f"{base}.thumb.jpg", b"small")
        copy = {"role": "thumb", "key": f"{base}.thumb.jpg", "size": 5, "content_type": "image/jpeg"}
        said = {"ref_json_r2_key": f"{base}.ref.json", "ref_data": REFERENCE}
        wrong = {"products": [copy | {"size": 6}]}
        await bench.call("/box/up.jpg", prefix="img", **said, quire=wrong)
        assert (await bench.settled("/box/up.jpg")).error_class == "size_mismatch"
        bench.clock.advance(60.0)
        await bench.claimed()
        await bench.call("/box/up.jpg", prefix="img", **said, quire={"products": [copy]})
        products = (await bench.settled("/box/up.jpg")).result.products
        assert [(one.role, one.size) for one in products] == [
            ("thumb", 5),
            ("ref", len(json.dumps(REFERENCE))),
        ]

    @pytest.mark.parametrize(
        ("own", "state", "error_class"),
        [
            ({"outcome": "rejected", "error_class": "truncated"}, TaskState.FAILED, "truncated"),
            ({"outcome": "erred", "error_class": "step_error"}, TaskState.WAITING, "step_error"),
            ({"outcome": "rejected", "error_class": "Not a class"}, TaskState.WAITING, "worker_error"),
        ],
    )
    async def test_workers_of_ours_say_whether_it_is_worth_trying_again(self, bench, own, state, error_class):
        await bench.call(status="error", error="no", quire=own)
        task = await bench.settled()
        assert (task.state, task.error_class) == (state, error_class)

    @pytest.mark.parametrize("status", ["success", "error"])
    async def test_what_a_machine_costs_is_counted_by_its_seconds(self, bench, status):
        bench.clock.advance(10.0)
        about = bench.about("/box/p1.tif")
        body = {"task_id": about.task_id, "batch_id": ID, "status": status, "error": "no"}
        body |= {"performance": {"total_time_ms": 3000}}
        await settle_callback(bench.context, about, json.dumps(body).encode(), prices={"": 0.5, "fly": 9.0})
        counts, _ = await bench.ledger.count_tasks((await bench.ledger.get_batch(ID)).no)
        assert counts.spent.money_micros == 1_500_000

    async def test_there_is_no_errand_for_a_batch_that_is_not_there(self, bench):
        file = File(key="k", path="/p", name="p", size=1, content_type="image/tiff")
        with pytest.raises(Missing):
            await bench.tasks.build_environment(CALLS["tiff"], Order(999, 1, 1, file))


class TestSqlite(ErrandSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(ErrandSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()
