"""The same run with its phases on Ray: nothing else changes than where the steps run."""

import sqlite3
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.service]
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
ON_RAY = {"QUIRE_COMPUTE_TIFF": "ray", "QUIRE_COMPUTE_IMAGE": "ray", "QUIRE_RAY_WORKERS": "2"}


def on_s3(server):
    return {
        "QUIRE_STORE": "s3",
        "QUIRE_S3_BUCKET": server.bucket,
        "QUIRE_S3_ENDPOINT": server.endpoint,
        "QUIRE_S3_ACCESS_KEY_ID": server.access_key_id,
        "QUIRE_S3_SECRET_ACCESS_KEY": server.secret_access_key,
        "QUIRE_S3_ALLOW_HTTP": "true",
        "QUIRE_S3_PREFIX": "on-ray",
    }


def test_the_sample_collection_ends_alike_on_ray_with_its_bytes_in_a_bucket(quire, s3_server, tmp_path):
    here = quire.run(str(SAMPLES))
    assert here.returncode == 3, here.stderr
    files, phases = quire.files(), quire.report()["phases"]
    quire.home, quire.out = tmp_path / "far-home", tmp_path / "far-out"
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:  # short: Ray has its sockets there
        far = quire.run(str(SAMPLES), TMPDIR=folder, **ON_RAY, **on_s3(s3_server))
        left = [path for path in Path(folder).rglob("*") if not path.is_dir()]
    assert far.returncode == 3, far.stderr
    assert quire.files() == files
    assert quire.report()["phases"] == phases
    assert workers(quire.home) == {"ray"}
    assert "WARNING" not in far.stderr
    assert left == [], "something was left behind"


def workers(home):
    connection = sqlite3.connect(home / "quire.db")
    rows = connection.execute("SELECT DISTINCT worker FROM tasks WHERE worker IS NOT NULL").fetchall()
    connection.close()
    return {name.partition("-")[0] for (name,) in rows}
