"""The same products by ImageMagick, a call for each picture: a path on each line, "done" as the answer."""

import subprocess
import sys
from pathlib import Path

OUT = Path(sys.argv[1])
LIMITS = ["-limit", "thread", "1"]


def convert(*arguments: str) -> None:
    subprocess.run(["convert", *LIMITS, *arguments], check=True)


for line in sys.stdin:
    path = Path(line.rstrip("\n"))
    if path.suffix == ".tif":
        made = OUT / f"{path.stem}.jpg"
        convert(f"{path}[0]", "-quality", "95", str(made))
        path = made
    copies = [
        *("-resize", "2400x2400>", "-quality", "85", "-write", str(OUT / f"{path.name}.large.jpg")),
        *("-resize", "1288x1288>", "-write", str(OUT / f"{path.name}.medium.jpg")),
        *("-resize", "200x200>", str(OUT / f"{path.name}.thumb.jpg")),
    ]
    convert(str(path), "-auto-orient", *copies)
    print("done", flush=True)
