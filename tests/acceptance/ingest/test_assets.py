"""Pictures of a batch have addresses that hold: on both stores, for browsers, caches and IIIF viewers."""

import io
import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.described import Described
from tests.acceptance.ingest.sender import Sender

FOREVER = "public, max-age=31536000, immutable"
UNKNOWN = "01KB0000000000000000000000"


def picture(width, height, form="JPEG"):
    out = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).save(out, form)
    return out.getvalue()


FILES = {
    "/a/large.jpg": ("image/jpeg", picture(3000, 2000)),
    "/a/small.png": ("image/png", picture(150, 100, "PNG")),
    "/b/letter.txt": ("text/plain", b"no picture"),
    "/b/scan.tif": ("image/tiff", picture(600, 400, "TIFF")),
}


def sent(client, files):
    batch = Sender(client, file_count=len(files), total_size=sum(len(data) for _, data in files.values()))
    for path, (kind, data) in files.items():
        url = batch.start(path, len(data), content_type=kind).raise_for_status().json()["presigned_url"]
        assert httpx.put(url, content=data).status_code == 200
        batch.complete(path).raise_for_status()
    batch.finalize().raise_for_status()
    with client.stream("GET", f"{batch.at}/events") as stream:
        assert any(line == "event: end" for line in stream.iter_lines())
    return batch


class Gallery:
    """A batch that is done, and the addresses of its pictures by path."""

    def __init__(self, client):
        self.client = client
        self.batch = sent(client, FILES)
        self.assets = {}
        for line in client.get(f"{self.batch.at}/files").json()["files"]:
            for made in line["outputs"]:
                if made.endswith(".ref.json"):
                    self.assets[line["path"]] = self.reference(made)

    def reference(self, path):
        found = self.client.get(f"{self.batch.at}/files/download", params={"path": path}).json()
        return urlsplit(json.loads(httpx.get(found["url"]).content)["url"]).path

    def get(self, path, rest="", **options):
        return self.client.get(self.assets[path] + rest, **options)


@pytest.fixture(scope="module", params=["local", pytest.param("s3", marks=pytest.mark.service)])
def gallery(request, tmp_path_factory):
    folder, environment = tmp_path_factory.mktemp("gallery"), {}
    if request.param == "s3":
        environment = s3_environment(request.getfixturevalue("s3_server"), f"ingest/{folder.name}")
    with serving(folder, environment, "--workers", "1") as running:
        described = Described(httpx.get(f"{running.url}/openapi.json").raise_for_status().json())
        with running.client(event_hooks={"response": [described]}) as client:
            yield Gallery(client)


@pytest.mark.parametrize(
    ("asked", "role", "size"),
    [
        ("", "medium", (1288, 859)),
        ("/thumb", "thumb", (200, 133)),
        ("?size=large", "large", (2400, 1600)),
        ("/original", "original", (3000, 2000)),
        ("/medium/my holiday.jpg", "medium", (1288, 859)),
    ],
)
def test_a_picture_is_given_in_its_sizes(gallery, asked, role, size):
    found = gallery.get("/a/large.jpg", asked).raise_for_status()
    with Image.open(io.BytesIO(found.content)) as opened:
        assert opened.size == size
    said = found.headers
    assert said["content-type"] == "image/jpeg"
    assert said["cache-control"] == FOREVER
    assert said["x-asset-id"] == gallery.assets["/a/large.jpg"].rpartition("/")[2]
    assert said["x-variant"] == role
    assert said["x-variant-dimensions"] == "{}x{}".format(*size)
    assert said["x-original-dimensions"] == "3000x2000"
    assert said["x-content-type-options"] == "nosniff"
    assert said["content-security-policy"].startswith("sandbox")
    assert said["access-control-allow-origin"] == "*"
    assert "content-disposition" not in said


def test_a_size_that_was_not_made_is_stood_in_for(gallery):
    for asked in ("", "/thumb", "/large", "?size=medium"):
        found = gallery.get("/a/small.png", asked)
        assert (found.headers["x-variant"], found.content) == ("original", FILES["/a/small.png"][1])


def test_head_says_what_get_would(gallery):
    at = gallery.assets["/a/large.jpg"] + "/original"
    got, looked = gallery.client.get(at), gallery.client.head(at)
    assert looked.content == b""
    passing = {"date", "transfer-encoding"}
    assert {**got.headers} | dict.fromkeys(passing) == {**looked.headers} | dict.fromkeys(passing)
    assert int(looked.headers["content-length"]) == len(got.content)
    assert gallery.client.head(f"/asset/{UNKNOWN}").status_code == 404


