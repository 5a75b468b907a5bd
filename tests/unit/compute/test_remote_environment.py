"""A worker that runs elsewhere: what it reads from its environment, what it stores, and what it says."""

import io
import json

import httpx
import pytest
from PIL import Image

from quire.compute.remote.environment import BucketAccess, read_task
from quire.compute.remote.output_keys import output_key
from quire.compute.remote.transfer import TransferClient
from quire.compute.remote.worker import RemoteWorkerContext, run_task
from quire.model.errors import Misconfigured, Missing, Retry
from quire.steps.registry import STEPS
from quire.testing.time import FakeClock

TIFF = {
    "TASK_ID": "tiff_3f0a",
    "BATCH_ID": "01KA",
    "INPUT_R2_KEY": "staging/01KA/scans/p1.tif",
    "INPUT_URL": "https://store.example/in",
    "OUTPUT_URL": "https://store.example/out",
    "CALLBACK_URL": "https://quire.example/callback/01KA/tiff_3f0a?sig=1",
}
KEYS = {"R2_BUCKET": "b", "R2_ACCESS_KEY_ID": "i", "R2_SECRET_ACCESS_KEY": "s", "R2_ACCOUNT_ID": "acc"}
IMAGE = {
    "TASK_ID": "img_77be",
    "BATCH_ID": "01KA",
    "INPUT_R2_KEY": "staging/01KA/scans/p1.jpg",
    "INPUT_FILE_NAME": "p1.jpg",
    "INPUT_CONTENT_TYPE": "image/jpeg",
    "INPUT_FILE_SIZE": "4096",
    "INPUT_URL": "https://store.example/in",
    "CALLBACK_URL": "https://quire.example/callback/01KA/img_77be?sig=1",
    "CDN_PUBLIC_URL": "https://cdn.example",
}
MISSING = object()


def without(environment, *names):
    return {name: text for name, text in environment.items() if name not in names}


def picture(kind, size=(1500, 900), pages=1):
    out = io.BytesIO()
    sheets = [Image.linear_gradient("L").resize(size).convert("RGB") for _ in range(pages)]
    sheets[0].save(out, kind, **({"save_all": True, "append_images": sheets[1:]} if pages > 1 else {}))
    return out.getvalue()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "TASK_ID is not set"),
        (without(TIFF, "CALLBACK_URL"), "CALLBACK_URL is not set"),
        (TIFF | {"BATCH_ID": ""}, "BATCH_ID is not set"),
        (TIFF | {"TASK_ID": "pdf_1"}, "neither TASK_ID nor QUIRE_STEP"),
        (TIFF | {"QUIRE_STEP": "other"}, "neither TASK_ID nor QUIRE_STEP"),
        (without(TIFF, "INPUT_URL"), "neither INPUT_URL nor R2_BUCKET"),
        (without(TIFF, "INPUT_URL") | without(KEYS, "R2_ACCOUNT_ID"), "neither INPUT_URL nor R2_BUCKET"),
        (IMAGE | {"INPUT_FILE_SIZE": "many"}, "INPUT_FILE_SIZE is not a number"),
        (TIFF | {"QUIRE_MEMORY_MB": "-1"}, "QUIRE_MEMORY_MB is not a number"),
        (TIFF | {"QUIRE_MEMORY_MB": "9" * 5000}, "QUIRE_MEMORY_MB is not a number"),
        (TIFF | {"QUIRE_OPTIONS": "[]"}, "QUIRE_OPTIONS is not a JSON object"),
    ],
)
def test_an_environment_that_is_none_says_what_is_wrong(environment, words):
    with pytest.raises(Misconfigured, match=words) as caught:
        read_task(environment)
    assert caught.value.code == "bad_task"


def test_what_the_published_variables_say():
    errand = read_task(
        without(IMAGE, "INPUT_URL") | KEYS | {"ARCHIVE_BUCKET": "a", "CDN_API_URL": "https://c/"}
    )
    assert (errand.step, errand.name, errand.size, errand.cid) == ("image_variants", "p1.jpg", 4096, None)
    assert errand.access == BucketAccess(
        bucket="b",
        archive_bucket="a",
        endpoint="https://acc.r2.cloudflarestorage.com",
        access_key_id="i",
        secret_access_key="s",
        account_id="acc",
    )
    assert "secret" not in repr(errand.access)
    assert (errand.registry_url, errand.options) == ("https://c", {"public_url": "https://cdn.example"})
    assert not errand.is_extended


