"""All tiles of a picture in one file: thousands of small ones would cost a store more than their bytes.

Runs in a worker process, as a part of `image_variants`; needs pyvips installed. Memory holds some rows of
tiles, whatever the size of the picture; the scratch folder holds the tiles twice for a moment. Deterministic:
the order in the pack does not depend on the order in which libvips was done with them.
"""

import zipfile
from pathlib import Path

from quire.model.tiling import HEAD, MARK, OFFSET, Grid, Tile, first_offset
from quire.tools import vips


def write(picture: vips.VipsImage, folder: Path, *, side: int, quality: int) -> Path:
    """The pack, left in `folder`."""
    grid = Grid(picture.width, picture.height, side)
    loose, target = folder / "tiles.zip", folder / "tiles.pack"
    vips.save_tiles(picture, loose, side=side, quality=quality)
    with zipfile.ZipFile(loose) as tiles, target.open("wb") as out:
        offset = first_offset(grid.count)
        found = [tiles.getinfo(f"{loose.stem}/{_name(one, grid)}") for one in grid.tiles()]
        out.write(HEAD.pack(MARK, len(found)))
        for one in found:
            out.write(OFFSET.pack(offset))
            offset += one.file_size
        out.write(OFFSET.pack(offset))
        for one in found:
            out.write(tiles.read(one))
    loose.unlink()
    return target


def _name(tile: Tile, grid: Grid) -> str:
    """As libvips calls it."""
    region = f"{tile.x},{tile.y},{tile.region_width},{tile.region_height}"
    if (tile.region_width, tile.region_height) == (grid.width, grid.height):
        region = "full"
    return f"{region}/{tile.width},{tile.height}/0/default.jpg"
