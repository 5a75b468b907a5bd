"""The client of the benchmark *ingest*: raw HTTP/1.1 on kept connections. Prints one JSON object."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from quire.assembly.components import open_components
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.ledger.port import BatchDraft, Upload
from quire.ledger.submissions import NewSubmission
from quire.model.plan import encode_plan
from quire.settings import load_here

AT_ONCE = {1024: 16, 50_000_000: 4}
PART = 10 * 1024 * 1024
CONFIG = {"ocr": True, "describe": True, "pinax": True}
BYTES = b"x" * PART


class Wire:
    """One kept connection to one address."""

    def __init__(self, url: str) -> None:
        self._at = urlsplit(url)
        self._streams: Any = None

    async def ask(self, method: str, target: str, body: Any = b"", kind: str = "") -> tuple[int, dict, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._at.hostname, self._at.port, limit=1 << 22)
        reader, writer = self._streams
        head = f"{method} {target} HTTP/1.1\r\nhost: {self._at.netloc}\r\ncontent-length: {len(body)}\r\n"
        if kind:
            head += f"content-type: {kind}\r\n"
        writer.write(head.encode() + b"\r\n")
        writer.write(body)
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        if headers.get("transfer-encoding") == "chunked":
            answer = b""
            while size := int(await reader.readline(), 16):
                answer += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        else:
            answer = await reader.readexactly(int(headers.get("content-length", "0")))
        return int(lines[0].split()[1]), headers, answer

    async def json(self, method: str, target: str, body: Any = None) -> Any:
        sent = b"" if body is None else json.dumps(body).encode()
        status, _, answer = await self.ask(method, target, sent, "application/json")
        assert status < 300, (status, answer)
        return json.loads(answer)

    async def put(self, url: str, body: Any) -> str:
        at = urlsplit(url)
        status, headers, answer = await self.ask(
            "PUT", f"{at.path}?{at.query}" if at.query else at.path, body
        )
        assert status == 200, (status, answer)
        return headers["etag"].strip('"')


async def upload(url: str, way: str, size: int, files: int) -> dict[str, float]:
    numbers = iter(range(files))
    if way == "api":
        batch = await _opened(url, files, size)

        async def sender() -> None:
            api, wires = Wire(url), {}
            for number in numbers:
                await _through(api, wires, batch, number, size)

        began = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(AT_ONCE[size])))
        await Wire(url).json("POST", f"/api/batches/{batch}/finalize", {})
        return {"per_s": files / (time.perf_counter() - began)}
    settings = load_here().settings
    async with open_components(settings) as office:
        presigned = open_presigned_uploads(settings, office)
        urls = [
            [
                await presigned.sign_put(f"bare/{size}/{number}/{part}", seconds=3600, base_url=url)
                for part in range(max(1, -(-size // PART)))
            ]
            for number in range(files)
        ]

    async def bare() -> None:
        wires: dict[str, Wire] = {}
        for number in numbers:
            left = size
            for one in urls[number]:
                await _wire(wires, one).put(one, memoryview(BYTES)[: min(left, PART)])
                left -= PART

    began = time.perf_counter()
    await asyncio.gather(*(bare() for _ in range(AT_ONCE[size])))
    return {"per_s": files / (time.perf_counter() - began)}


async def _opened(url: str, files: int, size: int) -> str:
    body = {"uploader": "bench", "root_path": "/", "file_count": files, "total_size": files * size}
    return (await Wire(url).json("POST", "/api/batches/init", body))["batch_id"]


async def _through(api: Wire, wires: dict[str, Wire], batch: str, number: int, size: int) -> None:
    name = f"{number:06d}.bin"
    body = {"file_name": name, "file_size": size, "logical_path": f"/box/{name}", "processing_config": CONFIG}
    ticket = await api.json("POST", f"/api/batches/{batch}/files/start", body)
    done: dict[str, Any] = {"r2_key": ticket["r2_key"]}
    if ticket["upload_type"] == "simple":
        await _wire(wires, ticket["presigned_url"]).put(ticket["presigned_url"], memoryview(BYTES)[:size])
    else:
        parts, left = [], size
        for one in ticket["presigned_urls"]:
            etag = await _wire(wires, one["url"]).put(one["url"], memoryview(BYTES)[: min(left, PART)])
            parts.append({"part_number": one["part_number"], "etag": etag})
            left -= PART
        done |= {"upload_id": ticket["upload_id"], "parts": parts}
    await api.json("POST", f"/api/batches/{batch}/files/complete", done)


def _wire(wires: dict[str, Wire], url: str) -> Wire:
    return wires.setdefault(urlsplit(url).netloc, Wire(url))


async def fill(files: int) -> dict[str, float]:
    """A batch with so many files that have arrived, written by the ledger's own doors."""
    async with open_components(load_here().settings) as office:
        pipeline = office.pipelines["preprocess"]
        now = office.clock.now()
        draft = BatchDraft(
            id=office.ids.ulid(),
            run_key=None,
            pipeline=pipeline.name,
            pipeline_version=pipeline.version,
            plan=encode_plan(pipeline),
            now=now,
        )
        opened = await office.submissions.open_submission(
            NewSubmission(
                draft=draft,
                session_id="s",
                uploader="bench",
                root_path="/",
                parent_pi="0" * 26,
                file_count=files,
                total_size=files * 1024,
            )
        )
        numbers = iter(range(files))

        async def some() -> None:
            for number in numbers:
                path = f"/box-{number // 500:04d}/{number:06d}.bin"
                announced = Upload(
                    path=path,
                    state="awaited",
                    size=1024,
                    stamp=str(number),
                    key=f"staging/{opened.batch.id}{path}",
                    content_type="application/octet-stream",
                    config=CONFIG,
                )
                await office.submissions.announce_upload(opened.batch.no, announced, now=now)
                taken = Upload(**{**_fields(announced), "state": "taken", "taken_at": now})
                await office.submissions.record_received(opened.batch.no, taken, now=now)

        await asyncio.gather(*(some() for _ in range(64)))
        (load_here().settings.home / "batch").write_text(opened.batch.id)
    return {}


