"""A real HTTP server on loopback that receives webhooks and gives prepared answers."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct


class Received(Struct, frozen=True):
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


class Reply(Struct, frozen=True):
    """A `held` reply is sent only when `Receiver.release` was called."""

    status: int = 204
    headers: dict[str, str] = {}
    body: bytes = b""
    held: bool = False


class Receiver:
    """`script` has the answers in order; the last one stays."""

    def __init__(self, port: int, script: Sequence[Reply]) -> None:
        self.port = port
        self.script = list(script)
        self.received: list[Received] = []
        self._came = threading.Condition()
        self._released = threading.Event()

    def url(self, path: str = "/in") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def release(self) -> None:
        self._released.set()

    async def came(self, number: int) -> None:
        """Wait until so many have come."""
        if not await asyncio.to_thread(self._wait_for, number):
            raise TimeoutError(f"only {len(self.received)} of {number} came")

    def _wait_for(self, number: int) -> bool:
        with self._came:
            return self._came.wait_for(lambda: len(self.received) >= number, timeout=30)

    def take(self, one: Received) -> Reply:
        with self._came:
            self.received.append(one)
            self._came.notify_all()
            reply = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        if reply.held:
            self._released.wait(30)
        return reply


@contextmanager
def receiver(*script: Reply, tls: Any = None) -> Iterator[Receiver]:
    """`tls` is a server's SSLContext."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    found = Receiver(server.server_address[1], script or [Reply()])
    server.RequestHandlerClass = _handler(found)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.release()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(found: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            reply = found.take(Received(self.path, names, body))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            try:
                self.wfile.write(reply.body)
            except OSError:
                return  # the caller has read enough

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Handler
