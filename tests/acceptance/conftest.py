"""The command line as a process."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


class Quire:
    """Runs `quire` in a folder of its own with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.out = folder / "out"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "quire.cli.main", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
        return kept | {"QUIRE_HOME": str(self.home), "COLUMNS": "200"} | more

    def __call__(self, *arguments: str, obey_permissions: bool = False, **more: str):
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            preexec_fn=_obey_permissions if obey_permissions else None,
        )

    def started(self, *arguments: str, obey_permissions: bool = False):
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_obey_permissions if obey_permissions else None,  # noqa: PLW1509
        )

    def run(self, *arguments: str, **more):
        return self("run", *arguments, "--out", str(self.out), **more)

    def report(self):
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def files(self):
        report = self.report()
        by_path = {entry["path"]: entry for entry in report["files"]}
        assert len(by_path) == len(report["files"]), "a file is listed twice"
        return by_path


def _obey_permissions() -> None:
    """Also root then needs the permission bits: tests may run as root."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.fixture
def quire(tmp_path):
    return Quire(tmp_path)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    return folder
