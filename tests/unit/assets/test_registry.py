"""The registry of assets: both shapes, what an id stands for, and what is given when a size is missing."""

import io
from base64 import b64encode

import pytest
from PIL import Image

from quire.assets.registry import deliver, register
from quire.blobs import asset_records, keys
from quire.model.asset import Asset, Rendition
from quire.model.errors import DamagedBlob, Missing, Reject, Retry, Stale
from quire.testing.memory_blobs import MemoryBlobs
from quire.tools.outgoing_client import OutgoingClient

ID = "01KB0000000000000000000000"
BATCH = "01KA0000000000000000000000"
BASE = "https://cdn.example"


def picture(width, height, form="JPEG"):
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, form)
    return out.getvalue()


def image(**changes):
    return {
        "is_image": True,
        "content_type": "image/jpeg",
        "original_width": 3000,
        "original_height": 2000,
        "default_variant": "medium",
        "variants": {
            "thumb": {"r2_key": "t.jpg", "width": 200, "height": 133, "size_bytes": 1},
            "medium": {"r2_key": "m.jpg", "width": 1288, "height": 859, "size_bytes": 2},
            "original": {"r2_key": f"staging/{BATCH}/o.jpg", "width": 3000, "height": 2000, "size_bytes": 3},
        },
    } | changes


def carried(**changes):
    data = picture(200, 100)
    thumb = {
        "name": "thumb",
        "data": b64encode(data).decode(),
        "content_type": "image/jpeg",
        "size": len(data),
    }
    return {
        "variants": [thumb],
        "original_filename": "p1.jpg",
        "original_content_type": "image/jpeg",
        "ipfs_cid": "bafkreix",
    } | changes


@pytest.fixture
async def blobs():
    made = MemoryBlobs()
    for key, size in (("t.jpg", 1), ("m.jpg", 2), (f"staging/{BATCH}/o.jpg", 3), ("doc.pdf", 4)):
        await made.put(key, b"x" * size)
    return made


async def registered(blobs, said, asset_id=ID, *, allow_private=False):
    allowed = OutgoingClient(allow_private=allow_private).check_url
    return await register(blobs, asset_id, said, allowed=allowed, base_url=BASE)


async def delivered(blobs, wanted=None, asset_id=ID):
    return await deliver(blobs, asset_id, wanted, allowed=OutgoingClient().check_url)


async def test_an_image_is_answered_in_the_shape_of_the_service(blobs):
    made = await registered(blobs, image())
    assert made.created
    assert made.answer == {
        "success": True,
        "assetId": ID,
        "cdnUrl": f"{BASE}/asset/{ID}",
        "storage_type": "r2",
        "defaultUrl": f"{BASE}/asset/{ID}",
        "variants": {role: f"{BASE}/asset/{ID}/{role}" for role in ("thumb", "medium", "original")},
    }


async def test_a_single_file_and_an_address_are_answered_in_the_shape_of_the_service(blobs):
    file = {"r2_key": "doc.pdf", "content_type": "application/pdf", "size_bytes": 4}
    link = {"url": "https://files.example/a.pdf", "content_type": "application/pdf", "size_bytes": 4}
    common = {"success": True, "storage_type": "r2"}
    assert (await registered(blobs, file)).answer == common | {
        "assetId": ID,
        "cdnUrl": f"{BASE}/asset/{ID}",
        "r2_key": "doc.pdf",
    }
    other = ID[:-1] + "1"
    assert (await registered(blobs, link, other)).answer == common | {
        "assetId": other,
        "cdnUrl": f"{BASE}/asset/{other}",
        "storage_type": "url",
        "sourceUrl": link["url"],
    }
    assert (await delivered(blobs, asset_id=other)).url == link["url"]
    for asset_id in (ID, other):
        with pytest.raises(Reject, match="not an image"):
            await delivered(blobs, "thumb", asset_id)


