import importlib.machinery
import sys

import pytest

from quire.model.errors import Misconfigured
from quire.tools import easyocr


def test_without_the_package_it_says_what_it_needs():
    found = easyocr.probe()
    assert not found.ok
    assert "pip install easyocr" in found.advice
    assert "craft_mlt_25k.pth" in found.advice


def test_the_package_without_its_weights_is_not_enough(tmp_path, monkeypatch):
    (tmp_path / "easyocr.py").write_text("raise AssertionError('imported: it would look for its weights')")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.machinery.PathFinder.find_spec("easyocr", [str(tmp_path)])
    with pytest.raises(Misconfigured, match="EasyOCR has no weights in"):
        easyocr.EasyOcr(("en",))
    assert "easyocr" not in sys.modules
