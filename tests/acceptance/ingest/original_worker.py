"""A worker as others have published it, written anew from the contract: it reads the variables that stand
there and one more for the address of the store, uses keys of the store, and has never heard of quire.

Run as a process, for one task. Exit code 0: done and told, 1: failed and told.
"""

import base64
import io
import json
import os
import sys
import time
import uuid
from pathlib import PurePosixPath

import httpx
import obstore
from obstore.store import S3Store
from PIL import Image

CONTRACT = (
    *("TASK_ID", "BATCH_ID", "INPUT_R2_KEY", "INPUT_FILE_NAME", "INPUT_CONTENT_TYPE", "INPUT_FILE_SIZE"),
    *("INPUT_CID", "R2_ACCOUNT_ID", "R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY", "R2_BUCKET"),
    *("ARCHIVE_BUCKET", "CDN_API_URL", "CDN_PUBLIC_URL", "CALLBACK_URL"),
)
SIZES = {"thumb": 200, "medium": 1288, "large": 2400}


def store(told, bucket):
    endpoint = told.get("S3_ENDPOINT_URL") or f"https://{told['R2_ACCOUNT_ID']}.r2.cloudflarestorage.com"
    return S3Store(
        bucket,
        endpoint=endpoint,
        region="auto",
        access_key_id=told["R2_ACCESS_KEY_ID"],
        secret_access_key=told["R2_SECRET_ACCESS_KEY"],
        client_options={"allow_http": endpoint.startswith("http://")},
    )


def post(url, said):
    httpx.post(url, json=said, timeout=30).raise_for_status()


def jpeg(picture, quality):
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=quality)
    return out.getvalue()


def convert_tiff(told):
    bucket, key = store(told, told["R2_BUCKET"]), told["INPUT_R2_KEY"]
    data = jpeg(Image.open(io.BytesIO(bytes(bucket.get(key).bytes()))), 95)
    target = str(PurePosixPath(key).with_suffix(".jpg"))
    obstore.put(bucket, target, data, attributes={"Content-Type": "image/jpeg"})
    return {
        "output_r2_key": target,
        "output_file_name": PurePosixPath(target).name,
        "output_file_size": len(data),
    }


def work_on_picture(told):
    bucket, key = store(told, told["R2_BUCKET"]), told["INPUT_R2_KEY"]
    data = bytes(bucket.get(key).bytes())
    if len(data) != int(told["INPUT_FILE_SIZE"]):
        raise ValueError("the input has another size than was told")
    picture = Image.open(io.BytesIO(data))
    variants = []
    for name, longest in SIZES.items():
        if max(picture.size) > longest:
            small = picture.copy()
            small.thumbnail((longest, longest))
            made = jpeg(small, 85)
            said = {"name": name, "data": base64.b64encode(made).decode(), "content_type": "image/jpeg"}
            variants.append(said | {"size": len(made)})
    name, kind = told["INPUT_FILE_NAME"], told["INPUT_CONTENT_TYPE"]
    original = {"name": "original", "data": base64.b64encode(data).decode(), "content_type": kind}
    variants.append(original | {"size": len(data)})
    asset = uuid.uuid4().hex
    post(
        f"{told['CDN_API_URL']}/asset/{asset}",
        {"variants": variants, "original_filename": name, "original_content_type": kind},
    )
    archived = f"archive/{told['BATCH_ID']}/{asset}/original{PurePosixPath(name).suffix}"
    labels = {"batch-id": told["BATCH_ID"], "task-id": told["TASK_ID"]}
    archive = store(told, told["ARCHIVE_BUCKET"])
    obstore.put(archive, archived, data, attributes={"Content-Type": kind} | labels)
    reference = {"url": f"{told['CDN_PUBLIC_URL']}/asset/{asset}", "type": kind, "size": len(data)}
    reference |= {"filename": name} | ({"ipfs_cid": told["INPUT_CID"]} if "INPUT_CID" in told else {})
    bucket.put(f"{key}.ref.json", json.dumps(reference, indent=2).encode())
    return {"ref_json_r2_key": f"{key}.ref.json", "ref_data": reference, "archive_r2_key": archived}


def check(told):
    if "" in told.values():
        raise ValueError("what is not known must be absent")


def main():
    began = time.monotonic()
    told = {name: os.environ[name] for name in (*CONTRACT, "S3_ENDPOINT_URL") if name in os.environ}
    said = {"task_id": told["TASK_ID"], "batch_id": told["BATCH_ID"]}
    try:
        check(told)
        worked = convert_tiff(told) if told["TASK_ID"].startswith("tiff_") else work_on_picture(told)
        said |= {"status": "success"} | worked
    except Exception as error:  # noqa: BLE001 as the contract has it
        said |= {"status": "error", "error": f"{type(error).__name__}: {error}"[:500]}
    said["performance"] = {"total_time_ms": round((time.monotonic() - began) * 1000)}
    post(told["CALLBACK_URL"], said)
    return 0 if said["status"] == "success" else 1


if __name__ == "__main__":
    sys.exit(main())
