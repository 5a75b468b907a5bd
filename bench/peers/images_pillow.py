"""The same products by Pillow: a path on each line of standard input, "done" on standard output."""

import sys
from pathlib import Path

from PIL import Image, ImageOps

Image.MAX_IMAGE_PIXELS = 600_000_000
OUT = Path(sys.argv[1])


def variants(path: Path) -> None:
    with Image.open(path) as opened:
        longest = max(opened.size)
        wanted = [one for one in (("large", 2400), ("medium", 1288), ("thumb", 200)) if longest > one[1]]
        if wanted:
            opened.draft("RGB", (wanted[0][1], wanted[0][1]))
        picture = ImageOps.exif_transpose(opened)
        for role, side in wanted:
            picture = picture.copy()
            picture.thumbnail((side, side), Image.Resampling.LANCZOS)
            picture.convert("RGB").save(OUT / f"{path.name}.{role}.jpg", quality=85)


for line in sys.stdin:
    path = Path(line.rstrip("\n"))
    if path.suffix == ".tif":
        made = OUT / f"{path.stem}.jpg"
        with Image.open(path) as opened:
            opened.convert("L" if opened.mode in {"1", "L"} else "RGB").save(made, quality=95, subsampling=0)
        path = made
    variants(path)
    print("done", flush=True)
