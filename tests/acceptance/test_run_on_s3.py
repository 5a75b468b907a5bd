"""The same run with its bytes in an S3 bucket: a real server, no other change than the settings."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.service]
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"


def access(server, prefix):
    return {
        "QUIRE_STORE": "s3",
        "QUIRE_S3_BUCKET": server.bucket,
        "QUIRE_S3_ENDPOINT": server.endpoint,
        "QUIRE_S3_ACCESS_KEY_ID": server.access_key_id,
        "QUIRE_S3_SECRET_ACCESS_KEY": server.secret_access_key,
        "QUIRE_S3_ALLOW_HTTP": "true",
        "QUIRE_S3_PREFIX": prefix,
    }


def test_the_sample_collection_ends_alike_with_its_bytes_in_a_bucket(quire, s3_server):
    ran = quire.run(str(SAMPLES), **access(s3_server, "samples"))
    assert ran.returncode == 3, ran.stderr
    expected = json.loads((SAMPLES.parent / "expected.json").read_text(encoding="utf-8"))
    ended = {path: (one["status"], one["error_class"]) for path, one in quire.files().items()}
    assert ended == {path: (one["status"], one["error_class"]) for path, one in expected.items()}
    assert not any((quire.home / "blobs").rglob("*")), "bytes were kept on this machine"
    assert s3_server.secret_access_key not in ran.stdout + ran.stderr
    for path in quire.home.rglob("*"):
        if path.is_file():
            assert s3_server.secret_access_key.encode() not in path.read_bytes(), path
    again = quire.run(str(SAMPLES), **access(s3_server, "samples"))
    assert again.returncode == 3
    for phase in quire.report()["phases"][1:]:  # there is no PDF to split
        assert phase["from_cache"] == phase["done"] > 0


def test_a_bucket_that_cannot_be_reached_is_told_before_any_work(quire, folder, s3_server):
    shutil.copy(SAMPLES / "photos" / "turned.jpg", folder)
    wrong = access(s3_server, "x") | {"QUIRE_S3_SECRET_ACCESS_KEY": "not the key"}
    ran = quire.run(str(folder), **wrong)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "not the key" not in ran.stdout + ran.stderr
    database = quire.home / "quire.db"
    assert not database.exists() or batches(database) == 0


def batches(database):
    connection = sqlite3.connect(database)
    (count,) = connection.execute("SELECT count(*) FROM batches").fetchone()
    connection.close()
    return count
