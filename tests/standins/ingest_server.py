"""An ingest service and its store in memory, on a free loopback port, as strict as the published protocol.

`original=True` also has the known defects: a file announced twice is there twice and can never be closed, a
repeated end is refused, nothing is verified, keys of idempotency and `skip_incomplete` are not known. Faults
are put in the way of requests one by one, so that a test decides what happens when.
"""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn

from quire.model.cid import cid_of

MIB = 1 << 20
PART_SIZE = 10 * MIB
_BATCH = re.compile(r"/api/batches/([0-9A-Z]{26})/(status|files/start|files/complete|finalize)")
_PUT = re.compile(r"/store/(.+)")
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class RefusedError(Exception):
    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.document = {"error": error, **more}


class Fault:
    """Happens to one request whose method and path fit. With a `status` the work is not done; otherwise
    `call` is called when it is done, and `lost` cuts the connection before the whole answer has arrived.
    """

    def __init__(
        self,
        fits: str,
        *,
        status: int = 0,
        headers: dict[str, str] | None = None,
        body: bytes = b'{"error":"a fault"}',
        lost: bool = False,
        call: Callable[[], None] | None = None,
    ) -> None:
        self.fits = re.compile(fits)
        self.status = status
        self.headers = headers or {}
        self.body = body
        self.lost = lost
        self.call = call


