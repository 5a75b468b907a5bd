"""`quire task run` as a published worker is started: keys of a store in its environment, and a callback."""

import io
import json
import os
import subprocess
import sys

import pytest
from PIL import Image
from tests.standins.webhook_receiver import receiver

from quire.blobs.s3 import S3Blobs

pytestmark = [pytest.mark.slow, pytest.mark.service]
BATCH = "01KA0000000000000000000000"


def picture(kind):
    out = io.BytesIO()
    Image.linear_gradient("L").resize((900, 500)).convert("RGB").save(out, kind)
    return out.getvalue()


@pytest.fixture
async def store(s3_server):
    blobs = S3Blobs(
        bucket=s3_server.bucket,
        endpoint=s3_server.endpoint,
        region="auto",
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
        allow_http=True,
    )
    yield blobs
    await blobs.close()


@pytest.fixture
def hook():
    with receiver() as running:
        yield running


def worked(s3_server, hook, folder, **said):
    """How the worker ended, and what it told, in order."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    environment = {
        "BATCH_ID": BATCH,
        "R2_ACCESS_KEY_ID": s3_server.access_key_id,
        "R2_SECRET_ACCESS_KEY": s3_server.secret_access_key,
        "R2_BUCKET": s3_server.bucket,
        "S3_ENDPOINT_URL": s3_server.endpoint,
        "CALLBACK_URL": hook.url(f"/callback/{BATCH}/{said['TASK_ID']}"),
    }
    command = [sys.executable, "-m", "quire.cli.main", "task", "run"]
    ran = subprocess.run(
        command, cwd=folder, env=kept | environment | said, capture_output=True, text=True, check=False
    )
    return ran.returncode, [(one.path, json.loads(one.body)) for one in hook.received]


async def test_a_tiff_by_keys_of_the_store(s3_server, store, hook, tmp_path):
    key = f"staging/{BATCH}/{tmp_path.name}/p1.tif"
    await store.put(key, picture("TIFF"))
    code, told = worked(s3_server, hook, tmp_path, TASK_ID="tiff_3f0a", INPUT_R2_KEY=key)
    made = key.replace(".tif", ".jpg")
    ((path, said),) = told
    assert (code, path) == (0, f"/callback/{BATCH}/tiff_3f0a")
    stored = await store.head(made)
    assert (said["output_r2_key"], said["output_file_size"]) == (made, stored.size)
    assert (said["status"], stored.content_type) == ("success", "image/jpeg")
    assert "quire" not in said
    assert list(tmp_path.iterdir()) == []


async def test_a_picture_is_registered_and_archived_first(s3_server, store, hook, tmp_path):
    key = f"staging/{BATCH}/{tmp_path.name}/é.jpg"
    data = picture("JPEG")
    await store.put(key, data)
    code, told = worked(
        s3_server,
        hook,
        tmp_path,
        TASK_ID="img_77be",
        INPUT_R2_KEY=key,
        INPUT_FILE_NAME="é.jpg",
        INPUT_CONTENT_TYPE="image/jpeg",
        INPUT_FILE_SIZE=str(len(data)),
        ARCHIVE_BUCKET=s3_server.bucket,
        CDN_API_URL=hook.url(""),
        CDN_PUBLIC_URL="https://cdn.example",
    )
    (registered, asset), (_, said) = told
    assert code == 0
    asset_id = registered.removeprefix("/asset/")
    assert said["ref_data"]["url"] == f"https://cdn.example/asset/{asset_id}"
    assert said["archive_r2_key"] == f"archive/{BATCH}/{asset_id}/original.jpg"
    archived = await store.head(said["archive_r2_key"])
    assert (archived.size, archived.metadata["task-id"]) == (len(data), "img_77be")
    reference = await store.get(said["ref_json_r2_key"])
    assert json.loads(reference) == said["ref_data"]
    assert len(reference) == len(json.dumps(said["ref_data"], indent=2, ensure_ascii=False).encode())
    assert (await store.head(asset["variants"]["thumb"]["r2_key"])).size == asset["variants"]["thumb"][
        "size_bytes"
    ]


async def test_an_input_that_is_not_there_is_told_and_ends_with_1(s3_server, hook, tmp_path):
    key = f"staging/{BATCH}/{tmp_path.name}/none.tif"
    code, ((_, said),) = worked(s3_server, hook, tmp_path, TASK_ID="tiff_3f0a", INPUT_R2_KEY=key)
    assert (code, said["status"]) == (1, "error")
    assert said["error"]


def test_an_environment_that_is_none_ends_with_1_and_tells_nobody(s3_server, hook, tmp_path):
    code, told = worked(s3_server, hook, tmp_path, TASK_ID="pdf_1")
    assert (code, told) == (1, [])
