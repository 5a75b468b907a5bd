"""The HTTP server: uvicorn on a socket of ours, in the event loop that may also run the engine.

Promise: a client that connects and sends nothing, or sends its headers byte by byte or without end, is
disconnected; malformed requests are answered as JSON too; when the server stops, running requests finish.
"""

import asyncio
import errno
import logging
import socket
from http import HTTPStatus
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quire.model.errors import Misconfigured

HEADER_SECONDS = 15.0
HEADER_BYTES = 64 << 10
KEEP_ALIVE_SECONDS = 30
GRACE_SECONDS = 10
BACKLOG = 1024
MAX_CONNECTIONS = 2000

_encoder = msgspec.json.Encoder()


class _TimedProtocol(HttpToolsProtocol):
    """Disconnects when a request's headers do not arrive in time; keep-alive has its own timer."""

    _header_timer: asyncio.TimerHandle | None = None
    _heading = True  # the headers are not complete
    _unfinished = 0  # bytes of incomplete headers so far

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._heading:
            self._unfinished += len(data)
        if self._unfinished > HEADER_BYTES:
            self._refuse(431, "The headers are too large")
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self._header_timer is None:
            # Empty lines, or the rest of a body that nobody reads: the keep-alive timer is off.
            self._start_timer()

    def on_message_begin(self) -> None:
        self._start_timer()
        self._heading, self._unfinished = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._heading, self._unfinished = False, 0
        if len(self.connections) > MAX_CONNECTIONS:
            self.app = _answer_full
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg.rstrip("."))

    def _refuse(self, status: int, words: str) -> None:
        if self.transport.is_closing():
            return
        body = _encoder.encode({"error": words})
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._disconnect)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _disconnect(self) -> None:
        self.transport.abort()


async def _answer_full(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
    """Published clients read every answer as JSON and try again after a 503."""
    body = _encoder.encode({"error": "Too many connections; come again soon"})
    headers = {
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(body),
        b"retry-after": b"5",
        b"connection": b"close",
    }
    await send({"type": "http.response.start", "status": 503, "headers": list(headers.items())})
    await send({"type": "http.response.body", "body": body})


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises Misconfigured."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio sends small answers at once only on sockets that it knows to be TCP.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        taken = error.errno in {errno.EADDRINUSE, errno.EACCES}
        advice = "choose another --port, or end the program that has this one" if taken else "check --host"
        raise Misconfigured(
            f"cannot listen on {host} port {port}: {error.strerror or error}; {advice}", code="cannot_listen"
        ) from error
    made.setblocking(False)
    return made


async def serve(app: Any, sock: socket.socket, stop: asyncio.Event, started: asyncio.Event) -> None:
    """Serve until `stop`; `started` is set when requests are answered."""
    config = uvicorn.Config(
        app,
        http=_TimedProtocol,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_not_cut_off)  # once, however often it is added
    server = _Server(config, started)
    serving = asyncio.ensure_future(server.serve(sockets=[sock]))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    await serving


def _is_not_cut_off(record: logging.LogRecord) -> bool:
    """Hides the tracebacks of requests cut off after the grace period: uvicorn logs how many there were."""
    return not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._started_event = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started_event.set()

    def install_signal_handlers(self) -> None:
        """The process has its own signal handlers."""

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()
