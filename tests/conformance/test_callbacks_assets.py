"""Callbacks register the picture that they tell of, before they are settled, and whatever they claim."""

import json

import pytest
from msgspec import structs
from tests.conformance.test_callbacks import FOLDER, LATE, OK, CallbackBench
from tests.conformance.test_callbacks_of_own_steps import PATH, StepBench, digest
from tests.conformance.test_callbacks_of_own_steps import PLAN as OWN_PLAN
from tests.conformance.test_remote_tasks import SECRET, Signing

from quire.batches.remote.tasks import LedgerRemoteTasks, RemoteTaskOptions
from quire.blobs import asset_records, keys
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite import SqliteLedger
from quire.model.asset import Asset, Rendition
from quire.model.batch import TaskState
from quire.model.errors import Missing, Retry
from quire.testing.memory_blobs import MemoryBlobs

ASSET = "3951WNVJYN89VGDQJM8KHSRQ35"
OTHER = "3951WNVJYN89VGDQJM8KHSRQ36"
PICTURE = "/box/up.jpg"
KEY = f"{FOLDER}{PICTURE}"
LINK = f"http://localhost:8787/asset/{ASSET}"
REFERENCE = {"url": LINK, "ipfs_cid": "bafk", "type": "image/jpeg", "size": 9, "filename": "up.jpg"}
FACTS = {"asset_id": ASSET, "width": 1500, "height": 700, "content_type": "image/jpeg"}
SMALL = b"a small picture"


class FlakyBlobs(MemoryBlobs):
    """Records of assets cannot be written for a while."""

    faulty = False

    async def put(self, key, *rest, **more):
        if self.faulty and key.startswith("assets/"):
            raise Retry("the store is away", code="store_unavailable")
        return await super().put(key, *rest, **more)


class PictureBench(CallbackBench):
    def __init__(self, ledger):
        super().__init__(ledger)
        self.blobs = FlakyBlobs()
        self.context = structs.replace(self.context, blobs=self.blobs)
        options = RemoteTaskOptions(base_url="https://quire.example", secret=SECRET)
        self.tasks = LedgerRemoteTasks(self.context, Signing(), options)

    async def to_pictures(self):
        await self.begun()
        await self.converted("/box/p1.tif")
        await self.converted("/box/p2.tif")
        await self.claimed()

    async def told(self, *, facts=FACTS, sides=None, reference=REFERENCE, ours=True, **changes):
        await self.blobs.put(f"{KEY}.ref.json", json.dumps(REFERENCE, indent=2).encode())
        await self.blobs.put(f"{KEY}.thumb.jpg", SMALL)
        thumb = {"role": "thumb", "key": f"{KEY}.thumb.jpg", "size": len(SMALL), "content_type": "image/jpeg"}
        thumb |= {"facts": {"width": 200, "height": 93} | (sides or {})}
        said = {"ref_json_r2_key": f"{KEY}.ref.json", "ref_data": reference}
        if ours:
            said["quire"] = {"facts": facts, "products": [thumb]}
        return await self.call(PICTURE, prefix="img", **(said | changes))

    async def registered(self):
        return {
            key.removeprefix("assets/").removesuffix(".json")
            for key in self.blobs_below("assets")
            if key.endswith(".json")
        }


@pytest.fixture
async def ledger(tmp_path):
    database = SqliteDatabase(tmp_path / "ledger.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    yield ledger
    await database.close()


@pytest.fixture
async def bench(ledger):
    bench = PictureBench(ledger)
    await bench.to_pictures()
    return bench


async def test_a_picture_is_registered_with_its_copies_and_they_are_held(bench):
    assert await bench.told() == OK
    found = await asset_records.find(bench.blobs, ASSET)
    assert (found.width, found.height, found.name, found.cid) == (1500, 700, "up.jpg", "bafk")
    jpeg = "image/jpeg"
    assert found.renditions == {
        "original": Rendition(key=KEY, content_type=jpeg, size=100, width=1500, height=700),
        "thumb": Rendition(key=f"{KEY}.thumb.jpg", content_type=jpeg, size=len(SMALL), width=200, height=93),
    }
    assert await asset_records.find_holder(bench.blobs, KEY) == ASSET
    assert await asset_records.find_holder(bench.blobs, f"{KEY}.thumb.jpg") == ""


async def test_the_record_is_stored_before_the_callback_is_settled(bench):
    bench.blobs.faulty = True
    with pytest.raises(Retry):
        await bench.told()
    assert (await bench.task(PICTURE)).state is TaskState.RUNNING
    bench.blobs.faulty = False
    assert await bench.told() == OK
    assert (await bench.settled(PICTURE)).state is TaskState.DONE
    assert await bench.registered() == {ASSET}


async def test_a_published_callback_registers_the_original(bench):
    assert await bench.told(ours=False) == OK
    found = await asset_records.find(bench.blobs, ASSET)
    assert {role: one.key for role, one in found.renditions.items()} == {"original": KEY}
    assert (found.width, found.content_type, found.choose_rendition(None)) == (0, "image/jpeg", "original")


async def test_a_registration_by_the_worker_itself_stays(bench):
    own = Asset(id=ASSET, content_type="image/jpeg", is_image=True, name="of the worker")
    await asset_records.register(bench.blobs, own)
    assert await bench.told() == OK
    assert await asset_records.find(bench.blobs, ASSET) == own


@pytest.mark.parametrize(
    "url", [f"https://cdn.example/asset/{ASSET}", f"http://localhost:8787.example/asset/{ASSET}"]
)
async def test_a_link_that_leads_elsewhere_is_not_ours_to_register(bench, url):
    assert await bench.told(reference=REFERENCE | {"url": url}, ours=False) == OK
    assert await bench.registered() == set()
    assert await asset_records.find_holder(bench.blobs, KEY) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reference": REFERENCE | {"url": "http://localhost:8787/asset/../x"}}, "no id of an asset"),
        ({"reference": REFERENCE | {"url": f"{LINK}/thumb"}}, "no id of an asset"),
        ({"reference": REFERENCE | {"url": "http://localhost:8787/asset/"}}, "no id of an asset"),
        ({"facts": FACTS | {"asset_id": OTHER}}, "different assets"),
        ({"facts": FACTS | {"asset_id": None}}, "different assets"),
        ({"facts": FACTS | {"width": "wide"}}, "sides of a picture"),
        ({"facts": FACTS | {"width": True}}, "sides of a picture"),
        ({"facts": FACTS | {"height": -1}}, "sides of a picture"),
        ({"facts": FACTS | {"height": 10**7}}, "sides of a picture"),
        ({"sides": {"width": [1]}}, "sides of a picture"),
        ({"sides": {"height": 1.5}}, "sides of a picture"),
    ],
)
async def test_an_asset_that_cannot_be_right_fails_the_attempt_and_is_not_registered(bench, changes, words):
    assert await bench.told(**changes) == OK
    task = await bench.settled(PICTURE)
    assert (task.state, task.error_class) == (TaskState.WAITING, "bad_callback")
    assert words in task.error
    assert await bench.registered() == set()


