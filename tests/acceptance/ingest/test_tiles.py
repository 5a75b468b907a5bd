"""A viewer that zooms finds every tile that it works out from info.json, on both stores."""

import io
import json
import math
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image, ImageChops, ImageStat
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.described import Described
from tests.acceptance.ingest.test_assets import FOREVER, UNKNOWN, sent

SIZE = (1333, 877)  # odd on purpose


def drawn():
    made = Image.merge("RGB", [Image.linear_gradient("L").rotate(90 * turn) for turn in range(3)])
    return made.resize(SIZE)


def encoded(picture, form):
    out = io.BytesIO()
    picture.save(out, form)
    return out.getvalue()


FILES = {
    "/odd.png": ("image/png", encoded(drawn(), "PNG")),
    "/small.png": ("image/png", encoded(drawn().resize((300, 200)), "PNG")),
}


class Viewer:
    """Works out addresses as OpenSeadragon does: levels from the scale factors, sizes rounded up."""

    def __init__(self, info):
        self.info = info
        self.width, self.height = info["width"], info["height"]
        (self.tiles,) = info["tiles"]
        self.side = self.tiles["width"]
        self.max_level = round(math.log2(max(self.tiles["scaleFactors"])))

    def level_size(self, level):
        scale = 0.5 ** (self.max_level - level)
        return math.ceil(self.width * scale), math.ceil(self.height * scale)

    def level(self, level):
        """Address, and where it goes on the level."""
        wide, high = self.level_size(level)
        step = self.side * 2 ** (self.max_level - level)
        for row in range(math.ceil(high / self.side)):
            for column in range(math.ceil(wide / self.side)):
                yield self.address(level, column, row, step), (column * self.side, row * self.side)

    def address(self, level, column, row, step):
        wide, high = self.level_size(level)
        x, y = column * step, row * step
        region = (x, y, min(step, self.width - x), min(step, self.height - y))
        size = (min(self.side, wide - column * self.side), min(self.side, high - row * self.side))
        if region == (0, 0, self.width, self.height) or (wide < self.side and high < self.side):
            region = ("full",)
        return f"{self.info['id']}/{','.join(map(str, region))}/{size[0]},{size[1]}/0/default.jpg", size


@pytest.fixture(scope="module", params=["local", pytest.param("s3", marks=pytest.mark.service)])
def shown(request, tmp_path_factory):
    """A client and the address of the image service of each picture, by path."""
    folder, environment = tmp_path_factory.mktemp("tiles"), {}
    if request.param == "s3":
        environment = s3_environment(request.getfixturevalue("s3_server"), f"ingest/{folder.name}")
    chosen = {
        "QUIRE_PREPROCESS_TILES": "true",
        "QUIRE_PREPROCESS_TILE_SIZE": "256",
        "QUIRE_PREPROCESS_TILES_ABOVE": "400",
    }
    with serving(folder, environment | chosen, "--workers", "1") as running:
        described = Described(httpx.get(f"{running.url}/openapi.json").raise_for_status().json())
        with running.client(event_hooks={"response": [described]}) as client:
            batch = sent(client, FILES)
            services = {}
            for line in client.get(f"{batch.at}/files").json()["files"]:
                (made,) = (one for one in line["outputs"] if one.endswith(".ref.json"))
                found = client.get(f"{batch.at}/files/download", params={"path": made}).json()
                url = json.loads(httpx.get(found["url"]).content)["url"]
                services[line["path"]] = f"/iiif/{urlsplit(url).path.rpartition('/')[2]}"
            yield client, services


@pytest.fixture
def odd(shown):
    client, services = shown
    return client, services["/odd.png"], client.get(f"{services['/odd.png']}/info.json").json()


def test_every_tile_of_every_scale_is_there_and_together_they_are_the_picture(odd):
    client, _, info = odd
    assert info["tiles"] == [{"width": 256, "scaleFactors": [1, 2, 4, 8]}]
    viewer = Viewer(info)
    for level in range(viewer.max_level + 1):
        whole = Image.new("RGB", viewer.level_size(level))
        for (address, size), corner in viewer.level(level):
            got = client.get(address)
            assert (got.status_code, got.headers["content-type"]) == (200, "image/jpeg"), address
            with Image.open(io.BytesIO(got.content)) as tile:
                assert (tile.format, tile.size) == ("JPEG", size)
                whole.paste(tile, corner)
        wanted = drawn().reduce(2 ** (viewer.max_level - level))
        bands = ImageStat.Stat(ImageChops.difference(whole, wanted)).mean
        assert max(bands) < 3, level