async def test_copies_that_come_as_base64_are_stored_and_answered_in_that_shape(blobs):
    made = await registered(blobs, carried())
    assert made.answer == {
        "success": True,
        "assetId": ID,
        "cdnUrl": f"{BASE}/asset/{ID}",
        "variants": {"thumb": f"{BASE}/asset/{ID}?size=thumb"},
    }
    given = await delivered(blobs)
    assert (given.role, given.width, given.height) == ("thumb", 200, 100)
    assert await blobs.get(given.key) == picture(200, 100)


@pytest.mark.parametrize("said", [image(), carried()])
async def test_the_same_again_is_the_same_and_something_else_is_a_conflict(blobs, said):
    first = await registered(blobs, said)
    again = await registered(blobs, said)
    assert (first.created, again.created) == (True, False)
    assert first.answer == again.answer
    other = {"r2_key": "doc.pdf", "content_type": "application/pdf", "size_bytes": 4}
    with pytest.raises(Stale):
        await registered(blobs, other)


async def test_the_same_again_is_the_same_when_its_staged_file_has_moved_on(blobs):
    await registered(blobs, image())
    await blobs.delete(f"staging/{BATCH}/o.jpg")
    assert not (await registered(blobs, image())).created


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "JSON object"),
        ({}, "Either url or r2_key is required"),
        ({"url": "https://a.example/", "r2_key": "doc.pdf"}, "Only one of url and r2_key"),
        ({"r2_key": "doc.pdf", "size_bytes": 4}, "content_type is required"),
        ({"r2_key": "doc.pdf", "content_type": "a/b"}, "size_bytes is required"),
        ({"r2_key": "doc.pdf", "content_type": "a/b", "size_bytes": True}, "size_bytes is required"),
        ({"r2_key": "doc.pdf", "content_type": "a/b", "size_bytes": 5}, "the store has 4 bytes"),
        ({"r2_key": "doc.pdf", "content_type": "a/b\r\nx", "size_bytes": 4}, "printable"),
        ({"r2_key": "doc.pdf", "content_type": "pdf", "size_bytes": 4}, "content type such as"),
        ({"r2_key": "no.pdf", "content_type": "a/b", "size_bytes": 4}, "not in the store"),
        ({"r2_key": "../x", "content_type": "a/b", "size_bytes": 4}, "not a key"),
        ({"url": "ftp://a.example/", "content_type": "a/b", "size_bytes": 4}, "this URL cannot be called"),
        ({"url": "http://10.0.0.1/", "content_type": "a/b", "size_bytes": 4}, "not on the public internet"),
        (image(variants={}), "variants is required"),
        (image(variants={"huge": {}}), "Variants are named"),
        (image(variants={"thumb": 1}), "must be an object"),
        (image(original_width=0), "original_width must be"),
        (image(original_width=100_000, original_height=100_000), "pixels"),
        (image(default_variant="huge"), "Variants are named"),
        (carried(variants=[]), "At least one"),
        (carried(variants=[1]), "must be an object"),
        (carried(variants=carried()["variants"] * 2), "there twice"),
        (carried(variants=[carried()["variants"][0] | {"data": "!"}]), "not base64"),
        (carried(variants=[carried()["variants"][0] | {"data": 5}]), "not base64"),
        (carried(variants=[carried()["variants"][0] | {"size": 1}]), "does not have its size"),
        (carried(variants=[carried()["variants"][0] | {"content_type": "text/html"}]), "must be image/jpeg"),
        (carried(variants=[carried()["variants"][0] | {"content_type": "image/png"}]), "cannot be read"),
        (carried(ipfs_cid=5), "ipfs_cid must be text"),
    ],
)
async def test_what_cannot_be_recorded_is_refused_and_leaves_nothing(blobs, said, words):
    before = [stored.key async for stored in blobs.list()]
    with pytest.raises(Reject, match=words):
        await registered(blobs, said)
    assert [stored.key async for stored in blobs.list()] == before


async def test_an_id_that_is_none_is_refused(blobs):
    for asset_id in ("a", "x" * 65, "../../etc/x", "a b c d e f"):
        with pytest.raises(Reject, match="Invalid asset id"):
            await registered(blobs, image(), asset_id)
        with pytest.raises(Missing, match="Asset not found"):
            await delivered(blobs, asset_id=asset_id)


