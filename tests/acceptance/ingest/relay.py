"""Passes connections on as they are, and counts what is put: between a sender and whoever takes the bytes."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

_PUT = re.compile(rb"PUT (/\S+) HTTP/1\.1\r\n")
_LONGEST_HEAD = 16_384


class Relay:
    """`puts` are the targets of all PUT requests that came by; `seen` is called with each."""

    def __init__(self) -> None:
        self.puts: list[str] = []
        self.seen: Callable[[], None] = lambda: None
        self.url = ""


@contextmanager
def relaying(port: Callable[[], int]) -> Iterator[Relay]:
    """To that port of this machine, which need not be open before somebody comes."""
    relay = Relay()

    class Passing(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port())) as onward:
                back = threading.Thread(target=_pass, args=(onward, self.request, None), daemon=True)
                back.start()
                _pass(self.request, onward, relay)
                back.join()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Passing) as server:
        relay.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield relay
        finally:
            server.shutdown()


def _pass(source: socket.socket, target: socket.socket, relay: Relay | None) -> None:
    tail = b""
    try:
        while data := source.recv(1 << 16):
            if relay is not None:
                tail = _noted(relay, tail + data)
            target.sendall(data)
    except OSError:
        pass
    finally:
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _noted(relay: Relay, data: bytes) -> bytes:
    """What may be the beginning of another head."""
    end = 0
    for found in _PUT.finditer(data):
        end = found.end()
        relay.puts.append(found[1].decode())
        relay.seen()
    return data[max(end, len(data) - _LONGEST_HEAD) :]
