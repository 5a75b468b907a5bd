"""A worker's two ends of its pipe: a thread that listens, and a buffer that sends."""

import os
import queue
import threading
from collections.abc import Callable

from quire.compute.pool import frames


class Inbox:
    """Frames as they arrive. `stopping` is set as soon as STOP is heard, however much waits before it.

    `revoked` says of a batch up to which chunk, counted from 1, its orders must not be started; it too is
    known at once. What is sent later, when the batch goes on, is not meant. `on_recall` is called with such a
    number too, in the thread that listens.
    """

    def __init__(self, incoming: int) -> None:
        self._incoming = incoming
        self._waiting: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self.revoked: dict[int, int] = {}
        self.on_recall: Callable[[int], None] = lambda _chunks: None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._chunks = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def get(self) -> tuple[bytes, bytes]:
        return self._waiting.get()

    def answer(self) -> bytes:
        """GO or LATER, when the pool has been asked."""
        return self._answers.get()

    def _listen(self) -> None:
        with os.fdopen(self._incoming, "rb") as pipe:
            while len(beginning := pipe.read(frames.HEAD_BYTES)) == frames.HEAD_BYTES:
                length, kind = frames.head(beginning)
                if kind == frames.STOP:
                    self.stopping.set()
                payload = pipe.read(length)
                if kind == frames.REVOKE:
                    self.revoked[frames.revoke_decoder.decode(payload).batch_no] = self._chunks
                    continue
                if kind == frames.RECALL:
                    self.on_recall(self._chunks)
                    continue
                if kind in {frames.GO, frames.LATER}:
                    self._answers.put(kind)
                    continue
                self._chunks += kind == frames.CHUNK
                self._waiting.put((kind, payload))
        if not self.stopping.is_set():
            # The pool is gone without a word: whatever we do now, nobody will hear of it.
            os._exit(1)


class Outbox:
    """Reports travel with the next STARTED, in one write: one system call per order, not two."""

    def __init__(self, outgoing: int) -> None:
        self._outgoing = outgoing
        self._pending = bytearray()
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        with self._lock:
            self._pending += data

    def send(self, data: bytes = b"") -> None:
        with self._lock:
            view = memoryview(bytes(self._pending + data))
            self._pending.clear()
            while view:
                view = view[os.write(self._outgoing, view) :]
