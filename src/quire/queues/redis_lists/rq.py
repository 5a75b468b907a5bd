"""The form of an RQ job (rq 1.15, below 2): what `Queue.enqueue` of the published server writes.

What is sent is run by an RQ worker that knows the function; what RQ enqueued is read as the text it carries.
The function's name is ignored on reading, and nothing of a job is ever executed here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from quire.model.errors import Reject
from quire.queues.checks import is_valid_id
from quire.queues.port import Message
from quire.queues.redis_lists.forms import Value
from quire.queues.redis_lists.rq_pickle import read_call, write_call

FUNCTION = "jarvis_recipes.app.services.queue_worker.process_job"
TIMEOUT_SECONDS = 600
# RQ keeps a finished job this long.
KEEP_FINISHED_SECONDS = 500
_EMPTY = (
    *("started_at", "ended_at", "last_heartbeat", "worker_name", "success_callback_name"),
    *("failure_callback_name", "stopped_callback_name"),
)
_LONGEST_DESCRIPTION = 200


class _JobId(msgspec.Struct):
    job_id: str = ""


class RqForm:
    def __init__(self, queue: str, *, max_bytes: int, function: str = FUNCTION) -> None:
        self._queue = queue
        self._max_bytes = max_bytes
        self._function = function

    def to_stored(self, message: Message, *, now: float) -> Sequence[Value]:
        """The job's id is the envelope's, or the message's where the body has none."""
        try:
            text = message.body.decode()
        except UnicodeDecodeError as error:
            raise Reject("an RQ job carries a text, and these bytes are none", code="bad_message") from error
        moment = format_moment(now)
        fields: dict[str, Value] = {
            **dict.fromkeys(_EMPTY, ""),
            "created_at": moment,
            "enqueued_at": moment,
            "origin": self._queue,
            "status": "queued",
            "timeout": str(TIMEOUT_SECONDS),
            "description": f"{self._function}({text[:_LONGEST_DESCRIPTION]!r})",
            "data": write_call(self._function, text),
        }
        return (_find_job_id(message), *(part for field in fields.items() for part in field))

    def to_body(self, stored: bytes) -> bytes:
        if not stored:
            raise Reject("the data of this RQ job are gone: deleted, or expired", code="rq_job_missing")
        try:
            return read_call(stored, max_bytes=self._max_bytes).encode()
        except UnicodeEncodeError as error:
            raise Reject("the text of this RQ job has half characters", code="bad_message") from error


def format_moment(now: float) -> str:
    """As RQ writes moments."""
    return datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _find_job_id(message: Message) -> str:
    try:
        found: Any = msgspec.json.decode(message.body, type=_JobId).job_id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = ""
    return found if is_valid_id(found) else message.id
