"""The worker's side of its pipes: a thread that reads frames, and a buffer that writes them."""

import os
import queue
import threading
from collections.abc import Callable

from quire.compute.pool import frames


class FrameReader:
    """Frames as they arrive. `stopping` is set as soon as STOP arrives, whatever waits before it.

    `revoked` holds, by batch, the last chunk, counted from 1, whose orders must not be started; it too is
    updated at once. Orders that are sent later, when the batch is resumed, are not affected. `on_recall` is
    called with the number of the last chunk, in the thread that reads; so is `on_frame`, where one is set,
    with every frame that `get` would return otherwise.
    """

    def __init__(self, incoming: int) -> None:
        self._incoming = incoming
        self._waiting: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self.revoked: dict[int, int] = {}
        self.on_recall: Callable[[int], None] = lambda _chunks: None
        self.on_frame: Callable[[bytes, bytes], None] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._chunks = 0
        threading.Thread(target=self._read_frames, daemon=True).start()

    def get(self) -> tuple[bytes, bytes]:
        return self._waiting.get()

    def answer(self) -> bytes:
        """The answer of the pool to a memory request: GO or WAIT."""
        return self._answers.get()

    def _read_frames(self) -> None:
        with os.fdopen(self._incoming, "rb") as pipe:
            while len(beginning := pipe.read(frames.HEAD_BYTES)) == frames.HEAD_BYTES:
                length, kind = frames.decode_head(beginning)
                if kind == frames.STOP:
                    self.stopping.set()
                payload = pipe.read(length)
                if kind == frames.REVOKE:
                    self.revoked[frames.revoke_decoder.decode(payload).batch_no] = self._chunks
                    continue
                if kind == frames.RECALL:
                    self.on_recall(self._chunks)
                    continue
                if kind in {frames.GO, frames.WAIT}:
                    self._answers.put(kind)
                    continue
                self._chunks += kind == frames.CHUNK
                if self.on_frame is None:
                    self._waiting.put((kind, payload))
                else:
                    self.on_frame(kind, payload)
        if not self.stopping.is_set():
            # The pool is gone without a STOP: no report would reach it.
            os._exit(1)


class FrameWriter:
    """Sends reports together with the next STARTED: one system call per order, not two."""

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