def _fields(upload: Upload) -> dict[str, Any]:
    return {name: getattr(upload, name) for name in upload.__struct_fields__}


def _batch() -> str:
    return Path(load_here().settings.home / "batch").read_text()


async def close(url: str) -> dict[str, float]:
    began = time.perf_counter()
    closed = await Wire(url).json("POST", f"/api/batches/{_batch()}/finalize", {})
    seconds = time.perf_counter() - began
    return {"files": closed["files_uploaded"], "seconds": round(seconds, 3)}


async def poll(url: str, pollers: int) -> dict[str, float]:
    """Each asks once a second, spread over the second, for ten seconds: of a batch of three files."""
    batch = await _opened(url, 3, 10)
    api = Wire(url)
    for number in range(3):
        await _through(api, {}, batch, number, 10)
    await api.json("POST", f"/api/batches/{batch}/finalize", {})
    found: dict[str, list[float]] = {"unified": [], "upload": []}

    async def poller(place: int) -> None:
        wire = Wire(url)
        await asyncio.sleep(place / pollers)
        for turn in range(10):
            way = "unified" if turn % 2 else "upload"
            target = f"/status/{batch}" if turn % 2 else f"/api/batches/{batch}/status"
            began = time.perf_counter()
            status, _, _ = await wire.ask("GET", target)
            assert status == 200
            took = time.perf_counter() - began
            found[way].append(took * 1000)
            await asyncio.sleep(max(0.0, 1 - took))

    await asyncio.gather(*(poller(place) for place in range(pollers)))
    return {
        f"{way}_{name}_ms": round(sorted(times)[int(len(times) * share)], 2)
        for way, times in found.items()
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def main() -> None:
    what, *given = sys.argv[1:]
    work = {"upload": upload, "fill": fill, "close": close, "poll": poll}[what]
    arguments = [int(one) if one.isdigit() else one for one in given]
    print(json.dumps(asyncio.run(work(*arguments))))  # type: ignore[operator]


if __name__ == "__main__":
    main()