async def test_private_addresses_are_let_in_when_that_is_allowed(blobs):
    link = {"url": "http://10.0.0.1/a.pdf", "content_type": "application/pdf", "size_bytes": 4}
    assert (await registered(blobs, link, allow_private=True)).created
    with pytest.raises(Reject):  # and not given to anybody once it is not any more
        await delivered(blobs)


@pytest.mark.parametrize(
    ("there", "given"),
    [
        ("thumb medium large original", {"thumb": "thumb", "medium": "medium", "large": "large"}),
        ("medium original", {"thumb": "medium", "large": "medium", "original": "original", None: "medium"}),
        ("original", {"thumb": "original", "medium": "original", "large": "original", None: "original"}),
        ("large thumb", {"thumb": "thumb", "medium": None, None: "large", "original": None}),
    ],
)
def test_a_size_that_is_missing_is_stood_in_for(there, given):
    rendition = Rendition(key="k", content_type="image/jpeg", size=1)
    asset = Asset(
        id=ID, content_type="image/jpeg", is_image=True, renditions=dict.fromkeys(there.split(), rendition)
    )
    assert {wanted: asset.choose_rendition(wanted) for wanted in given} == given


async def test_an_unknown_size_is_not_found(blobs):
    await registered(blobs, image())
    with pytest.raises(Missing, match="Variant not found"):
        await delivered(blobs, "huge")


async def test_bytes_that_are_gone_are_told_as_a_fault_of_the_store(blobs):
    await registered(blobs, image())
    await blobs.delete("m.jpg")
    with pytest.raises(Retry) as caught:
        await delivered(blobs)
    assert caught.value.code == "asset_gone"


async def test_a_wrong_bit_in_a_record_is_put_right(blobs):
    await registered(blobs, image())
    right = await blobs.get(keys.asset(ID))
    wrong = right.replace(b'"width":3000', b'"width":3001', 1)
    assert wrong != right
    await blobs.put(keys.asset(ID), wrong)
    assert (await delivered(blobs, "original")).asset.width == 3000
    assert await blobs.get(keys.asset(ID)) == right


async def test_a_record_that_is_damaged_further_is_never_used_and_is_replaced_by_the_next_registration(blobs):
    await registered(blobs, image())
    right = await blobs.get(keys.asset(ID))
    await blobs.put(keys.asset(ID), right.replace(b"3000", b"7777"))
    with pytest.raises(DamagedBlob, match="Register the asset again"):
        await delivered(blobs)
    assert (await registered(blobs, image())).created
    assert await blobs.get(keys.asset(ID)) == right
    assert not (await registered(blobs, image())).created


async def test_a_record_of_an_earlier_version_has_no_checksum_and_is_read(blobs):
    await registered(blobs, image())
    sealed = await blobs.get(keys.asset(ID))
    await blobs.put(keys.asset(ID), sealed.rpartition(b",")[0] + b"}")
    assert (await delivered(blobs, "original")).asset.width == 3000


async def test_an_original_that_was_staged_is_found_in_the_archive(blobs):
    await registered(blobs, image())
    await blobs.delete(f"staging/{BATCH}/o.jpg")
    await blobs.put(keys.archived(BATCH, ID, "jpg"), b"xxx")
    assert (await delivered(blobs, "original")).key == f"archive/{BATCH}/{ID}/original.jpg"


async def test_staged_files_of_an_asset_are_held_and_others_are_not(blobs):
    staged = f"staging/{BATCH}/o.jpg"
    await blobs.put(f"staging/{BATCH}/other.jpg", b"x")
    await registered(blobs, image())
    assert await asset_records.find_holder(blobs, staged) == ID
    assert await asset_records.find_holder(blobs, f"staging/{BATCH}/other.jpg") is None
    assert await asset_records.find_holder(blobs, "m.jpg") is None
    await registered(blobs, {"r2_key": staged, "content_type": "image/jpeg", "size_bytes": 3}, "another-id")
    assert await asset_records.find_holder(blobs, staged) == ""
