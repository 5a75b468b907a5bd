"""The names of the Redis keys of a queue, and the encoding of values.

The scripts take all keys of a queue, in the order that `lua/shared.lua` lists.
"""

import json
import math
import re

from quire.model.errors import Misconfigured

PRIORITIES = 5
_REST = (
    *("delayed", "held", "leases", "loans", "ids", "sent", "trials", "graves", "dead"),
    *("classes", "counts", "numbers", "wake"),
)
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class RedisKeys:
    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            # A brace would move the hash tag, and with it the queue's keys to several machines.
            raise Misconfigured(
                f"{prefix!r} is no prefix for keys: use up to 64 letters, digits and _ . : - characters"
            )
        self._prefix = prefix
        self.registry = f"{prefix}:queues".encode()  # of all queues, scored by when something was last sent
        self._known: dict[str, tuple[bytes, ...]] = {}

    def of(self, queue: str) -> tuple[bytes, ...]:
        known = self._known.get(queue)
        if known is None:
            names = (*(f"waiting:{priority}" for priority in range(1, PRIORITIES + 1)), *_REST)
            known = tuple(f"{{{self._prefix}:{queue}}}:{name}".encode() for name in names)
            self._known[queue] = known
        return known

    def classes(self, queue: str) -> bytes:
        return self.of(queue)[PRIORITIES + _REST.index("classes")]

    def counts(self, queue: str) -> bytes:
        return self.of(queue)[PRIORITIES + _REST.index("counts")]

    def wake(self, queue: str) -> bytes:
        return self.of(queue)[-1]


def format_moment(seconds: float) -> str:
    """With all digits, so that it is read back as the same number."""
    return repr(float(seconds))


def read_moment(stored: bytes) -> float:
    """What `format_moment` wrote; not a number where the stored text is damaged."""
    try:
        return float(stored)
    except ValueError:
        return math.nan


def decode_id(stored: bytes) -> str:
    """Also of a damaged one, whose message has to be given up under the same bytes."""
    return stored.decode("utf-8", "surrogateescape")


def encode_id(message_id: str) -> bytes:
    return message_id.encode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Error texts may hold characters that UTF-8 refuses: pieces of file names."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def build_entry_end(*, at: float, ending: str, error_class: str, error: str) -> str:
    """The end of a JSON object to which the script adds delivery and worker."""
    values = {"at": float(at), "ending": ending, "error_class": error_class, "error": error}
    return json.dumps(values)[1:]
