import pytest

from quire.model.errors import Misconfigured
from quire.tools import apple_vision


def test_on_other_systems_it_says_what_it_needs():
    found = apple_vision.probe()
    assert not found.ok
    assert "macOS 13 or newer" in found.advice
    with pytest.raises(Misconfigured, match="part of macOS"):
        apple_vision.AppleVision()