class IngestServer:
    """`requests` has method, path and headers of each; `objects` the stored bytes by key."""

    def __init__(self, *, original: bool = False, key: str = "", verify: bool = True) -> None:
        self.original = original
        self.key = key
        self.verify = verify
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.batches: dict[str, dict[str, Any]] = {}
        self.bodies: list[tuple[str, Any]] = []
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.statuses: list[str] = []  # what a closed batch says it is, one for each look
        self.quoted = True
        self.lie: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer  # about where bytes go
        self.at_once = self.most_at_once = 0
        self._by_key: dict[str, tuple[bytes, str]] = {}
        self._count = 0

    def paths(self, method: str = "POST") -> list[str]:
        return [path.rpartition("/")[2] for verb, path, _ in self.requests if verb == method]

    def closed(self) -> list[dict[str, Any]]:
        return [batch for batch in self.batches.values() if batch["status"] != "uploading"]

    def content(self, batch: dict[str, Any]) -> dict[str, bytes]:
        """By logical path; a file that is there twice is an error."""
        found = {file["logical_path"]: self.objects[file["r2_key"]] for file in batch["files"]}
        assert len(found) == len(batch["files"]), "a file is there twice"
        return found

    async def __call__(self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Send) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        method, path = scope["method"], scope["path"]
        self.requests.append((method, path, headers))
        fault = next((one for one in self.faults if one.fits.search(f"{method} {path}")), None)
        if fault is not None:
            self.faults.remove(fault)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            body = await _received(receive)
        finally:
            self.at_once -= 1
        if fault is not None and fault.status:
            await _answer(send, fault.status, fault.body, fault.headers)
            return
        try:
            status, more, document = self._handle(method, path, headers, body, scope["query_string"])
        except RefusedError as error:
            status, more, document = error.status, {}, error.document
        if fault is not None and fault.call is not None:
            fault.call()
        data = b"" if document is None else json.dumps(document).encode()
        await _answer(
            send, status, data, more | (fault.headers if fault else {}), lost=bool(fault and fault.lost)
        )

    def _handle(
        self, method: str, path: str, headers: dict[str, str], body: bytes, query: bytes
    ) -> tuple[int, dict[str, str], Any]:
        if method == "PUT" and (found := _PUT.fullmatch(path)):
            return 200, self._stored(found[1], headers, body, parse_qs(query.decode())), None
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            raise RefusedError(401, "Unauthorized")
        if (method, path) == ("POST", "/api/batches/init"):
            return 201, {}, self._init(_json(headers, body), body, headers.get("idempotency-key"))
        found = _BATCH.fullmatch(path)
        if found is None:
            raise RefusedError(404, "Not found")
        batch = self.batches.get(found[1])
        if batch is None:
            raise RefusedError(404, "Batch not found")
        if (method, found[2]) == ("GET", "status"):
            if batch["status"] != "uploading" and self.statuses:
                batch["status"] = self.statuses.pop(0)
            return 200, {}, batch
        _expect(method == "POST", "Not found", 404)
        said = _json(headers, body)
        self.bodies.append((found[2], said))
        work = {"files/start": self._start, "files/complete": self._complete, "finalize": self._finalize}
        return 200, {}, work[found[2]](batch, said)

    def _init(self, said: Any, body: bytes, key: str | None) -> dict[str, str]:
        self.bodies.append(("init", said))
        _expect(isinstance(said.get("uploader"), str) and said["uploader"], "Missing or invalid uploader")
        root = said.get("root_path")
        _expect(isinstance(root, str) and (root == "/" or _is_path(root)), "Missing or invalid root_path")
        _expect(_is_count(said.get("file_count")), "Invalid file_count")
        _expect(_is_count(said.get("total_size")), "Invalid total_size")
        parent = said.get("parent_pi") or "0" * 26
        _expect(re.fullmatch("[0-9A-Z]{26}", parent), "Invalid parent_pi format (must be 26-character ULID)")
        if key and not self.original and key in self._by_key:
            known, batch_id = self._by_key[key]
            _expect(known == body, "Idempotency-Key was used for another request", 422)
            return {"batch_id": batch_id, "session_id": f"sess_{batch_id}"}
        self._count += 1
        batch_id = f"01KA{self._count:022d}"
        if key:
            self._by_key[key] = (body, batch_id)
        self.batches[batch_id] = said | {
            "batch_id": batch_id,
            "parent_pi": parent,
            "session_id": f"sess_{batch_id}",
            "status": "uploading",
            "files": [],
        }
        return {"batch_id": batch_id, "session_id": f"sess_{batch_id}"}

    def _start(self, batch: dict[str, Any], said: Any) -> dict[str, Any]:
        _expect(batch["status"] == "uploading", f"Batch status is {batch['status']}")
        path, size, config = said.get("logical_path"), said.get("file_size"), said.get("processing_config")
        _expect(isinstance(path, str) and _is_path(path), "Invalid logical_path")
        _expect(said.get("file_name") == path.rpartition("/")[2], "Invalid file_name")
        _expect(_is_count(size), "Invalid file_size")
        _expect(isinstance(said.get("content_type"), str), "Invalid content_type")
        _expect(
            isinstance(config, dict)
            and all(isinstance(config.get(name), bool) for name in ("ocr", "describe", "pinax")),
            "Invalid processing_config",
        )
        r2_key = f"staging/{batch['batch_id']}{path}"
        resume = said.get("resume") is True and not self.original
        said = {name: value for name, value in said.items() if name != "resume"}
        begun = next((one for one in batch["files"] if one["r2_key"] == r2_key), None)
        if resume and begun is not None and begun.get("upload_id") and said.items() <= begun.items():
            return self.lie(self._addresses(begun) | self._resumed(begun))
        file = said | {"r2_key": r2_key, "status": "uploading", "upload_type": "simple"}
        if not self.original:
            batch["files"] = [one for one in batch["files"] if one["r2_key"] != r2_key]
        batch["files"].append(file)
        if size >= 5 * MIB:
            self._count += 1
            file |= {"upload_type": "multipart", "upload_id": f"u-{self._count}"}
            self.parts[file["upload_id"]] = {}
        return self.lie(self._addresses(file) | ({"parts": []} if resume else {}))

    def _resumed(self, file: dict[str, Any]) -> dict[str, Any]:
        if file["status"] == "completed":
            return {"parts": [], "completed": True}
        have = self.parts[file["upload_id"]].items()
        parts = [{"part_number": no, "etag": _tag(body), "size": len(body)} for no, body in have]
        return {"parts": parts}

    def _addresses(self, file: dict[str, Any]) -> dict[str, Any]:
        address = f"{self.url}/store/{quote(file['r2_key'])}?sig=s"
        if file["upload_type"] == "simple":
            return {"r2_key": file["r2_key"], "upload_type": "simple", "presigned_url": address}
        urls = [
            {"part_number": number, "url": f"{address}&part={number}&upload={file['upload_id']}"}
            for number in range(1, -(-file["file_size"] // PART_SIZE) + 1)
        ]
        return {
            "r2_key": file["r2_key"],
            "upload_type": "multipart",
            "upload_id": file["upload_id"],
            "part_size": PART_SIZE,
            "presigned_urls": urls,
        }

    def _stored(
        self, key: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
    ) -> dict[str, str]:
        _expect(query.get("sig") == ["s"], "bad signature", 403)
        _expect("authorization" not in headers, "a key does not belong here")
        _expect(headers.get("content-length") == str(len(body)), "Content-Length is missing", 411)
        if "upload" in query:
            _expect("content-type" not in headers, "a part has no Content-Type")
            self.parts[query["upload"][0]][int(query["part"][0])] = body
        else:
            files = [file for batch in self.batches.values() for file in batch["files"]]
            kinds = [file["content_type"] for file in files if file["r2_key"] == key]
            _expect(headers.get("content-type") in kinds, "wrong Content-Type")
            self.objects[key] = body
        tag = _tag(body)
        return {"etag": f'"{tag}"' if self.quoted else tag}

    def _complete(self, batch: dict[str, Any], said: Any) -> dict[str, Any]:
        file = next((one for one in batch["files"] if one["r2_key"] == said.get("r2_key")), None)
        if file is None:
            raise RefusedError(404, "File not found in batch")
        if file["upload_type"] == "multipart" and file["status"] != "completed":
            _expect(said.get("upload_id") and said.get("parts"), "Missing upload_id or parts")
            _expect(self.original or said["upload_id"] == file["upload_id"], "upload_id mismatch")
            have = self.parts[said["upload_id"]]
            told = [(part["part_number"], part["etag"].strip('"')) for part in said["parts"]]
            _expect(told == [(number, _tag(have[number])) for number in sorted(have)], "Invalid parts format")
            self.objects[file["r2_key"]] = b"".join(have[number] for number in sorted(have))
        data = self.objects.get(file["r2_key"])
        if data is None:
            raise RefusedError(400, "Object not found in storage")
        if not self.original:
            _expect(len(data) == file["file_size"], "Size mismatch")
        if self.verify and not self.original:
            _expect(file.get("cid") == cid_of(hashlib.sha256(data).digest()), "CID mismatch")
        file["status"] = "completed"
        return {"success": True}

    def _finalize(self, batch: dict[str, Any], said: Any) -> dict[str, Any]:
        if batch["status"] != "uploading":
            _expect(not self.original, f"Batch status is {batch['status']}, cannot finalize")
        else:
            incomplete = [file["file_name"] for file in batch["files"] if file["status"] != "completed"]
            if said.get("skip_incomplete") and not self.original:
                batch["files"] = [file for file in batch["files"] if file["status"] == "completed"]
            elif incomplete:
                raise RefusedError(400, "Not all files completed", incomplete=incomplete)
            _expect(batch["files"], "No files uploaded in this batch")
            batch["status"] = "preprocessing"
        total = sum(file["file_size"] for file in batch["files"])
        return {
            "batch_id": batch["batch_id"],
            "status": batch["status"],
            "files_uploaded": len(batch["files"]),
            "total_bytes": total,
            "r2_prefix": f"staging/{batch['batch_id']}/",
        }


@contextmanager
def running(server: IngestServer) -> Iterator[IngestServer]:
    """The socket listens before anybody can ask: nobody needs to wait for the server."""
    # With the protocol named: otherwise asyncio leaves Nagle's delay on, 40 ms for each answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(server, lifespan="off", ws="none", log_level="critical", access_log=False)
    http = uvicorn.Server(config)
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.should_exit = http.force_exit = True
        thread.join()
        listener.close()


async def _received(receive: Callable[[], Awaitable[Any]]) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


async def _answer(
    send: Send, status: int, body: bytes, headers: dict[str, str], *, lost: bool = False
) -> None:
    told = {"content-type": "application/json", "content-length": str(len(body) + 100 * lost)} | headers
    pairs = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    # Lost: more was promised, and with the end of this call the connection is cut.
    await send({"type": "http.response.body", "body": body, "more_body": lost})


def _json(headers: dict[str, str], body: bytes) -> Any:
    _expect(headers.get("content-type") == "application/json", "Content-Type must be application/json")
    try:
        said = json.loads(body or b"{}")
    except ValueError as error:
        raise RefusedError(400, "Invalid JSON body") from error
    _expect(isinstance(said, dict), "Invalid JSON body")
    return said


def _is_path(path: str) -> bool:
    parts = path.split("/")
    return (
        path.startswith("/")
        and all(parts[1:])
        and {".", ".."}.isdisjoint(parts)
        and not _FORBIDDEN.search(path)
    )


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _expect(fine: object, error: str, status: int = 400) -> None:
    if not fine:
        raise RefusedError(status, error)


def _tag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
