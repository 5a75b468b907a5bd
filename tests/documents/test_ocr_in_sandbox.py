"""Engines read in the sandbox in which files of strangers are decoded, and leave nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quire.tools.sandbox import clean_environment

pytestmark = pytest.mark.slow
PICTURE = Path(__file__).parent / "corpus" / "scan" / "phototest.tif"
READ = """
import json, sys
from pathlib import Path
from quire.tools import sandbox
source, folder, tier = sys.argv[1:]
sandbox.enter(sandbox.SandboxRules(readable=(source,), writable=(folder,)))
from quire.steps.ocr.reader import PictureReader, ReadingOptions
with PictureReader(ReadingOptions(tiers=(tier,))) as reader:
    found = reader.read_file(Path(source))
print(json.dumps([found.text, found.is_valid, found.tier]))
"""


@pytest.mark.parametrize("tier", ["tesseract", "paddleocr"])
def test_an_engine_reads_in_the_sandbox(tier, tmp_path):
    environment = clean_environment(str(tmp_path)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", READ, PICTURE, tmp_path, tier],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert ended.stderr == ""
    text, is_valid, by = json.loads(ended.stdout)
    assert (text.splitlines()[0], is_valid, by) == ("This is a lot of 12 point text to test the", True, tier)
    assert list(tmp_path.iterdir()) == [], "no number of this machine, no database of reports"
