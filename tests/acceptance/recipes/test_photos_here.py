"""Photos in, recipes out, on a server that reads them itself."""

import pytest
from tests.situations.recipe_photos import card_photo

pytestmark = pytest.mark.slow
PHOTO = card_photo()


def test_a_photo_becomes_a_recipe_that_can_be_saved_once(kitchen):
    accepted = kitchen.post_photos(PHOTO, params={"title_hint": "Pancakes", "tier_max": "3"})
    assert accepted.status_code == 202
    assert set(accepted.json()) == {"ingestion_id", "job_id"}
    job_id = accepted.json()["job_id"]
    job = kitchen.ended(job_id)
    assert (job["status"], job["stage"], job["error_code"]) == ("COMPLETE", "COMPLETE", None)
    draft = job["result"]["recipe_draft"]
    assert [one["name"] for one in draft["ingredients"]] == ["eggs", "flour", "milk", "sugar"]
    assert len(draft["steps"]) == 3
    assert draft["source"]["type"] == "image"
    assert draft["source"]["original_filename"] == "0.jpg"
    assert draft["source"]["ocr_tier_used"]
    assert job["result"]["pipeline"]["used_llm"] is False

    (listed,) = kitchen.client.get("/recipes/jobs", params={"status": "COMPLETE"}).json()["jobs"]
    assert listed["id"] == job_id
    assert listed["job_type"] == "image"
    assert listed["completed_at"].endswith("Z")
    assert listed["preview"] == {"title": draft["title"], "source_host": None}

    saved = kitchen.client.post("/recipes", json=draft | {"parse_job_id": job_id})
    assert saved.status_code == 201
    assert saved.json()["recipe"]["title"] == draft["title"]
    assert kitchen.job(job_id)["status"] == "COMMITTED"
    assert kitchen.client.post("/recipes", json=draft | {"parse_job_id": job_id}).status_code == 409
    assert kitchen.client.get("/recipes/jobs").json() == {"jobs": []}


def test_the_stored_photo_is_upright_and_small_and_on_the_grid(kitchen):
    import io

    from PIL import Image

    accepted = kitchen.post_photos(card_photo(kind="JPEG", orientation=6)).json()
    folder = kitchen.server.home / "blobs" / "recipe-images" / str(kitchen.user) / accepted["ingestion_id"]
    with Image.open(io.BytesIO((folder / "0.jpg").read_bytes())) as stored:
        assert stored.width > stored.height
        assert stored.width % 28 == 0
        assert stored.height % 28 == 0
        assert stored.width * stored.height <= 1280 * 28 * 28
        assert stored.getexif().get(0x0112) is None
    assert kitchen.ended(accepted["job_id"])["status"] == "COMPLETE"


def test_two_photos_are_one_recipe_in_their_order(kitchen):
    first = "Grandma's Pancakes\nServes 4\nIngredients\n2 eggs\n1 cup flour\n1 cup milk\n1 tbsp sugar\n"
    second = (
        "Directions\n1. Mix the eggs and the milk in a bowl.\n2. Add the flour and the sugar.\n"
        "3. Fry small cakes in butter until golden.\n"
    )
    accepted = kitchen.post_photos(card_photo(first), card_photo(second)).json()
    draft = kitchen.ended(accepted["job_id"])["result"]["recipe_draft"]
    assert len(draft["ingredients"]) == 4
    assert len(draft["steps"]) == 3


def test_a_photo_without_a_recipe_fails_with_a_code_that_says_why(kitchen):
    empty = kitchen.ended(kitchen.post_photos(card_photo("")).json()["job_id"])
    assert (empty["status"], empty["stage"], empty["error_code"]) == ("ERROR", "FAILED", "ocr_no_text")
    short = kitchen.ended(kitchen.post_photos(card_photo("Dear Emma,\nsee you soon.")).json()["job_id"])
    assert short["error_code"] == "quality_gate_failed"
    assert short["error_message"]


@pytest.mark.parametrize(
    ("photos", "status"),
    [
        ([], 400),
        ([PHOTO] * 9, 400),
        ([b"%PDF-1.7 no picture"], 400),
        ([b""], 400),
        ([PHOTO[: len(PHOTO) // 2]], 400),
        ([PHOTO, b"GIF89a broken"], 400),
        ([b"\xff\xd8" + b"x" * (10 << 20)], 413),
    ],
    ids=["none", "nine", "a PDF", "empty", "half", "one of two is broken", "too large"],
)
def test_what_cannot_be_photos_of_a_recipe_is_refused_at_once(kitchen, photos, status):
    refused = (
        kitchen.post_photos(*photos)
        if photos
        else kitchen.client.post("/recipes/from-image/jobs", files={"other": b"x"})
    )
    assert refused.status_code == status
    assert "job_id" not in refused.json()


def test_a_bomb_is_refused_before_it_is_decoded(kitchen):
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )
    refused = kitchen.post_photos(bomb)
    assert refused.status_code == 400
    assert "40000 x 40000" in refused.json()["detail"]


def test_the_same_key_gets_the_same_answer(kitchen):
    key = {"idempotency-key": "upload-1"}
    first = kitchen.post_photos(PHOTO, headers=key)
    again = kitchen.post_photos(PHOTO, headers=key)
    assert (again.status_code, again.json()) == (202, first.json())
    as_field = kitchen.client.post(
        "/recipes/from-image/jobs", files=[("images", ("0.jpg", PHOTO))], data={"idempotency_key": "upload-1"}
    )
    assert as_field.json() == first.json()
    assert kitchen.post_photos(card_photo("Other"), headers=key).status_code == 422
    kitchen.ended(first.json()["job_id"])
    assert len(kitchen.client.get("/recipes/jobs").json()["jobs"]) == 1


def test_a_form_that_is_cut_off_or_no_form_is_refused(kitchen):
    for kind, body in (
        ("application/json", b"{}"),
        ("multipart/form-data", b"x"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="images"\r\n\r\nab',
        ),
    ):
        refused = kitchen.client.post(
            "/recipes/from-image/jobs", content=body, headers={"content-type": kind}
        )
        assert refused.status_code == 400
