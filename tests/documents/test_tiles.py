"""Tiles of real pictures: put together again they are the picture, on every scale and for odd sizes."""

import io
import subprocess
import sys

import pytest
from PIL import Image, ImageChops, ImageStat

from quire.model.tiling import BOUNDS, Grid, bounds_at


def pack_of(output):
    return next((made for made in output.files if made.role == "tiles"), None)


def tile_of(pack, tile):
    start, stop = BOUNDS.unpack(pack[slice(*bounds_at(tile.number))])
    return Image.open(io.BytesIO(pack[start:stop]))


def whole(pack, grid, scale):
    """One scale of the picture, out of its tiles."""
    size = (-(-grid.width // scale), -(-grid.height // scale))
    made = Image.new("RGB", size)
    for tile in grid.tiles():
        if tile.width == -(-tile.region_width // scale) and tile.height == -(-tile.region_height // scale):
            with tile_of(pack, tile) as opened:
                if tile.x % (grid.side * scale) == tile.y % (grid.side * scale) == 0:
                    assert opened.size == (tile.width, tile.height)
                    made.paste(opened, (tile.x // scale, tile.y // scale))
    return made


def apart(one, other):
    bands = ImageStat.Stat(ImageChops.difference(one.convert("RGB"), other.convert("RGB"))).mean
    return sum(bands) / len(bands)


@pytest.mark.parametrize("size", [(1800, 1200), (1777, 1111), (1025, 1024), (257, 1199)])
@pytest.mark.parametrize("side", [256, 500])
def test_tiles_put_together_are_the_picture(size, side, corpus, run_step, tmp_path):
    with Image.open(corpus / "image" / "Landscape_1.jpg") as picture:
        cut = picture.crop((0, 0, *size))
        cut.save(tmp_path / "odd.png")

    made = pack_of(run_step("image_variants", tmp_path / "odd.png", tile_size=side, tiles_above=200))

    assert made.facts == {"width": size[0], "height": size[1], "side": side}
    grid, pack = Grid(*size, side), made.path.read_bytes()
    scales = grid.scales
    assert apart(whole(pack, grid, 1), cut) < 4
    for scale in scales[1:]:
        seen = whole(pack, grid, scale)
        assert apart(seen, cut.reduce(scale)) < 4


def test_a_picture_that_lies_on_its_side_has_upright_tiles(corpus, run_step):
    output = run_step("image_variants", corpus / "image" / "Landscape_6.jpg", tile_size=512, tiles_above=200)
    made = pack_of(output)
    assert (made.facts["width"], made.facts["height"]) == (1800, 1200)
    with Image.open(corpus / "image" / "Landscape_1.jpg") as upright:
        assert apart(whole(made.path.read_bytes(), Grid(1800, 1200, 512), 1), upright) < 10


def test_a_repeated_run_gives_the_same_pack(corpus, run_step):
    options = {"tile_size": 256, "tiles_above": 200}
    first, second = (
        run_step("image_variants", corpus / "image" / "Landscape_1.jpg", **options) for _ in "12"
    )
    assert pack_of(first).path.read_bytes() == pack_of(second).path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile_size": 512},
        {"tile_size": 512, "tiles_above": 1800},
        {"tile_size": 2048, "tiles_above": 200},
    ],
)
def test_a_picture_that_is_not_large_enough_has_none(options, corpus, run_step):
    assert pack_of(run_step("image_variants", corpus / "image" / "Landscape_1.jpg", **options)) is None


def test_everything_else_is_as_without_tiles(corpus, run_step):
    source = corpus / "image" / "Landscape_1.jpg"
    plain, cut = (
        run_step("image_variants", source, **one) for one in ({}, {"tile_size": 512, "tiles_above": 200})
    )
    kept = [made for made in cut.files if made.role != "tiles"]
    assert [one.path.read_bytes() for one in plain.files] == [one.path.read_bytes() for one in kept]
    assert (plain.facts, plain.asset) == (cut.facts, cut.asset)


BIG = """
import sys
from pathlib import Path
from quire.compute.pool import memory
from quire.model.files import File
from quire.model.step import StepInput
from quire.steps.registry import STEPS
memory.limit(int(sys.argv[3]))
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
file = File(key="k", path="/big.jpg", name="big.jpg", size=source.stat().st_size, content_type="image/jpeg")
options = {"tile_size": 512}
STEPS["image_variants"].run(StepInput(file=file, source=source, folder=folder, options=options))
"""


def test_a_large_picture_is_cut_in_little_memory(tmp_path):
    import pyvips

    from quire.settings import worker_environment
    from quire.tools.vips import WORKER_ENVIRONMENT

    width, height = 12_000, 6_000  # 216 MB of pixels, and the worker has 200
    source, folder = tmp_path / "big.jpg", tmp_path / "made"
    folder.mkdir()
    pyvips.Image.xyz(width, height).bandjoin(7).cast("uchar").copy(interpretation="srgb").jpegsave(
        str(source)
    )
    ran = subprocess.run(
        [sys.executable, "-c", BIG, str(source), str(folder), "200"],
        env=worker_environment() | WORKER_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (folder / "tiles.pack").stat().st_size > 1_000_000
    assert not (folder / "tiles.zip").exists()
