"""A tap on the line to a server: passes bytes on, and counts the requests among them by their method."""

import asyncio
import re
from collections import Counter
from types import TracebackType
from typing import Self

_REQUEST = re.compile(rb"(GET|PUT|HEAD|POST|DELETE) /(\S*) HTTP/1.1")


class Tap:
    """`methods` counts; a GET of a listing counts as LIST."""

    def __init__(self, endpoint: str) -> None:
        self._host, _, port = endpoint.removeprefix("http://").partition(":")
        self._port = int(port)
        self._tasks: set[asyncio.Task[object] | None] = set()
        self.methods: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(self._pass(reader, far_writer, count=True), self._pass(far_reader, writer))
        except asyncio.CancelledError:  # at the end; streams complain of tasks that end so
            return
        finally:
            writer.close()
            far_writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool = False
    ) -> None:
        while piece := await reader.read(1 << 16):
            if count:
                self.methods.update(
                    "LIST" if method == b"GET" and b"list-type=2" in path else method.decode()
                    for method, path in _REQUEST.findall(piece)
                )
            writer.write(piece)
            await writer.drain()
        writer.close()
