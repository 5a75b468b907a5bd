"""The library's commands on a bucket in a folder, under both of their names."""

import os

import pytest
from tests.situations.bucket_folder import Bucket
from typer.testing import CliRunner

from quire.cli.app import app
from quire.cli.library.commands import build_library_app


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("QUIRE_", "BLOBFORGE_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("QUIRE_HOME", str(tmp_path / "home"))
    made = Bucket(tmp_path / "bucket")
    monkeypatch.setenv("BLOBFORGE_S3_BUCKET", made.address)
    return made


@pytest.fixture(params=["quire library", "blobforge"])
def library(request, bucket):
    """Run a command of the library; the answer has output, stdout, stderr and exit_code."""

    def run(*words, answer=None):
        if request.param == "blobforge":
            return CliRunner().invoke(build_library_app("blobforge"), list(words), input=answer)
        return CliRunner().invoke(app, ["library", *words], input=answer)

    return run