def test_what_is_there_already_is_not_sent_again(gallery):
    at = gallery.assets["/a/large.jpg"]
    etag = gallery.client.get(at).headers["etag"]
    for said in (etag, f'"other", W/{etag}', "*"):
        found = gallery.client.get(at, headers={"If-None-Match": said})
        assert (found.status_code, found.content) == (304, b"")
        assert found.headers["etag"] == etag
    assert gallery.client.get(at, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("said", "start", "stop"),
    [("bytes=0-0", 0, 1), ("bytes=10-99", 10, 100), ("bytes=100-", 100, None), ("bytes=-7", -7, None)],
)
def test_a_part_can_be_had(gallery, said, start, stop):
    whole = FILES["/a/large.jpg"][1]
    found = gallery.get("/a/large.jpg", "/original", headers={"Range": said})
    assert (found.status_code, found.content) == (206, whole[start:stop])
    first = range(len(whole))[start]
    assert found.headers["content-range"] == f"bytes {first}-{first + len(found.content) - 1}/{len(whole)}"


@pytest.mark.parametrize("said", ["bytes=0-1,3-4", "bytes=5-2", "bytes=-", "lines=1-2", "bytes=x-"])
def test_what_is_no_single_part_gives_the_whole(gallery, said):
    found = gallery.get("/a/large.jpg", "/original", headers={"Range": said})
    assert (found.status_code, found.content) == (200, FILES["/a/large.jpg"][1])


def test_a_part_after_the_end_is_refused_and_an_outdated_one_is_the_whole(gallery):
    size = len(FILES["/a/large.jpg"][1])
    for said in (f"bytes={size}-", "bytes=-0"):
        found = gallery.get("/a/large.jpg", "/original", headers={"Range": said})
        assert found.status_code == 416
        assert found.headers["content-range"] == f"bytes */{size}"
    outdated = {"Range": "bytes=0-1", "If-Range": '"old"'}
    assert gallery.get("/a/large.jpg", "/original", headers=outdated).status_code == 200


def test_what_is_not_there_is_not_found(gallery):
    found = gallery.client.get(f"/asset/{UNKNOWN}")
    assert (found.status_code, found.json()) == (404, {"error": "Asset not found"})
    assert gallery.get("/a/large.jpg", "/huge").status_code == 404


def test_a_file_that_is_no_picture_is_saved_and_not_shown(gallery):
    key = gallery.batch.key("/b/letter.txt")
    said = {"r2_key": key, "content_type": "text/html", "size_bytes": 10}
    at = f"/asset/{UNKNOWN[:-1]}1"
    assert gallery.client.post(at, json=said).status_code == 201
    assert gallery.client.post(at, json=said).status_code == 200
    other = gallery.client.post(at, json=said | {"content_type": "text/plain"})
    assert (other.status_code, list(other.json())) == (409, ["error"])
    found = gallery.client.get(at)
    assert found.headers["content-disposition"].startswith("attachment")
    assert found.content == b"no picture"
    refused = gallery.client.get(f"{at}/thumb")
    assert refused.status_code == 400
    nothing = gallery.client.post(at, json={})
    assert (nothing.status_code, nothing.json()) == (400, {"error": "Either url or r2_key is required"})


def test_an_address_elsewhere_is_led_to_and_a_private_one_refused(gallery):
    said = {"url": "https://files.example/a.pdf", "content_type": "application/pdf", "size_bytes": 4}
    at = f"/asset/{UNKNOWN[:-1]}2"
    assert gallery.client.post(at, json=said).status_code == 201
    found = gallery.client.get(at)
    assert (found.status_code, found.headers["location"]) == (302, said["url"])
    private = gallery.client.post(f"/asset/{UNKNOWN[:-1]}3", json=said | {"url": "http://127.0.0.1:1/"})
    assert private.status_code == 400


def test_a_batch_is_a_manifest_that_viewers_can_open(gallery):
    at = f"{gallery.batch.at}/iiif/manifest.json"
    found = gallery.client.get(at, headers={"Origin": "https://viewer.example"}).raise_for_status()
    assert found.headers["access-control-allow-origin"] == "*"
    manifest = found.json()
    assert manifest["@context"] == "http://iiif.io/api/presentation/3/context.json"
    assert manifest["type"] == "Manifest"
    assert urlsplit(manifest["id"]).path == at
    assert manifest["label"] == {"none": [gallery.batch.id]}
    canvases = {canvas["label"]["none"][0]: canvas for canvas in manifest["items"]}
    assert list(canvases) == ["/a/large.jpg", "/a/small.png", "/b/scan.jpg"]
    ids = set()
    for canvas in canvases.values():
        (page,) = canvas["items"]
        (painting,) = page["items"]
        assert (canvas["type"], page["type"], painting["type"]) == ("Canvas", "AnnotationPage", "Annotation")
        assert (painting["motivation"], painting["target"]) == ("painting", canvas["id"])
        ids |= {canvas["id"], page["id"], painting["id"]}
        (thumbnail,) = canvas["thumbnail"]
        for image in (painting["body"], thumbnail):
            assert image["type"] == "Image"
            got = httpx.get(image["id"]).raise_for_status()
            assert got.headers["content-type"] == image["format"]
            with Image.open(io.BytesIO(got.content)) as opened:
                assert opened.size == (image["width"], image["height"])
        (service,) = painting["body"]["service"]
        assert (service["type"], service["profile"]) == ("ImageService3", "level0")
    assert len(ids) == 9
    assert all(urlsplit(one).scheme == "http" and not urlsplit(one).fragment for one in ids)
    sizes = [(one["width"], one["height"]) for one in canvases.values()]
    assert sizes == [(3000, 2000), (150, 100), (600, 400)]