def test_an_endpoint_of_our_own_comes_first():
    errand = read_task(TIFF | KEYS | {"S3_ENDPOINT_URL": "http://127.0.0.1:8333"})
    assert errand.access.endpoint == "http://127.0.0.1:8333"


@pytest.mark.parametrize(
    ("said", "step", "options", "ours"),
    [
        ({}, "tiff_to_jpeg", {"all_pages": False}, False),
        (
            {"QUIRE_STEP": "tiff_to_jpeg", "QUIRE_OPTIONS": '{"quality":80}'},
            "tiff_to_jpeg",
            {"quality": 80},
            True,
        ),
        ({"TASK_ID": "x", "QUIRE_STEP": "tiff_to_jpeg"}, "tiff_to_jpeg", {"all_pages": False}, True),
    ],
)
def test_the_step_and_its_options(said, step, options, ours):
    errand = read_task(TIFF | said)
    assert (errand.step, errand.options, errand.is_extended) == (step, options, ours)


@pytest.mark.parametrize(
    ("key", "role", "expected"),
    [
        ("staging/b/p1.tif", "jpeg", "staging/b/p1.jpg"),
        ("staging/b/p1.final.TIFF", "jpeg", "staging/b/p1.final.jpg"),
        ("staging/b/.tif", "jpeg", "staging/b/.tif.jpg"),
        ("p1", "jpeg", "p1.jpg"),
        ("staging/b/p1.jpg", "ref", "staging/b/p1.jpg.ref.json"),
        ("staging/b/p1.jpg", "thumb", "staging/b/p1.jpg.thumb.jpg"),
    ],
)
def test_outputs_are_named_after_the_input(key, role, expected):
    assert output_key(key, role) == expected


class TaskServer:
    """A carrier that keeps everything in memory, and a world that answers what it is told to."""

    def __init__(self, data, *, archive=False, roles=None):
        self.data = data
        self.stored = {}
        self.archived = {}
        self.calls = []
        self.answers = {}
        self.trouble = None
        self._archive = archive
        self._roles = roles
        self.slept = []
        self.urls = {}
        self.current = True
        self.asked = []

    async def fetch(self, target):
        if self.trouble is not None:
            raise self.trouble
        target.write_bytes(self.data)

    async def put(self, role, key, source, content_type, url=""):
        self.urls[key] = url
        if self._roles is not None and role not in self._roles:
            return False
        self.stored[key or role] = (source.read_bytes(), content_type)
        return True

    async def archive(self, key, source, content_type, labels):
        if self._archive:
            self.archived[key] = (source.read_bytes(), content_type, labels)
        return self._archive

    def answer(self, request):
        if request.url.path.endswith("/outputs"):
            return self.places(json.loads(request.content)["roles"])
        self.calls.append((str(request.url), json.loads(request.content), set(self.stored)))
        waiting = self.answers.get(request.url.host, [])
        return httpx.Response(waiting.pop(0) if waiting else 200, json={"ok": True})

    def places(self, roles):
        self.asked.append(roles)
        if self.current is None:
            return httpx.Response(503)
        made = [
            {"role": role, "key": f"own/{role}", "url": f"https://store.example/{role}"} for role in roles
        ]
        return httpx.Response(200, json={"current": self.current, "places": made if self.current else []})

    async def run(self, environment, folder):
        async def sleep(seconds):
            self.slept.append(seconds)

        folder.mkdir(exist_ok=True)
        transport = httpx.MockTransport(self.answer)
        async with TransferClient(sleep=sleep, fraction=lambda: 1.0, transport=transport) as line:
            kit = RemoteWorkerContext(files=self, client=line, steps=STEPS, clock=FakeClock(), folder=folder)
            return await run_task(read_task(environment), kit)

    @property
    def said(self):
        return self.calls[-1][1]


async def test_a_tiff_is_stored_and_then_told_exactly_as_the_contract_has_it(tmp_path):
    server = TaskServer(picture("TIFF"))
    assert await server.run(TIFF, tmp_path)
    key = "staging/01KA/scans/p1.jpg"
    data, kind = server.stored[key]
    ((url, said, stored_before),) = server.calls
    assert (url, kind, stored_before) == (TIFF["CALLBACK_URL"], "image/jpeg", {key})
    performance = said.pop("performance")
    assert set(performance) == {"total_time_ms", "download_time_ms", "conversion_time_ms", "upload_time_ms"}
    assert said == {
        "task_id": "tiff_3f0a",
        "batch_id": "01KA",
        "status": "success",
        "output_r2_key": key,
        "output_file_name": "p1.jpg",
        "output_file_size": len(data),
    }
    assert Image.open(io.BytesIO(data)).size == (1500, 900)


