"""What a step raises or returns to say that its task is not finished: later, or by somebody outside.

`Reject`, the third word of this kind, is in `quire.model.errors`.
"""

import math

import msgspec
from msgspec import Struct

from quire.model.errors import Reject, Retry
from quire.model.queues import is_queue_name
from quire.model.work import LONGEST_WAIT_SECONDS, ExternalRequest


class TryLater(Retry):
    """Raise it when a service is busy: the step runs again, not before this many seconds have passed.

    It counts as one of the step's tries, as any exception does.
    """

    def __init__(self, seconds: float, reason: str = "", *, code: str | None = None) -> None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"TryLater takes a number of seconds from 0 on, not {seconds!r}")
        text = reason or f"the step asked to be tried again in {seconds:g} s"
        super().__init__(text, code=code, delay_seconds=seconds)


class External(Struct, frozen=True):
    """Return it when somebody outside will finish the task: no worker is kept waiting for the answer.

    send:    what is sent to `queue` once the ledger has noted that an answer may come: bytes as they are,
             anything else as JSON. Without it the step has sent its request itself.
    queue:   the name of the queue
    within:  seconds until the task fails without an answer
    """

    send: object = None
    queue: str = ""
    within: float = 3600.0

    def to_request(self) -> ExternalRequest:
        """Raises Reject when it makes no sense."""
        if (self.send is None) != (not self.queue):
            raise Reject("External takes `send` and `queue` together, or neither of them", code="bad_result")
        if self.queue and not is_queue_name(self.queue):
            raise Reject(
                f"External takes the name of a queue, without spaces, not {self.queue[:80]!r}",
                code="bad_result",
            )
        if not (math.isfinite(self.within) and 0 < self.within <= LONGEST_WAIT_SECONDS):
            days = LONGEST_WAIT_SECONDS / 86_400
            raise Reject(
                f"External takes `within` in seconds, up to {days:g} days, not {self.within!r}",
                code="bad_result",
            )
        if self.send is None:
            body = b""
        elif isinstance(self.send, bytes):
            body = self.send
        else:
            body = _encode(self.send)
        return ExternalRequest(queue=self.queue, body=body, within_seconds=self.within)


def _encode(sent: object) -> bytes:
    try:
        return msgspec.json.encode(sent)
    except Exception as error:
        raise Reject(
            f"External cannot send a {type(sent).__name__} as JSON: {error}", code="bad_result"
        ) from error