def test_a_manifest_comes_in_pages(gallery):
    at, labels = f"{gallery.batch.at}/iiif/manifest.json?limit=1", []
    while at:
        manifest = gallery.client.get(at).raise_for_status().json()
        labels += [canvas["label"]["none"][0] for canvas in manifest["items"]]
        at = manifest["seeAlso"][0]["id"] if "seeAlso" in manifest else ""
    assert labels == ["/a/large.jpg", "/a/small.png", "/b/scan.jpg"]
    assert gallery.client.get(f"{gallery.batch.at}/iiif/manifest.json?limit=x").status_code == 400


def test_an_image_service_has_the_sizes_that_it_says(gallery):
    asset_id = gallery.assets["/a/large.jpg"].rpartition("/")[2]
    told = gallery.client.get(f"/iiif/{asset_id}")
    assert told.status_code == 303
    info = httpx.get(told.headers["location"]).raise_for_status().json()
    assert info["@context"] == "http://iiif.io/api/image/3/context.json"
    assert (info["type"], info["protocol"]) == ("ImageService3", "http://iiif.io/api/image")
    assert (info["profile"], info["width"], info["height"]) == ("level0", 3000, 2000)
    assert info["sizes"] == [
        {"width": 200, "height": 133},
        {"width": 1288, "height": 859},
        {"width": 2400, "height": 1600},
        {"width": 3000, "height": 2000},
    ]
    wanted = [(f"{one['width']},{one['height']}", one["width"]) for one in info["sizes"]]
    for size, width in [*wanted, ("max", 3000), ("200,", 200)]:
        got = httpx.get(f"{info['id']}/full/{size}/0/default.jpg").raise_for_status()
        with Image.open(io.BytesIO(got.content)) as opened:
            assert (opened.format, opened.width) == ("JPEG", width)
    for rest in ("full/201,133/0/default.jpg", "full/max/0/default.png", "full/max/90/default.jpg"):
        assert httpx.get(f"{info['id']}/{rest}").status_code == 404


def test_a_small_picture_that_is_no_jpeg_is_offered_as_it_is(gallery):
    asset_id = gallery.assets["/a/small.png"].rpartition("/")[2]
    info = gallery.client.get(f"/iiif/{asset_id}/info.json").raise_for_status().json()
    assert (info["preferredFormats"], info["sizes"]) == (["png"], [{"width": 150, "height": 100}])
    got = gallery.client.get(f"/iiif/{asset_id}/full/max/0/default.png").raise_for_status()
    assert got.content == FILES["/a/small.png"][1]


def test_a_batch_without_pictures_has_no_manifest(gallery):
    batch = sent(gallery.client, {"/a.txt": ("text/plain", b"12345")})
    found = gallery.client.get(f"{batch.at}/iiif/manifest.json")
    assert (found.status_code, found.json()["type"]) == (404, "urn:quire:error:no_pictures")


def _quire(server, *arguments):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    ran = subprocess.run(
        [sys.executable, "-m", "quire.cli.main", *arguments, "--json"],
        env=kept | server.environment | {"QUIRE_HOME": str(server.home)},
        cwd=server.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("archives", ["true", "false"])
def test_addresses_hold_when_staging_is_cleaned(store, tmp_path, archives):
    environment = store | {
        "QUIRE_ARCHIVE_ENABLED": archives,
        "QUIRE_CLEANING_STAGING_DAYS": "0.000000001",
        "QUIRE_CLEANING_EVERY_SECONDS": "0",
        "QUIRE_INGEST_HAND_OVER_TO": "",
    }
    with serving(tmp_path, environment, "--workers", "1") as server, server.client() as client:
        shown = Gallery(client)
        if archives == "true":
            size = sum(len(data) for _, data in FILES.values())
            assert _quire(server, "batch", "archive", shown.batch.id) == {"files": 4, "bytes": size}
        cleaned = _quire(server, "clean")
        assert cleaned["stagings"] == 1
        # Without an archive the two uploaded pictures stay; the page of the TIFF was never staged.
        assert (cleaned["kept"], cleaned["archived"]) == ((0, 4) if archives == "true" else (2, 0))
        for path in ("/a/large.jpg", "/a/small.png"):
            assert shown.get(path, "/original").content == FILES[path][1]
        assert shown.get("/b/scan.tif").status_code == 200
