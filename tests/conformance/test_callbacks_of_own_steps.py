"""Callbacks for steps that people have written: what their machines are given, and which results are kept."""

import base64
import hashlib
import json

import msgspec
import pytest
from msgspec import structs
from tests.conformance.test_callbacks import DUPLICATE, FOLDER, ID, OK, CallbackBench
from tests.conformance.test_remote_tasks import SECRET, Signing

from quire.batches.remote.output_places import grant_places
from quire.batches.remote.tasks import LedgerRemoteTasks, RemoteTaskOptions
from quire.blobs import keys
from quire.compute.remote.output_keys import is_temporary
from quire.compute.remote.step_claims import MAX_OUTPUTS, MAX_TOTAL_BYTES
from quire.compute.remote.step_task import StepTaskDetails, is_step_task, read_step_task
from quire.database.sqlite import SqliteDatabase
from quire.engine.cache import cache_key_of, cache_key_prefix
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import TaskState
from quire.model.errors import Misconfigured, Reject
from quire.model.files import Product
from quire.model.plan import Plan, PlanPhase, PlanStep, TakenValue, digest_of
from quire.model.work import MAX_VALUE_BYTES, EarlierResult, MemberFile, StepResult, Value

COUNT = PlanStep(
    name="count", step="words.count", version=3, compute="process", gives_value=True, max_attempts=2
)
ASK = PlanStep(
    name="count", step="words.count", version=3, compute="process", gives_value=True, external=True
)
USE = PlanStep(
    name="use", step="words.use", version=1, compute="process", takes=(TakenValue("count", ("count",), True),)
)
PLAN = Plan(
    name="words",
    version=2,
    queue="words",
    phases=(
        PlanPhase(name="count", task_prefix="count", steps=(COUNT,)),
        PlanPhase(name="use", task_prefix="use", steps=(USE,)),
    ),
    code_digest="c0de",
)
PATH = "/box/a.tif"
DATA = b"so many words"


def digest(data):
    return hashlib.sha256(data).hexdigest()


class StepBench(CallbackBench):
    def place(self, ending):
        order = self.claims[PATH].order
        return f"{FOLDER}/_work/step_{order.task_no}-{order.attempt}{ending}"

    async def product(self, number=1, data=DATA, **changes):
        key = self.place(f".o{number:04d}")
        await self.blobs.put(key, data)
        said = {"role": "md", "key": key, "size": len(data), "digest": digest(data)}
        return said | {"content_type": "text/markdown", "name": f"{number}.md"} | changes

    async def returned(self, **claims):
        return await self.call(PATH, prefix="count", quire={"step": claims})

    async def requests(self):
        return [one.body for one in await self.ledger.list_unsent(9) if one.queue == "jobs"]

    async def granted(self, *roles, **changes):
        about = self.about(PATH, prefix="count", **changes)
        body = json.dumps({"roles": roles}).encode()
        return await grant_places(
            self.context, Signing(), about, body, base_url="https://q", prefix="bucket/"
        )

    async def refused(self, error_class, **claims):
        """The attempt fails for that reason, and is tried again."""
        assert await self.returned(**claims) == OK
        task = await self.task(PATH)
        assert (task.state, task.claim.failures) == (TaskState.WAITING, 1)
        batch = await self.ledger.get_batch(ID)
        (tried,) = (await self.ledger.get_file_history(batch.no, PATH))[1]
        assert tried.error_class == error_class
        return tried.error


