"""Every link in every reference leads to the picture, whatever the pictures were worked on by."""

import hashlib
import io
import json
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image
from tests.acceptance.ingest.computes import COMPUTES
from tests.acceptance.ingest.elsewhere import BODIES, finished, outcomes, picture, sent, strays

pytestmark = pytest.mark.slow
TWIN = picture("JPEG", (300, 250))
BATCH = {
    "/box/p1.tif": BODIES["/box/p1.tif"],
    "/box/large.jpg": (picture("JPEG", (2600, 900)), "image/jpeg"),
    "/box/small.png": (picture("PNG", (90, 80)), "image/png"),
    "/box/odd, näme +.webp": (picture("WEBP", (400, 300)), "image/webp"),
    "/box/twin 1.jpg": (TWIN, "image/jpeg"),
    "/box/twin 2.jpg": (TWIN, "image/jpeg"),
    "/box/broken.jpg": BODIES["/box/broken.jpg"],
}
SIZES = {"thumb": 200, "medium": 1288, "large": 2400}


def followed(server, batch: str) -> dict[str, dict]:
    """By the path of each picture: what its link leads to, and what its sizes are."""
    found = {}
    for made in (listed for _, _, listed in outcomes(server, batch).values()):
        jpegs = {path: data for (role, path), (*_, data) in made.items() if role == "jpeg"}
        for (role, path), (*_, data) in made.items():
            if role != "ref":
                continue
            reference = json.loads(data)
            source = path.removesuffix(".ref.json")
            original = jpegs[source] if source in jpegs else BATCH[source][0]
            found[source] = {"reference": reference, "original": original}
            found[source]["answers"] = {
                size: httpx.get(reference["url"] + (f"/{size}" if size else ""))
                for size in ("", "original", *SIZES)
            }
    return found


@pytest.mark.parametrize(
    "compute", [pytest.param(name, marks=marks) for name, (_, marks) in COMPUTES.items()]
)
def test_every_link_leads_to_its_picture(compute, tmp_path, request):
    opened, _ = COMPUTES[compute]
    with opened(tmp_path, request.getfixturevalue, {}) as server:
        batch = sent(server, BATCH)
        assert finished(server, batch)["status"] == "DONE"
        assert strays(server, batch) == []
        found = followed(server, batch)
        assert set(found) == (set(BATCH) - {"/box/p1.tif", "/box/broken.jpg"}) | {"/box/p1.jpg"}
        for path, one in found.items():
            check_picture(path, one, published=compute.startswith("published"))
        links = {path: one["reference"]["url"] for path, one in found.items()}
        assert all(link.startswith(f"{server.url}/asset/") for link in links.values())
        if not compute.startswith("published"):  # those give their assets names by chance
            assert links["/box/twin 1.jpg"] == links["/box/twin 2.jpg"]
            check_viewer(server, batch, found)


def check_picture(path: str, one: dict, *, published: bool) -> None:
    for size, answer in one["answers"].items():
        assert answer.status_code == 200, (path, size, answer.text)
    sides = {}
    for size, answer in one["answers"].items():
        with Image.open(io.BytesIO(answer.content)) as opened:
            opened.load()
            sides[size] = max(opened.size)
    assert digest(one["answers"]["original"].content) == digest(one["original"]), path
    with Image.open(io.BytesIO(one["original"])) as opened:
        whole, width, height = max(opened.size), *opened.size
    assert sides["original"] == whole
    assert one["answers"]["original"].headers["content-type"] == one["reference"]["type"]
    # Each size is there when the picture is larger than that; otherwise another one stands in for it.
    assert sides["thumb"] == min(whole, 200)
    assert sides["medium"] == sides[""] == min(whole, 1288)
    assert sides["large"] == (2400 if whole > 2400 else sides["medium"])
    assert one["answers"]["original"].headers["x-original-dimensions"] == f"{width}x{height}"
    assert published or one["reference"]["size"] == len(one["original"])


def check_viewer(server, batch: str, found: dict[str, dict]) -> None:
    with server.client() as client:
        manifest = client.get(f"/api/batches/{batch}/iiif/manifest.json").raise_for_status().json()
    assert {one["label"]["none"][0] for one in manifest["items"]} == set(found)
    for one in manifest["items"]:
        shown = one["items"][0]["items"][0]["body"]["id"]
        assert httpx.get(shown).status_code == 200, urlsplit(shown).path


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
