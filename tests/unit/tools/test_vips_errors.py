"""What an error of libvips means: the machine is not to be blamed on the picture."""

import pytest

from quire.model.errors import Reject
from quire.tools import vips


@pytest.mark.parametrize(
    "text",
    [
        "VipsJpeg: Insufficient memory (case 4)",
        "vips_tracked: out of memory --- size == 48MB",
        "glib: Error creating thread: Resource temporarily unavailable",
    ],
)
def test_too_little_memory_is_no_fault_of_the_picture(text):
    assert isinstance(vips._meaning(text), MemoryError)


def test_a_file_that_cannot_be_read_is_trouble_of_the_machine():
    assert isinstance(vips._meaning("VipsForeignLoad: system error: Input/output error"), OSError)


def test_what_is_cut_off_is_refused():
    error = vips._meaning("VipsJpeg: premature end of JPEG image")
    assert isinstance(error, Reject)
    assert error.code == "truncated"
