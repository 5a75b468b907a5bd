"""Which computes need the API, because their workers call back."""

import pytest

from quire.assembly.push import pushed
from quire.settings import Settings
from quire.settings.computing import Computes


@pytest.mark.parametrize(
    ("tiff", "image", "wanted"),
    [
        ("local", "local", set()),
        ("ray", "local", set()),
        ("process", "ray", {"process"}),
        ("fly", "process", {"fly", "process"}),
    ],
)
def test_processes_and_machines_call_back_and_nobody_else(tiff, image, wanted):
    assert pushed(Settings(compute=Computes(tiff=tiff, image=image))) == wanted