async def test_a_picture_is_registered_archived_stored_and_told(tmp_path):
    data = picture("JPEG")
    server = TaskServer(data, archive=True)
    environment = without(IMAGE, "INPUT_URL") | KEYS | {"CDN_API_URL": "https://registry.example"}
    assert await server.run(environment, tmp_path)
    (register, asset, _), (_, said, before) = server.calls
    key = "staging/01KA/scans/p1.jpg"
    assert before == {f"{key}.ref.json", f"{key}.medium.jpg", f"{key}.thumb.jpg"}
    asset_id = said["ref_data"]["url"].rpartition("/")[2]
    assert register == f"https://registry.example/asset/{asset_id}"
    assert asset["is_image"] is True
    assert (asset["content_type"], asset["default_variant"]) == ("image/jpeg", "medium")
    assert (asset["original_width"], asset["original_height"]) == (1500, 900)
    assert asset["variants"]["original"] == {
        "r2_key": key,
        "width": 1500,
        "height": 900,
        "size_bytes": len(data),
    }
    assert set(asset["variants"]["thumb"]) == {"r2_key", "width", "height", "size_bytes"}
    archived = f"archive/01KA/{asset_id}/original.jpg"
    assert server.archived[archived][2] == {
        "original-r2-key": key,
        "batch-id": "01KA",
        "task-id": "img_77be",
        "ipfs-cid": said["ref_data"]["ipfs_cid"],
    }
    said.pop("performance")
    reference = json.loads(server.stored[f"{key}.ref.json"][0])
    assert said == {
        "task_id": "img_77be",
        "batch_id": "01KA",
        "status": "success",
        "ref_json_r2_key": f"{key}.ref.json",
        "ref_data": reference,
        "archive_r2_key": archived,
    }
    assert reference["url"] == f"https://cdn.example/asset/{asset_id}"
    assert (reference["type"], reference["size"]) == ("image/jpeg", len(data))
    assert reference["filename"] == "p1.jpg"


async def test_without_an_archive_nothing_is_said_of_one(tmp_path):
    server = TaskServer(picture("JPEG", (100, 80)))
    assert await server.run(IMAGE, tmp_path)
    assert "archive_r2_key" not in server.said
    assert set(server.stored) == {"staging/01KA/scans/p1.jpg.ref.json"}


@pytest.mark.parametrize(
    ("data", "words"), [(b"II*\0 and nothing more", ""), (b"", "empty"), (b"plain words", "plain text")]
)
async def test_a_file_that_is_none_is_an_error_as_the_contract_has_it(tmp_path, data, words):
    server = TaskServer(data)
    assert not await server.run(TIFF, tmp_path)
    assert set(server.said) == {"task_id", "batch_id", "status", "error"}
    assert server.said["status"] == "error"
    assert words in server.said["error"]
    assert server.stored == {}


OURS = {"QUIRE_STEP": "tiff_to_jpeg", "QUIRE_OPTIONS": '{"quality": 90}', "OUTPUT_URL_RESULT": "https://x/r"}


async def test_a_house_of_ours_is_told_more_and_finds_it_in_the_store(tmp_path):
    server = TaskServer(picture("TIFF"))
    assert await server.run(TIFF | OURS, tmp_path)
    own = server.said["quire"]
    assert own["products"][0]["facts"]["width"] == 1500
    assert own["facts"]["pages"] == 1
    assert json.loads(server.stored["result"][0]) == server.said
    assert "result" in server.calls[-1][2]  # stored before it was said


@pytest.mark.parametrize(
    ("data", "trouble", "outcome", "code"),
    [
        (b"plain words", None, "rejected", "not_an_image"),
        (picture("TIFF", (60, 40), pages=2), None, "rejected", "many_pages"),
        (b"", Retry("no answer", code="no_answer"), "interrupted", "no_answer"),
        (b"", Missing("the input is not there (404)"), "rejected", "missing"),
    ],
)
async def test_a_house_of_ours_is_told_how_it_failed(tmp_path, data, trouble, outcome, code):
    server = TaskServer(data)
    server.trouble = trouble
    assert not await server.run(TIFF | OURS, tmp_path)
    assert server.said["quire"] == {"outcome": outcome, "error_class": code}
    assert json.loads(server.stored["result"][0]) == server.said


