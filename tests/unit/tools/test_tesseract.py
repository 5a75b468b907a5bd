import sys

import pytest

from quire.model.errors import Misconfigured
from quire.tools import tesseract


def test_language_data_is_not_looked_for_in_the_current_folder(tmp_path, monkeypatch):
    """Tesseract walks through it, and everything below, when it is asked for its own folder."""
    (tmp_path / "xyz.traineddata").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    with pytest.raises(Misconfigured, match="no language data for 'xyz'") as refusal:
        tesseract._data("xyz", "")
    assert str(tmp_path / "environment") in str(refusal.value)
