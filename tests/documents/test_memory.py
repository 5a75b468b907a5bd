"""Pictures that cannot be read line by line: what they are said to need, and that no worker exceeds it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import pyvips

from quire.compute.pool.memory import IDLE_MB
from quire.steps import memory_estimate
from quire.tools import tiff, vips
from quire.tools.vips import Header

pytestmark = pytest.mark.slow

MB = 1 << 20
WIDE, HIGH = 6000, 4000


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Made once: 24 megapixels each, by name."""
    folder = tmp_path_factory.mktemp("pictures")
    ramp = (pyvips.Image.xyz(WIDE, HIGH)[0] * 7 % 251).cast("uchar")
    plain = ramp.bandjoin([ramp, ramp]).copy(interpretation="srgb")
    turned = plain.copy()
    turned.set_type(pyvips.GValue.gint_type, "orientation", 6)
    plain.jpegsave(folder / "baseline.jpg")
    plain.jpegsave(folder / "progressive.jpg", interlace=True)
    plain.jpegsave(folder / "progressive444.jpg", interlace=True, subsample_mode="off")
    turned.jpegsave(folder / "turned.jpg", interlace=True)
    plain.pngsave(folder / "plain.png", compression=1)
    plain.pngsave(folder / "interlaced.png", compression=1, interlace=True)
    plain.bandjoin(ramp).pngsave(folder / "interlaced_alpha.png", compression=1, interlace=True)
    plain.webpsave(folder / "lossless.webp", lossless=True, effort=0)
    plain.tiffsave(folder / "strips.tif")
    plain.tiffsave(folder / "tiles.tif", tile=True, tile_width=1024, tile_height=1024, compression="jpeg")
    turned.tiffsave(folder / "turned.tif", compression="lzw")
    ramp.cast("float").copy(interpretation="b-w").tiffsave(folder / "float.tif")
    return folder


MEASURED = """
import json, sys
from pathlib import Path
from quire.compute.pool import memory
from quire.model.files import File
from quire.model.step import StepInput
from quire.model.work import StepCall
from quire.steps.registry import STEPS

name, source, folder, megabytes = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
memory.limit(megabytes)
file = File(key="x", path="x", name="x", size=1, content_type="x")
given = StepInput(file=file, source=source, folder=folder)
call = StepCall(step=name, version=1, memory_mb=megabytes)
said = memory.estimate_mb(STEPS[name], given, call)
least = STEPS[name].estimate_memory(given).least
STEPS[name].run(given)
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([said, least, int(peak[0]) // 1024]))
"""


def measured(step: str, source: Path, folder: Path, megabytes: int) -> tuple[int, int, int]:
    """(MB that it is said to need, bytes at least, MB at its peak), in a process such as a worker is one."""
    command = [sys.executable, "-c", MEASURED, step, str(source), str(folder), str(megabytes)]
    environment = {**vips.WORKER_ENVIRONMENT, "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    said, least, peak = json.loads(ran.stdout)
    return said, least, peak


@pytest.mark.parametrize(
    ("step", "name", "least"),
    [
        ("image_variants", "baseline.jpg", 0),
        ("image_variants", "progressive.jpg", WIDE * HIGH * 3),
        ("image_variants", "progressive444.jpg", WIDE * HIGH * 6),
        ("image_variants", "turned.jpg", WIDE * HIGH * 3),
        ("image_variants", "plain.png", 0),
        ("image_variants", "interlaced.png", WIDE * HIGH * 3),
        ("image_variants", "interlaced_alpha.png", WIDE * HIGH * 4),
        ("image_variants", "lossless.webp", 0),
        ("tiff_to_jpeg", "strips.tif", 0),
        ("tiff_to_jpeg", "tiles.tif", 0),
        ("tiff_to_jpeg", "turned.tif", 0),
        ("tiff_to_jpeg", "float.tif", 0),
        ("tiff_to_jpeg", "progressive444.jpg", WIDE * HIGH * 6),
        ("tiff_to_jpeg", "turned.jpg", WIDE * HIGH * 3),
        ("tiff_to_jpeg", "lossless.webp", WIDE * HIGH * 4),
    ],
)
def test_no_picture_takes_more_than_it_is_said_to_need(pictures, tmp_path, step, name, least):
    said, at_least, peak = measured(step, pictures / name, tmp_path, 1024)
    assert at_least == least
    assert peak <= said, "an estimate that is too low brings the machine down"
    assert said - IDLE_MB <= least / MB + 200 + 8 * WIDE * HIGH / MB, (
        "and one that is far too high holds it up"
    )


def test_a_picture_that_is_read_as_a_stream_costs_its_width_and_not_its_height():
    small = Header(width=1000, height=1000, profile_matters=False)
    high = Header(width=1000, height=200_000, profile_matters=False)
    across = Header(width=200_000, height=1000, profile_matters=False)
    one = memory_estimate.of_thumbnail(small, "image/jpeg")
    assert one.least == memory_estimate.of_thumbnail(high, "image/jpeg").least == 0
    assert memory_estimate.of_thumbnail(across, "image/jpeg").likely > one.likely


def test_two_hundred_megapixels():
    """What is decoded whole is what its header says, and a TIFF of the same size is light."""
    progressive = Header(width=20_000, height=10_000, profile_matters=False, whole=True)
    assert memory_estimate.of_thumbnail(progressive, "image/jpeg").least == 1_200_000_000
    assert memory_estimate.of_thumbnail(progressive, "image/png").least == 600_000_000
    page = tiff.TiffPage(
        index=0,
        width=20_000,
        height=10_000,
        bits=8,
        extra_sample=None,
        auxiliary=False,
        pixels_end=0,
        samples=3,
        rows=256,
    )
    assert memory_estimate.of_page(page).likely < 400 * MB


def test_a_page_is_drawn_whole_and_its_pictures_may_be_decoded_whole():
    weight = memory_estimate.of_pages(10_000_000, 20_000_000)
    assert weight.least == 30_000_000
    assert weight.likely == memory_estimate.WORK + 30_000_000 + 120_000_000


@pytest.mark.parametrize(
    ("step", "name"),
    [("image_variants", "text.jpg"), ("tiff_to_jpeg", "text.jpg"), ("pdf_split", "text.jpg")],
)
def test_what_cannot_be_judged_is_light_and_left_to_the_step(tmp_path, step, name):
    from quire.model.files import File
    from quire.model.step import StepInput
    from quire.steps.registry import STEPS

    source = tmp_path / name
    source.write_bytes(b"no picture")
    file = File(
        key="x", path=name, name=name, size=1, content_type="x", processing_config={"pdf_pages": "images"}
    )
    assert (
        STEPS[step].estimate_memory(StepInput(file=file, source=source, folder=tmp_path))
        == memory_estimate.LIGHT
    )
