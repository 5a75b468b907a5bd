"""Stand-ins of the published clients: the same calls in the same order with the same headers, byte for byte
on the wire. What the clients read of an answer is read here, and nothing else; what they demand is demanded.

Where they would wait before they try again, `again` is called: tests hand in a wait for a signal.
"""

import hashlib
import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from quire.model.cid import cid_of

CONFIG = {"ocr": True, "describe": True, "pinax": True}
ORIGIN = "0" * 26
MIB = 1 << 20
TRIES = 4  # one, and three more


@dataclass(frozen=True)
class Item:
    """A file on the sender's disk; `path` as it is announced."""

    path: str
    data: bytes
    content_type: str = "application/octet-stream"
    config: Mapping[str, Any] = field(default_factory=lambda: dict(CONFIG))

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def cid(self) -> str:
        return cid_of(hashlib.sha256(self.data).digest())

    def announcement(self) -> dict[str, Any]:
        return {
            "file_name": self.name,
            "file_size": len(self.data),
            "logical_path": self.path,
            "content_type": self.content_type,
            "cid": self.cid,
            "processing_config": dict(self.config),
        }


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Refused(Exception):
    """The client gives this call up and says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.status} {reply.body[:500]!r}")
        self.reply = reply


def ask(method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
    """One request with these headers, Host and no others. The URL goes out as it is; nothing is followed."""
    parts = urlsplit(url)
    assert parts.scheme == "http"
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return Reply(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        )
    finally:
        connection.close()


class Client:
    """What both have in common: five files at once, three parts at once."""

    headers: ClassVar[Mapping[str, str]]

    def __init__(self, url: str, *, again: Callable[[], None] = lambda: None) -> None:
        self.url = url
        self.again = again
        self.batch = ""

    def post(self, path: str, said: object) -> Any:
        body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        return self.api(path, body)

    def api(self, path: str, body: bytes) -> Any:
        """Repeated after connection errors and statuses from 500 on."""
        headers = {**self.headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
        for left in reversed(range(TRIES)):
            try:
                reply = ask("POST", self.url + path, headers, body)
            except (OSError, http.client.HTTPException):
                if not left:
                    raise
                self.again()
                continue
            if reply.status >= 500 and left:
                self.again()
                continue
            said = reply.json()  # whatever the status: a body that is none is a failure
            if not 200 <= reply.status < 300:
                assert isinstance(said["error"], str)
                raise Refused(reply)
            return said
        raise AssertionError("unreachable")

    def init(self, items: Sequence[Item], root_path: str = "/", **more: object) -> None:
        said = {
            "uploader": "ana@example.org",
            "root_path": root_path,
            "file_count": len(items),
            "total_size": sum(len(item.data) for item in items),
            **more,
        }
        answer = self.post("/api/batches/init", said)
        assert len(answer["batch_id"]) == 26
        assert answer["session_id"].startswith("sess_")
        self.batch = answer["batch_id"]

    def at(self, word: str) -> str:
        return f"/api/batches/{self.batch}/{word}"

    def start(self, item: Item) -> dict[str, Any]:
        return self.post(self.at("files/start"), item.announcement())

    def complete(self, ticket: Mapping[str, Any], parts: Sequence[Mapping[str, Any]] = ()) -> None:
        said: dict[str, Any] = {"r2_key": ticket["r2_key"]}
        if ticket["upload_type"] == "multipart":
            said |= {"upload_id": ticket["upload_id"], "parts": list(parts)}
        assert self.post(self.at("files/complete"), said)["success"] is True

    def upload(self, item: Item) -> None:
        ticket = self.start(item)
        self.complete(ticket, self.put(item, ticket))

    def put(self, item: Item, ticket: Mapping[str, Any]) -> list[dict[str, Any]]:
        if ticket["upload_type"] == "simple":
            self.put_whole(ticket["presigned_url"], item)
            return []
        pieces = self.pieces(item.data, ticket)
        with ThreadPoolExecutor(3) as pool:
            etags = pool.map(lambda piece: self.put_part(piece[1], piece[2]), pieces)
            return [
                {"part_number": piece[0], "etag": etag} for piece, etag in zip(pieces, etags, strict=True)
            ]

    def send_all(self, items: Sequence[Item]) -> None:
        with ThreadPoolExecutor(5) as pool:
            for _ in pool.map(self.upload, sorted(items, key=lambda item: len(item.data))):
                pass

    def pieces(self, data: bytes, ticket: Mapping[str, Any]) -> list[tuple[int, str, bytes]]:
        raise NotImplementedError

    def put_whole(self, url: str, item: Item) -> None:
        raise NotImplementedError

    def put_part(self, url: str, data: bytes) -> str:
        raise NotImplementedError

    def finalize(self) -> Any:
        raise NotImplementedError


class CommandLine(Client):
    headers: ClassVar[Mapping[str, str]] = {
        "Accept": "application/json, text/plain, */*",
        "User-Agent": "axios/1.13.2",
        "Accept-Encoding": "gzip, compress, deflate, br",
    }

    def start(self, item: Item) -> dict[str, Any]:
        ticket = super().start(item)
        wanted = ["r2_key", "upload_type"]
        simple = ticket["upload_type"] == "simple"
        wanted += ["presigned_url"] if simple else ["presigned_urls", "upload_id", "part_size"]
        assert all(ticket[name] for name in wanted)
        return ticket

    def pieces(self, data: bytes, ticket: Mapping[str, Any]) -> list[tuple[int, str, bytes]]:
        size = ticket["part_size"]
        return [
            (one["part_number"], one["url"], data[(one["part_number"] - 1) * size :][:size])
            for one in ticket["presigned_urls"]
        ]

    def put_whole(self, url: str, item: Item) -> None:
        headers = {"Content-Type": item.content_type, "Content-Length": str(len(item.data))}
        reply = ask("PUT", url, {**self.headers, **headers}, item.data)
        if reply.status != 200:
            raise Refused(reply)

    def put_part(self, url: str, data: bytes) -> str:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(data))}
        reply = ask("PUT", url, {**self.headers, **headers}, data)
        if reply.status != 200:
            raise Refused(reply)
        assert reply.headers["etag"]
        return reply.headers["etag"].replace('"', "")

    def finalize(self) -> Any:
        answer = self.api(self.at("finalize"), b"")
        assert answer["batch_id"]
        assert answer["files_uploaded"]
        return answer


class Sdk(Client):
    """As it runs in Node; it has a token and a user of its own, whatever the server asks for."""

    headers: ClassVar[Mapping[str, str]] = {
        "Accept": "*/*",
        "Accept-Language": "*",
        "Sec-Fetch-Mode": "cors",
        "User-Agent": "node",
        "Accept-Encoding": "gzip, deflate",
        "X-User-Id": "01KA0000000000000000000USR",
        "Authorization": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2lnbmF0dXJl",
    }

    def init(self, items: Sequence[Item], root_path: str = "/", **more: object) -> None:
        super().init(items, root_path, **{"parent_pi": "", "metadata": {}, **more})

    def pieces(self, data: bytes, ticket: Mapping[str, Any]) -> list[tuple[int, str, bytes]]:
        urls = [one["url"] for one in ticket["presigned_urls"]]
        size = -(-len(data) // len(urls))
        return [(place + 1, url, data[place * size :][:size]) for place, url in enumerate(urls)]

    def put_whole(self, url: str, item: Item) -> None:
        self._put(url, item.data, {"Content-Type": item.content_type})

    def put_part(self, url: str, data: bytes) -> str:
        etag = self._put(url, data, {}).headers["etag"]
        assert etag
        return etag.replace('"', "")

    def _put(self, url: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        plain = {
            name: value for name, value in self.headers.items() if name[0] != "X" and name != "Authorization"
        }
        for left in reversed(range(TRIES)):
            reply = ask("PUT", url, {**plain, **headers, "Content-Length": str(len(data))}, data)
            if 200 <= reply.status < 300:
                return reply
            if not left or (reply.status < 500 and reply.status != 429):
                raise Refused(reply)
            self.again()
        raise AssertionError("unreachable")

    def finalize(self) -> Any:
        return self.post(self.at("finalize"), {})


CLIENTS = {"command line": CommandLine, "sdk": Sdk}
