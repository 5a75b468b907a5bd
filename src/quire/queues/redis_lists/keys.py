"""The names of the Redis keys of a queue. The scripts take all of them, in the order of `lua/shared.lua`."""

import re

_BESIDE = (
    "delayed",
    "leases",
    "leased",
    "returned",
    "tries",
    "dead",
    "dead:reasons",
    "sent",
    "numbers",
    "counts",
)
_GLOB = re.compile(r"([\\*?\[\]])")


class ListKeys:
    """Of one queue. `rq` is whether it has the RQ form."""

    def __init__(self, queue: str, *, rq: bool) -> None:
        self.queue = queue
        self.rq = rq
        self.list = f"rq:queue:{queue}".encode() if rq else queue.encode()
        self.every = (self.list, *(f"{queue}:{name}".encode() for name in _BESIDE))
        # In front of the arguments of every script.
        self.form = ("rq" if rq else "list", queue)
        # The end of the list from which messages are taken.
        self.end = "LEFT" if rq else "RIGHT"
        self._processing = f"{queue}:processing:"
        self.processing_pattern = _GLOB.sub(r"\\\1", self._processing) + "*"

    def worker_of(self, processing: bytes) -> str:
        """The worker that a processing list belongs to."""
        return processing.decode("utf-8", "surrogateescape")[len(self._processing) :]