@pytest.fixture
async def bench(tmp_path):
    database = SqliteDatabase(tmp_path / "ledger.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    bench = StepBench(ledger)
    await bench.begun((PATH,), PLAN)
    bench.tasks = LedgerRemoteTasks(
        bench.context, Signing(), RemoteTaskOptions(base_url="https://quire.example", secret=SECRET)
    )
    yield bench
    await database.close()


async def test_a_machine_is_told_which_pipeline_it_must_have_and_where_its_input_is(bench):
    order = structs.replace(bench.claims[PATH].order, values={"v": Value(digest=digest(b"[1]"), size=3)})
    call = structs.replace(PLAN.phases[0].call(COUNT), options={"kind": "short"})
    said = await bench.tasks.build_environment(call, order)
    task = read_step_task(said)
    assert is_step_task(said)
    assert (task.pipeline, task.pipeline_version, task.plan_digest) == ("words", 2, digest_of(PLAN))
    assert (task.step, task.step_version, task.code_digest) == ("words.count", 3, "c0de")
    assert task.input_url.startswith(f"GET {FOLDER}{PATH} ")
    assert task.details_url.startswith(f"GET {bench.place('.details.json')} ")
    assert task.result_url.startswith(f"PUT {bench.place('.result.json')} ")
    details = json.loads(await bench.blobs.get(bench.place(".details.json")))
    assert (details["options"], details["file"]["path"]) == ({"kind": "short"}, PATH)
    assert details["values"]["v"]["url"].startswith(f"GET {keys.content(digest(b'[1]'))} ")


async def test_the_machine_of_a_folder_is_told_where_its_documents_and_their_large_values_are(bench):
    large = Value(digest=digest(b"[1]"), size=3)
    members = [
        MemberFile(
            key=f"{FOLDER}/box/{name}.txt",
            path=f"/box/{name}.txt",
            name=f"{name}.txt",
            size=1,
            content_type="text/plain",
            values={"count": value},
        )
        for name, value in (("a", large), ("b", Value(data=2)))
    ]
    listing = msgspec.json.encode(members)
    await bench.blobs.put("cas/list", listing)
    own = structs.replace(bench.claims[PATH].order.file, key="cas/list", path="/box")
    below = Value(digest=digest(b"[2]"), size=3)
    made = Product(role="page", key="cas/page", size=1, content_type="text/plain", digest="d")
    earlier = EarlierResult("/box/deep", StepResult(products=(made,), value=below))
    order = structs.replace(bench.claims[PATH].order, file=own, earlier=(earlier,), task="token")
    call = structs.replace(PLAN.phases[0].call(COUNT), unit="folder")
    task = read_step_task(await bench.tasks.build_environment(call, order))
    assert task.input_url.startswith("GET cas/list ")
    details = msgspec.json.decode(await bench.blobs.get(bench.place(".details.json")), type=StepTaskDetails)
    assert (details.unit, details.task) == ("folder", "token")
    wanted = {one.key for one in members} | {keys.content(one.digest) for one in (large, below)}
    assert set(details.urls) == wanted
    assert all(url.startswith(f"GET {key} ") for key, url in details.urls.items())
    assert details.earlier == (EarlierResult("/box/deep", StepResult(value=below)),)


async def test_a_folder_with_more_documents_than_can_be_listed_is_refused(bench, monkeypatch):
    monkeypatch.setattr("quire.batches.remote.step_tasks.MAX_UNIT_BYTES", 1000)
    names = [f"/box/{number}.txt" for number in range(20)]
    members = [MemberFile(key=one, path=one, name=one, size=1, content_type="text/plain") for one in names]
    await bench.blobs.put("cas/list", msgspec.json.encode(members))
    own = structs.replace(bench.claims[PATH].order.file, key="cas/list", path="/box")
    call = structs.replace(PLAN.phases[0].call(COUNT), unit="folder")
    with pytest.raises(Reject, match="let it run on local, queue or ray") as refused:
        await bench.tasks.build_environment(call, structs.replace(bench.claims[PATH].order, file=own))
    assert refused.value.code == "output_too_large"


@pytest.mark.parametrize("missing", ["TASK_PLAN_DIGEST", "TASK_DETAILS_URL", "TASK_PIPELINE_VERSION"])
async def test_an_environment_that_lacks_something_is_refused(bench, missing):
    said = await bench.tasks.build_environment(PLAN.phases[0].call(COUNT), bench.claims[PATH].order)
    with pytest.raises(Misconfigured, match=f"{missing} is not set"):
        read_step_task(said | {missing: ""})


async def test_places_are_those_of_the_attempt_and_bounded(bench):
    found = await bench.granted("output-1", f"output-{MAX_OUTPUTS}", "value")
    wanted = [bench.place(ending) for ending in (".o0001", ".o1000", ".value.json")]
    assert [one.key for one in found.places] == wanted
    assert all(is_temporary(key) for key in wanted)
    for role in ("output-0", f"output-{MAX_OUTPUTS + 1}", "output-01", "jpeg-2", "../value"):
        with pytest.raises(Reject, match="there is no place"):
            await bench.granted(role)


async def test_a_result_is_kept_as_content_with_all_that_was_said_of_it(bench):
    large = json.dumps(["x" * 100] * 100).encode()
    await bench.blobs.put(bench.place(".value.json"), large)
    first = await bench.product(1, tags=["loud"], preferred="a.md", facts={"page": 1})
    second = await bench.product(2, data=b"more", change="join")
    value = {"key": bench.place(".value.json"), "size": len(large), "digest": digest(large)}
    assert await bench.returned(products=[first, second], value=value, tags=["counted"], facts={"n": 3}) == OK
    result = (await bench.settled(PATH)).result
    one, other = result.products
    assert (one.key, one.digest, one.size) == (keys.content(digest(DATA)), digest(DATA), len(DATA))
    assert (one.name, one.preferred, one.tags, one.facts) == ("1.md", "a.md", ("loud",), {"page": 1})
    assert (other.change, await bench.blobs.get(other.key)) == ("join", b"more")
    assert (result.tags, result.facts) == (("counted",), {"n": 3})
    assert result.value.digest == digest(await bench.blobs.get(result.value.key))
    assert json.loads(await bench.blobs.get(result.value.key)) == json.loads(large)


@pytest.fixture
async def asking(tmp_path):
    """The step says that it may leave its task to somebody outside."""
    database = SqliteDatabase(tmp_path / "asking.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    bench = StepBench(ledger)
    first = structs.replace(PLAN.phases[0], steps=(ASK,))
    await bench.begun((PATH,), structs.replace(PLAN, phases=(first, *PLAN.phases[1:])))
    yield bench
    await database.close()


REQUEST = {"queue": "jobs", "body": base64.b64encode(b"please").decode(), "within_seconds": 60}


async def test_a_task_that_is_left_to_somebody_outside_waits_and_its_request_is_sent(asking):
    assert await asking.returned(external=REQUEST) == OK
    task = await asking.task(PATH)
    assert (task.state, task.claim.failures) == (TaskState.EXTERNAL, 0)
    assert await asking.requests() == [b"please"]
    assert await asking.returned(external=REQUEST) == DUPLICATE
    assert await asking.requests() == [b"please"]


@pytest.mark.parametrize(
    ("changes", "error_class"),
    [
        ({"within_seconds": 0}, "bad_result"),
        ({"queue": "no such name"}, "bad_result"),
        ({"body": base64.b64encode(b"x" * 200_000).decode()}, "bad_result"),
    ],
    ids=["deadline", "queue", "size"],
)
async def test_a_request_that_cannot_be_sent_fails_the_attempt(asking, changes, error_class):
    await asking.refused(error_class, external=REQUEST | changes)


async def test_a_request_beside_a_result_fails_the_attempt(asking):
    await asking.refused("bad_callback", external=REQUEST, value={"data": 1})


async def test_a_step_that_may_not_leave_its_task_to_others_fails(bench):
    await bench.refused("bad_callback", external=REQUEST)


async def test_a_result_of_an_own_step_is_kept_in_the_step_cache(bench):
    key = cache_key_of(cache_key_prefix(COUNT), COUNT, bench.claims[PATH].order)
    assert key is not None
    assert await bench.returned(products=[await bench.product()], value={"data": 3}) == OK
    found = (await bench.ledger.load_cached([key]))[key]
    assert (found.value.data, found.products[0].key) == (3, keys.content(digest(DATA)))


async def test_a_small_value_is_kept_in_the_record(bench):
    assert await bench.returned(value={"data": {"words": 3}}) == OK
    assert (await bench.settled(PATH)).result.value.data == {"words": 3}


async def test_what_a_step_has_spent_counts_whether_it_succeeds_or_fails(bench):
    said = {"cost": {"tokens_in": 5, "money_micros": 7}, "outcome": "erred", "error_class": "transient"}
    assert await bench.call(PATH, prefix="count", status="error", error="busy", quire=said) == OK
    batch = await bench.ledger.get_batch(ID)
    counted = (await bench.ledger.count_tasks(batch.no))[0].spent
    assert (counted.tokens_in, counted.money_micros) == (5, 7)


@pytest.mark.parametrize(
    ("changes", "error_class"),
    [
        ({"key": f"{FOLDER}/box/a.tif"}, "bad_callback"),
        ({"key": f"{FOLDER}/_work/step_1-1.o0001"}, "bad_callback"),
        ({"key": "cas/00/" + "0" * 64}, "bad_callback"),
        ({"digest": digest(b"other")}, "digest_mismatch"),
        ({"size": 1}, "size_mismatch"),
        ({"size": MAX_TOTAL_BYTES + 1}, "output_too_large"),
        ({"name": "../a.md"}, "bad_name"),
    ],
)
async def test_a_product_that_is_not_as_said_fails_the_attempt(bench, changes, error_class):
    await bench.refused(error_class, products=[await bench.product(1, **changes)])


async def test_bytes_that_are_known_are_compared_all_the_same(bench):
    await bench.blobs.put(keys.content(digest(DATA)), DATA)
    wrong = await bench.product(1, data=DATA[::-1], digest=digest(DATA))
    await bench.refused("digest_mismatch", products=[wrong])


async def test_outputs_are_in_the_places_of_their_numbers(bench):
    await bench.refused("bad_callback", products=[await bench.product(2)])


async def test_two_outputs_of_one_name_fail_the_attempt(bench):
    both = [await bench.product(1, name="a.md"), await bench.product(2, name="A.md")]
    await bench.refused("name_twice", products=both)


async def test_too_many_outputs_are_no_callback(bench):
    one = await bench.product(1)
    with pytest.raises(Reject, match="length"):
        await bench.returned(products=[one] * (MAX_OUTPUTS + 1))
    assert (await bench.task(PATH)).state is TaskState.RUNNING


@pytest.mark.parametrize(
    ("value", "error_class"),
    [
        ({"data": "x" * 5000}, "bad_callback"),
        ({"key": "cas/00/x", "size": 3, "digest": digest(b"[1]")}, "bad_callback"),
        ({"size": MAX_VALUE_BYTES + 1, "digest": digest(b"[1]")}, "bad_callback"),
        ({"size": 3, "digest": digest(b"[2]")}, "digest_mismatch"),
        ({"size": 4, "digest": digest(b"[1]")}, "size_mismatch"),
    ],
)
async def test_a_value_that_is_not_as_said_fails_the_attempt(bench, value, error_class):
    await bench.blobs.put(bench.place(".value.json"), b"[1]")
    place = {} if "data" in value else {"key": bench.place(".value.json")}
    await bench.refused(error_class, value=place | value)


async def test_a_success_without_a_result_fails_the_attempt(bench):
    assert await bench.call(PATH, prefix="count") == OK
    assert (await bench.task(PATH)).state is TaskState.WAITING


async def test_a_result_whose_callback_was_lost_is_settled(bench):
    about = bench.about(PATH, prefix="count")
    order = bench.claims[PATH].order
    assert not await bench.tasks.settle_stored_result(order)
    said = {"task_id": about.task_id, "batch_id": ID, "status": "success"}
    said["quire"] = {"step": {"products": [await bench.product()]}}
    await bench.blobs.put(bench.place(".result.json"), json.dumps(said).encode())
    assert await bench.tasks.settle_stored_result(order)
    assert (await bench.task(PATH)).state is TaskState.DONE


async def test_what_the_author_should_know_is_in_the_log(bench, caplog):
    said = {"step": {"value": {"data": 1}}, "warning": "the code differs"}
    assert await bench.call(PATH, prefix="count", quire=said) == OK
    assert "the code differs" in caplog.text
