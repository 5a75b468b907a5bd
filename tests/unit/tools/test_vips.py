"""What libvips says, and what we make of it; the probes."""

import subprocess
import sys

import pytest

from quire.model.errors import Misconfigured, Reject
from quire.tools import pillow, vips
from quire.tools.refusals import Unsupported

SAID = [
    ("VipsJpeg: premature end of JPEG image", Reject, "truncated"),
    ("tiff2vips: Read error at scanline 4; got 4871 bytes, expected 8192", Reject, "truncated"),
    ("tiff2vips: samples out of range", Reject, "corrupt"),
    ("LZWDecode: Corrupted LZW table at scanline 3", Reject, "corrupt"),
    ("tiff2vips: Uncompressed data (not supported) at line 9 of strip 0 (x 4)", Reject, "corrupt"),
    ("tiff2vips: Bad code word at line 65 of strip 0 (x 296)", Reject, "corrupt"),
    ("VipsJpeg: Unsupported marker type 0x18", Reject, "corrupt"),
    ("tiff2vips: tiled separate planes not supported", Unsupported, "unsupported_format"),
    ("image: bad labq format", Unsupported, "unsupported_format"),
    ("tiff2vips: Old-style JPEG compression support is not configured", Unsupported, "unsupported_format"),
]


@pytest.mark.parametrize("routine", ["", "tiffload_source: load error\n"])
@pytest.mark.parametrize(("text", "kind", "code"), SAID)
def test_words_become_codes(text, kind, code, routine):
    """Routine lines come or not, as threads happen; neither the code nor the message may depend on them."""
    error = vips._meaning(f"unable to call avg\n  {text}\n{routine}")

    assert type(error) is kind
    assert error.code == code
    assert f"({text})" in str(error)


def test_a_file_that_is_both_odd_and_damaged_counts_as_damaged():
    error = vips._meaning("x\n  tiff2vips: method is not supported\ntiff2vips: Read error on strip 4\n")

    assert not isinstance(error, Unsupported)


def test_faults_of_the_machine_are_not_refusals():
    assert isinstance(vips._meaning("vips_tracked: out of memory --- size == 3000MB"), MemoryError)
    assert isinstance(vips._meaning("VipsJpeg: Insufficient memory (case 4)"), MemoryError)
    assert isinstance(vips._meaning("write error\nsystem error: No space left on device"), OSError)


def test_probes_tell_the_version():
    assert vips.probe().detail.startswith("8.")
    assert pillow.probe().detail


def test_a_missing_library_is_reported_with_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvips", None)
    vips._vips.cache_clear()
    try:
        assert not vips.probe().ok
        assert "pip install" in vips.probe().advice
        with pytest.raises(Misconfigured, match="pip install"):
            vips._vips()
    finally:
        monkeypatch.undo()
        vips._vips.cache_clear()


def test_importing_registries_loads_no_image_library():
    code = (
        "import sys, quire.steps.registry, quire.pipelines.preprocess, quire.tools.vips, quire.tools.pillow;"
        "sys.exit(bool({'pyvips', 'PIL'} & sys.modules.keys()))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
