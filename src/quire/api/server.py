"""The HTTP server: uvicorn on a socket of ours, in the loop of the process that also conducts.

Promise: a client that connects and says nothing, or says its headers one letter at a time, is hung up on;
when it stops, what is being answered is answered.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quire.model.errors import Misconfigured

HEADER_SECONDS = 15.0
KEEP_ALIVE_SECONDS = 30
GRACE_SECONDS = 10
BACKLOG = 1024
MAX_CONNECTIONS = 2000


class _Impatient(HttpToolsProtocol):
    """Hangs up when a request's headers do not come; after the first one keep-alive counts the time."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._patience = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def on_headers_complete(self) -> None:
        self._patience.cancel()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        self._patience.cancel()
        self._patience = self.loop.call_later(HEADER_SECONDS, self._hang_up)
        super().on_message_begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def _hang_up(self) -> None:
        with suppress(Exception):
            self.transport.abort()


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises Misconfigured."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise Misconfigured(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --port, or end "
            "the program that has this one",
            code="cannot_listen",
        ) from error
    made.setblocking(False)
    return made


async def serve(app: Any, sock: socket.socket, stop: asyncio.Event, started: asyncio.Event) -> None:
    """Until `stop`; `started` is set when requests are answered."""
    config = uvicorn.Config(
        app,
        http=_Impatient,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config, started)
    serving = asyncio.ensure_future(server.serve(sockets=[sock]))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    await serving


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