@pytest.mark.parametrize(
    ("told", "kind"), [("text/html", "image/jpeg"), ("image/jpg", "image/jpeg"), ("image/webp", "image/webp")]
)
async def test_only_pictures_are_shown_whatever_type_is_told(bench, told, kind):
    assert await bench.told(reference=REFERENCE | {"type": told}) == OK
    found = await asset_records.find(bench.blobs, ASSET)
    assert {found.content_type, found.renditions["original"].content_type} == {kind}


async def test_an_identifier_without_end_is_not_kept(bench):
    assert await bench.told(reference=REFERENCE | {"ipfs_cid": "b" * 256}) == OK
    assert (await asset_records.find(bench.blobs, ASSET)).cid is None


async def test_an_attempt_that_was_given_up_registers_nothing(bench):
    await bench.call(PICTURE, prefix="img", status="error")
    bench.clock.advance(60.0)
    await bench.claimed()
    assert await bench.told(url={"attempt": 1}) == LATE
    assert await bench.registered() == set()


async def test_a_result_whose_callback_was_lost_is_registered_too(bench):
    order = bench.claims[PICTURE].order
    body = {"task_id": bench.about(PICTURE, prefix="img").task_id, "batch_id": FOLDER.partition("/")[2]}
    body |= {"status": "success", "ref_json_r2_key": f"{KEY}.ref.json", "ref_data": REFERENCE}
    await bench.blobs.put(f"{KEY}.ref.json", json.dumps(REFERENCE).encode())
    place = f"{FOLDER}/_work/{body['task_id']}-1.result.json"
    await bench.blobs.put(place, json.dumps(body | {"quire": {"facts": FACTS}}).encode())
    assert await bench.tasks.settle_stored_result(order)
    assert (await asset_records.find(bench.blobs, ASSET)).width == 1500


async def test_an_output_alone_is_enough_for_a_link(bench):
    await bench.blobs.put(f"{KEY}.ref.json", json.dumps(REFERENCE).encode())
    assert await bench.tasks.settle_stored_result(bench.claims[PICTURE].order)
    assert (await asset_records.find(bench.blobs, ASSET)).renditions["original"].key == KEY


@pytest.fixture
async def own(ledger):
    bench = StepBench(ledger)
    await bench.begun((PATH,), OWN_PLAN)
    return bench


DRAFT = {"id": ASSET, "content_type": "image/png", "width": 9, "height": 8}


async def test_a_step_that_people_have_written_registers_its_asset_too(own):
    thumb = await own.product(1, role="thumb", facts={"width": 2, "height": 1})
    assert await own.returned(products=[thumb], asset=DRAFT) == OK
    found = await asset_records.find(own.blobs, ASSET)
    assert found.renditions["thumb"].key == keys.content(digest(b"so many words"))
    assert found.renditions["original"].key == f"{FOLDER}{PATH}"


@pytest.mark.parametrize(
    ("draft", "facts", "role", "words"),
    [
        (DRAFT | {"id": "../../x"}, {}, "thumb", "not a ULID"),
        (DRAFT | {"content_type": "text/html"}, {}, "thumb", "an asset is one of image/jpeg"),
        (DRAFT | {"width": -1}, {}, "thumb", "sides of a picture"),
        (DRAFT | {"cid": "b" * 256}, {}, "thumb", "255 characters"),
        (DRAFT, {"width": "x"}, "thumb", "sides of a picture"),
        (DRAFT, {}, "tiles", "tiles are made by workers on local"),
    ],
)
async def test_of_such_a_step_too_nothing_is_registered_that_cannot_be_right(own, draft, facts, role, words):
    thumb = await own.product(1, role=role, facts=facts)
    assert words in await own.refused("bad_callback", products=[thumb], asset=draft)
    with pytest.raises(Missing):
        await asset_records.find(own.blobs, ASSET)