def test_sizes_are_there_and_are_not_taken_for_scales(odd):
    client, _, info = odd
    assert info["sizes"]
    # Viewers before OpenSeadragon 6 take as many sizes as scales, or one less, for the scales.
    assert len(info["sizes"]) not in {len(info["tiles"][0]["scaleFactors"]) - less for less in (0, 1)}
    for one in info["sizes"]:
        got = client.get(f"{info['id']}/full/{one['width']},{one['height']}/0/default.jpg")
        with Image.open(io.BytesIO(got.raise_for_status().content)) as opened:
            assert opened.size == (one["width"], one["height"])
    with Image.open(io.BytesIO(client.get(f"{info['id']}/full/max/0/default.jpg").content)) as opened:
        assert opened.size == (info["maxWidth"], info["maxHeight"])


def test_a_tile_is_kept_by_caches_and_given_in_parts(odd):
    client, at, _ = odd
    address = f"{at}/256,0,256,256/256,256/0/default.jpg"
    got = client.get(address).raise_for_status()
    said = got.headers
    assert (said["cache-control"], said["x-variant"]) == (FOREVER, "tile")
    assert (said["x-variant-dimensions"], said["x-original-dimensions"]) == ("256x256", "1333x877")
    assert said["access-control-allow-origin"] == "*"
    assert int(said["content-length"]) == len(got.content)
    looked = client.head(address)
    assert (looked.status_code, looked.content) == (200, b"")
    assert {looked.headers[name] for name in ("etag", "content-length")} == {
        said["etag"],
        said["content-length"],
    }
    unchanged = client.get(address, headers={"If-None-Match": said["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    part = client.get(address, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, got.content[10:20])
    assert client.get(address, headers={"Range": f"bytes={len(got.content)}-"}).status_code == 416
    other = client.get(f"{at}/0,0,256,256/256,256/0/default.jpg")
    assert other.headers["etag"] != said["etag"]
    assert other.content != got.content


def test_the_width_alone_and_the_whole_region_mean_the_same(odd):
    client, at, _ = odd
    whole = client.get(f"{at}/full/167,110/0/default.jpg").raise_for_status().content
    assert client.get(f"{at}/0,0,1333,877/167,/0/default.jpg").content == whole
    edge = client.get(f"{at}/1280,768,53,109/53,109/0/default.jpg").raise_for_status().content
    assert client.get(f"{at}/1280,768,53,109/53,/0/default.jpg").content == edge


@pytest.mark.parametrize(
    "rest",
    [
        "0,0,256,256/255,255/0/default.jpg",
        "1,0,256,256/256,256/0/default.jpg",
        "0,0,256,256/256,256/0/default.png",
        "0,0,256,256/256,256/90/default.jpg",
        "0,0,256,256/max/0/default.jpg",
        "square/256,256/0/default.jpg",
        "pct:0,0,10,10/256,256/0/default.jpg",
        "..%2F..%2Fassets/256,256/0/default.jpg",
        "0,0,256,99999999999999999999/256,256/0/default.jpg",
        "1536,0,256,256/256,256/0/default.jpg",
    ],
)
def test_what_is_no_tile_is_not_found(odd, rest):
    client, at, _ = odd
    assert client.get(f"{at}/{rest}").status_code == 404


def test_a_picture_that_is_not_large_has_its_sizes_alone(shown):
    client, services = shown
    info = client.get(f"{services['/small.png']}/info.json").json()
    assert "tiles" not in info
    assert client.get(f"{services['/small.png']}/0,0,256,200/256,200/0/default.jpg").status_code == 404
    assert client.get(f"/iiif/{UNKNOWN}/0,0,256,200/256,200/0/default.jpg").status_code == 404
