"""A library out of the settings: opened where it lies, refused where it cannot be relied on."""

import json

import pytest

from quire.assembly import library
from quire.assembly.library import describe_location, open_library
from quire.blobs.local import LocalBlobs
from quire.model.errors import Misconfigured
from quire.settings import LIBRARY_FALLBACKS, load


def settings(tmp_path, **more):
    environment = {"QUIRE_HOME": str(tmp_path / "home"), "QUIRE_BUCKET": f"file://{tmp_path}/bucket"} | more
    return load(environment, tmp_path, fallbacks=LIBRARY_FALLBACKS)


async def test_a_folder_is_opened_below_its_prefix(tmp_path):
    loaded = settings(tmp_path)
    async with open_library(loaded) as context:
        await context.objects.put("queue/todo/3_normal/" + "a" * 64, b"")
    assert (tmp_path / "bucket/pdf/queue/todo/3_normal" / ("a" * 64)).read_bytes() == b""
    assert describe_location(loaded) == f"{tmp_path}/bucket/pdf"


async def test_a_good_store_is_probed_once_a_day(tmp_path, monkeypatch):
    tried = []

    async def probe(blobs, ids):
        tried.append(blobs)
        return []

    monkeypatch.setattr(library, "probe", probe)
    for _ in range(2):
        async with open_library(settings(tmp_path), probe=True):
            pass
    assert len(tried) == 1
    async with open_library(settings(tmp_path, QUIRE_LIBRARY_PREFIX="other"), probe=True):
        pass
    assert len(tried) == 2
    remembered = tmp_path / "home/library/probed.json"
    old = {key: at - 25 * 3600 for key, at in json.loads(remembered.read_text()).items()}
    remembered.write_text(json.dumps(old))
    async with open_library(settings(tmp_path), probe=True):
        pass
    assert len(tried) == 3
    remembered.write_text("[nonsense")
    async with open_library(settings(tmp_path), probe=True):
        pass
    assert len(tried) == 4


class Careless(LocalBlobs):
    """Takes every condition for fulfilled, as some servers do."""

    async def put(self, key, data, *, content_type=None, metadata=None, condition=None):  # noqa: ARG002
        return await super().put(key, data, content_type=content_type, metadata=metadata)


async def test_a_store_without_conditions_is_refused_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr("quire.assembly.worker_blobs.LocalBlobs", Careless)
    for _ in range(2):
        with pytest.raises(Misconfigured, match="If-None-Match"):
            async with open_library(settings(tmp_path), probe=True):
                pass
    async with open_library(settings(tmp_path)):  # who only looks is let in
        pass


async def test_rules_come_from_the_variable_then_the_bucket_then_the_default(tmp_path):
    async with open_library(settings(tmp_path)) as context:
        await context.objects.put("registry/config.json", b'{"max_retries": 9, "stale_timeout_minutes": 60}')
    async with open_library(settings(tmp_path, BLOBFORGE_MAX_RETRIES="1"), shared_rules=True) as context:
        assert (context.rules.max_retries, context.rules.stale_seconds) == (1, 3600)
        assert context.rules.conversion_seconds == 3600


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"QUIRE_BUCKET": ""}, "No bucket is named"),
        ({"QUIRE_BUCKET": "books"}, "no access key for the bucket books"),
    ],
)
async def test_what_is_missing_is_named(tmp_path, more, words):
    with pytest.raises(Misconfigured, match=words):
        async with open_library(settings(tmp_path, **more)):
            pass


@pytest.mark.service
async def test_a_bucket_is_opened_and_probed(tmp_path, s3_server):
    more = {
        "QUIRE_BUCKET": f"s3://{s3_server.bucket}/of/ours",
        "BLOBFORGE_S3_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": s3_server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_access_key,
    }
    loaded = settings(tmp_path, **more)
    async with open_library(loaded, probe=True, shared_rules=True) as context:
        version = await context.objects.create("queue/x", b"1")
        assert (await context.blobs.head("queue/x")).version == version
        await context.objects.delete(["queue/x"])
    assert describe_location(loaded) == f"s3://{s3_server.bucket}/of/ours/"