async def test_what_cannot_fit_is_refused_in_words_before_it_is_begun(tmp_path):
    out = io.BytesIO()
    Image.new("RGB", (1500, 900)).save(out, "JPEG", progressive=True)
    limited = OURS | {"QUIRE_STEP": "image_variants", "QUIRE_OPTIONS": "{}", "QUIRE_MEMORY_MB": "66"}
    server = TaskServer(out.getvalue())
    assert not await server.run(IMAGE | limited, tmp_path)
    assert server.said["quire"] == {"outcome": "rejected", "error_class": "too_much_memory"}
    assert "a worker may use 66 MB" in server.said["error"]
    assert await server.run(IMAGE | limited | {"QUIRE_MEMORY_MB": "600"}, tmp_path / "again")


MORE = {"MORE_OUTPUTS_URL": "https://quire.example/callback/01KA/tiff_3f0a/outputs?sig=1"}


async def test_the_pages_of_a_tiff_are_stored_where_the_house_says_and_all_told(tmp_path):
    server = TaskServer(picture("TIFF", (60, 40), pages=103))
    assert await server.run(TIFF | OURS | MORE, tmp_path)
    first = "staging/01KA/scans/p1.jpg"
    roles = [f"jpeg-{page}" for page in range(2, 104)]
    assert server.asked == [[], roles[:100], roles[100:]]
    told = [
        (one["key"], one["facts"]["page"], one["facts"]["pages"]) for one in server.said["quire"]["products"]
    ]
    wanted = [first, *(f"own/{role}" for role in roles)]
    assert told == [(key, page, 103) for page, key in enumerate(wanted, 1)]
    assert server.said["output_r2_key"] == first
    assert server.urls["own/jpeg-7"] == "https://store.example/jpeg-7"
    assert list(server.stored)[-2:] == [first, "result"]  # who finds the first finds the others


async def test_only_a_house_that_asked_for_it_is_told_of_pages(tmp_path):
    server = TaskServer(picture("TIFF", (60, 40), pages=2))
    assert not await server.run(TIFF | MORE | {"QUIRE_OPTIONS": "{}"}, tmp_path)
    assert "the TIFF has 2 pages" in server.said["error"]
    assert "quire" not in server.said


async def test_an_attempt_that_is_over_is_left_alone(tmp_path):
    server = TaskServer(picture("TIFF"))
    server.current = False
    assert await server.run(TIFF | OURS | MORE, tmp_path)
    assert (server.stored, server.calls, server.asked) == ({}, [], [[]])


async def test_where_nobody_says_whether_it_is_over_the_work_is_done(tmp_path):
    server = TaskServer(picture("TIFF"))
    server.current = None
    assert await server.run(TIFF | OURS | MORE, tmp_path)
    assert server.said["status"] == "success"
    assert server.slept == []


async def test_a_wrong_option_is_an_error(tmp_path):
    server = TaskServer(picture("TIFF", (60, 40)))
    assert not await server.run(TIFF | OURS | {"QUIRE_OPTIONS": '{"qualty": 1}'}, tmp_path)
    assert "qualty" in server.said["error"]


async def test_an_output_without_a_place_is_an_error(tmp_path):
    server = TaskServer(picture("TIFF", (60, 40)), roles=())
    assert not await server.run(TIFF, tmp_path)
    assert "no place" in server.said["error"]


async def test_a_registry_that_refuses_is_an_error_and_no_reference_is_left(tmp_path):
    server = TaskServer(picture("JPEG"))
    server.answers = {"registry.example": [400]}
    assert not await server.run(IMAGE | {"CDN_API_URL": "https://registry.example"}, tmp_path)
    assert "the asset registry was refused with 400" in server.said["error"]
    assert not any(key.endswith(".ref.json") for key in server.stored)


async def test_a_call_that_is_not_answered_is_repeated_and_not_for_ever(tmp_path):
    server = TaskServer(picture("TIFF", (60, 40)))
    server.answers = {"quire.example": [503, 429]}
    assert await server.run(TIFF, tmp_path)
    assert server.slept == [0.5, 1.0]
    (tmp_path / "again").mkdir()
    server.answers = {"quire.example": [500] * 9}
    with pytest.raises(Retry, match="the callback was answered with 500") as caught:
        await server.run(TIFF, tmp_path / "again")
    assert "quire.example" not in str(caught.value)


async def test_our_worker_leaves_the_registry_to_a_server_that_registers_itself(tmp_path):
    server = TaskServer(picture("JPEG", (1500, 900)))
    told = {"CDN_API_URL": "https://registry.example", "QUIRE_REGISTERS": "true"}
    assert await server.run(IMAGE | told, tmp_path)
    assert [url for url, *_ in server.calls if "registry" in url] == []
    assert server.said["ref_data"]["url"].startswith("https://cdn.example/asset/")
