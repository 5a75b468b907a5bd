"""A batch as uploads leave it, keys below `staging/` and paths with a slash before, through a real house."""

import asyncio
import io
import json

import pytest
from PIL import Image

from quire.assembly.engine import open_engine
from quire.batches.export import export_batch
from quire.ledger.port import OutboxMessage, Upload
from quire.model.batch import FileOutcome, Stage
from quire.model.files import File, folder_of
from quire.model.manifest import ManifestWriter
from quire.model.plan import digest_of, encode_plan
from quire.pipelines.preprocess import build_preprocess
from quire.settings import Settings
from quire.testing.factories import draft

pytestmark = pytest.mark.slow
ID = "01KA0000000000000000000000"
PREFIX = f"staging/{ID}"
CONFIG = {"ocr": True, "describe": True, "pinax": False}
TYPES = {"tif": "image/tiff", "jpg": "image/jpeg", "txt": "text/plain"}


def picture(kind, colour, pages=1):
    out = io.BytesIO()
    sheets = [Image.new("RGB", (400, 300), (colour, 90, page * 60)) for page in range(pages)]
    sheets[0].save(out, kind, **({"save_all": True, "append_images": sheets[1:]} if pages > 1 else {}))
    return out.getvalue()


BODIES = {
    "/top.tif": picture("TIFF", 1),
    "/fonds/box 7/p1.tif": picture("TIFF", 2, pages=2),
    "/fonds/box 7/x.tif": picture("TIFF", 3),
    "/fonds/box 7/x.jpg": picture("JPEG", 4),
    "/fonds/box 7/letter é.txt": b"Estimada Ana",
    "/fonds/broken.tif": b"II*\0 and nothing more",
}


def uploaded():
    found = [
        File(
            key=f"{PREFIX}{path}",
            path=path,
            name=path.rpartition("/")[2],
            size=len(body),
            content_type=TYPES[path.rpartition(".")[2]],
            processing_config=CONFIG,
        )
        for path, body in BODIES.items()
    ]
    return sorted(found, key=lambda file: (folder_of(file.path), file.path))


async def submitted(house, **drafted):
    files = uploaded()
    for file in files:
        await house.blobs.put(file.key, BODIES[file.path], content_type=file.content_type)
    writer = ManifestWriter(ID)
    manifest_key = f"{PREFIX}/_manifest.json"
    await house.blobs.put(manifest_key, writer.begin() + writer.add(files) + writer.end())
    pipeline = house.pipelines["preprocess"]
    batch = await house.uploads.open_batch(
        draft(
            ID,
            pipeline=pipeline.name,
            pipeline_version=pipeline.version,
            plan=encode_plan(pipeline),
            plan_digest=digest_of(pipeline),
            **drafted,
        )
    )
    uploads = [
        Upload(path=file.path, state="taken", size=file.size, key=file.key, content_type=file.content_type)
        for file in files
    ]
    await house.uploads.record_uploads(batch.no, uploads)
    message = {
        "batch_id": ID,
        "manifest_r2_key": manifest_key,
        "r2_prefix": f"{PREFIX}/",
        "uploader": "ana@example.org",
        "root_path": "/fonds",
        "total_files": writer.total_files,
        "total_bytes": writer.total_bytes,
        "metadata": {"shelf": "B7", "weight": 1.50},
        "custom_prompts": {"general": "Letters in Catalan"},
    }
    letter = OutboxMessage(queue=pipeline.queue, message_id=f"start-{ID}", body=json.dumps(message).encode())
    return await house.uploads.close_batch(
        batch.no, manifest_key=manifest_key, total_files=len(files), message=letter, now=house.clock.now()
    )


async def ignore(_batch):
    return None


