"""The HTTP server: uvicorn on a socket of ours, in the loop of the process that also conducts.

Promise: a client that connects and says nothing, or says its headers one letter at a time, or without end,
is hung up on; what cannot be understood at all is answered as JSON too; when it stops, what is being answered
is answered.
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
    """Hangs up when a request's headers do not come; between requests keep-alive counts the time."""

    _patience: asyncio.TimerHandle | None = None
    _heading = True  # headers have not come to their end
    _unfinished = 0  # and they have so many bytes so far

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._be_patient()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._heading:
            self._unfinished += len(data)
        if self._unfinished > HEADER_BYTES:
            self._refuse(431, "The headers are too large")
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self._patience is None:
            # Empty lines, or the rest of a body that nobody wants: keep-alive has stopped counting.
            self._be_patient()

    def on_message_begin(self) -> None:
        self._be_patient()
        self._heading, self._unfinished = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._lose_patience()
        self._heading, self._unfinished = False, 0
        if len(self.connections) > MAX_CONNECTIONS:
            self.app = _answer_full
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose_patience()
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

    def _be_patient(self) -> None:
        self._lose_patience()
        self._patience = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _lose_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self) -> None:
        self.transport.abort()


async def _answer_full(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
    """Published clients read every answer as JSON and come again after a 503."""
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
    """Until `stop`; `started` is set when requests are answered."""
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
    """Requests that are not over when the grace is are cut off: uvicorn says how many, and that is enough."""
    return not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told.set()

    def install_signal_handlers(self) -> None:
        """The process has its own."""

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()
