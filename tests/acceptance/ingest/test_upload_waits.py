"""`quire upload --wait` on the real server: what could not be worked on there is told here."""

import json
import subprocess
import sys

from tests.acceptance.ingest.conftest import serving


def test_files_that_fail_on_the_server_are_listed_and_the_exit_code_says_so(tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "broken.tif").write_bytes(b"II*\x00 this is no picture at all")
    (folder / "note.txt").write_text("hello")
    with serving(tmp_path, {}, "--workers", "1") as server:
        command = [sys.executable, "-m", "quire.cli.main", "upload", str(folder), "--to", server.url]
        done = subprocess.run(
            [*command, "--home", str(tmp_path / "client"), "--wait", "--json"],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    [failed] = [one for one in said if one["event"] == "failed_there"]
    assert (failed["path"], bool(failed["reason"])) == ("/broken.tif", True)
    assert said[-1]["failed_there"] == 1
    assert done.returncode == 3