async def handed_over(house, batch):
    manifest = json.loads(await house.blobs.get(batch.manifest_key))
    assert [one["directory_path"] for one in manifest["directories"]] == ["/", "/fonds", "/fonds/box 7"]
    listed = {file["logical_path"]: file for one in manifest["directories"] for file in one["files"]}
    assert set(listed) == {
        "/top.tif",
        "/top.jpg.ref.json",
        "/fonds/broken.tif",  # what failed passes unchanged
        "/fonds/box 7/p1.tif",
        "/fonds/box 7/p1.jpg.ref.json",
        "/fonds/box 7/p1-p002.jpg.ref.json",
        "/fonds/box 7/x.tif",
        "/fonds/box 7/x.tif.jpg.ref.json",
        "/fonds/box 7/x.jpg.ref.json",
        "/fonds/box 7/letter é.txt",
    }
    assert listed["/top.tif"]["preprocessor_tags"] == ["TiffConverter:source"]
    assert "preprocessor_tags" not in listed["/fonds/broken.tif"]
    reference = listed["/fonds/box 7/x.jpg.ref.json"]
    assert (reference["source_file"], reference["preprocessor_tags"]) == ("x.jpg", ["ImageProcessor"])
    assert all(one["processing_config"] == CONFIG for one in manifest["directories"])
    original = json.loads(await house.blobs.get(f"{PREFIX}/_manifest.original.json"))
    assert original["total_files"] == len(BODIES)

    async with house.start_engine(workers=0) as loop:
        await loop._scheduler.receive()  # what waits in the outbox goes out
    (message,) = await house.queues.lease("arke-batch-jobs", limit=9, seconds=60.0, now=house.clock.now())
    first = json.loads(await house.batches.get_start_message(batch.no))
    totals = {"total_files": manifest["total_files"], "total_bytes": manifest["total_bytes"]}
    assert json.loads(message.body) == first | totals
    assert message.id == f"handover-{ID}"


async def test_paths_with_a_slash_before_them_go_through_the_whole_product(tmp_path):
    pipeline = build_preprocess(max_attempts=1).plan()
    async with open_engine(
        Settings(home=tmp_path / "home", workers=2), pipelines={"preprocess": pipeline}
    ) as house:
        await submitted(house, hands_over_to="arke-batch-jobs")
        async with house.start_engine() as loop:
            batch = await loop.run_batch(ID, ignore)
        assert batch.position.stage is Stage.DONE, batch.error
        ends = {one.path: one for one in await house.records.list_inputs(batch.no, limit=99)}
        assert {path: one.outcome for path, one in ends.items()} == {
            "/top.tif": FileOutcome.DONE,
            "/fonds/box 7/p1.tif": FileOutcome.DONE,
            "/fonds/box 7/x.tif": FileOutcome.DONE,
            "/fonds/box 7/x.jpg": FileOutcome.DONE,
            "/fonds/box 7/letter é.txt": FileOutcome.SKIPPED,
            "/fonds/broken.tif": FileOutcome.FAILED,
        }
        made = {path: [file.path for _, file in one.made] for path, one in ends.items()}
        assert made["/top.tif"][0] == "/top.jpg"
        assert "/top.jpg.ref.json" in made["/top.tif"]
        assert made["/fonds/box 7/p1.tif"][:2] == ["/fonds/box 7/p1-p002.jpg", "/fonds/box 7/p1.jpg"]
        assert made["/fonds/box 7/x.tif"][0] == "/fonds/box 7/x.tif.jpg"  # x.jpg was uploaded
        assert "/fonds/box 7/x.jpg.ref.json" in made["/fonds/box 7/x.jpg"]
        assert all(file.processing_config == CONFIG for one in ends.values() for _, file in one.made)
        files, attempts = await house.records.get_file_history(batch.no, "/fonds/box 7/p1.tif")
        assert files[0].path == "/fonds/box 7/p1.tif"
        assert [one.outcome for one in attempts] == ["done"] * 3
        await handed_over(house, batch)
        out = tmp_path / "out"
        _, summary = await export_batch(
            ID, out, house, own_folders=[], progress=lambda _: None, stop=asyncio.Event()
        )
        assert summary is not None
        assert (out / "fonds" / "box 7" / "x.tif.jpg").stat().st_size > 0
        report = json.loads(summary.report.read_text(encoding="utf-8"))
        assert {entry["path"] for entry in report["files"]} == set(BODIES)
