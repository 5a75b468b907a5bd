"""A web server on loopback that answers byte for byte what a test tells it to, also what no server should."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from msgspec import Struct, field

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class Asked(Struct, frozen=True):
    """`headers` have names in lower case."""

    line: str
    headers: dict[str, str]


class WebServer(Struct):
    """`answers` by path. An answer is the bytes to send, or a coroutine function that writes them."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def until_asked(self, number: int) -> None:
        while len(self.asked) < number:
            self.came.clear()
            await self.came.wait()

    def drop(self) -> None:
        """Cut the connections that are open."""
        for task in self.running:
            task.cancel()


def reply(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Names of headers with _ for -."""
    named = {"content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {text}" for name, text in named.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def redirect(place: str, status: str = "302 Found") -> bytes:
    return reply(b"", status, location=place)


@asynccontextmanager
async def web_server(tls: ssl.SSLContext | None = None, **answers: Answer) -> AsyncIterator[WebServer]:
    """Answers are named by their path without the slash; other paths get 404. `tls` is a server's context."""
    found = WebServer(answers={f"/{name}": answer for name, answer in answers.items()})

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        found.running.add(task)
        task.add_done_callback(found.running.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.split("\r\n")
            pairs = (one.partition(":") for one in rest if one)
            found.came.set()
            found.asked.append(Asked(line, {name.lower(): text.strip() for name, _, text in pairs}))
            path = line.split(" ")[1].partition("?")[0]
            answer = found.answers.get(path, reply(b"nothing here", "404 Not Found"))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        left = list(found.running)
        found.drop()
        await asyncio.gather(*left, return_exceptions=True)


async def never_ending(writer: asyncio.StreamWriter) -> None:
    """A body without an end, as fast as it is taken."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/jpeg\r\n\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def never_beginning(writer: asyncio.StreamWriter) -> None:
    """The head, and then nothing, for as long as the client waits."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
    await writer.drain()
    await asyncio.Event().wait()
