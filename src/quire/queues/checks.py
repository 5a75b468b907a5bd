"""Checks of messages before anything is written, the same in every adapter."""

import re
from collections.abc import Sequence

from quire.model.errors import Reject
from quire.queues.port import LEAST, MAX_MESSAGE_BYTES, URGENT, Message

MAX_ID_CHARACTERS = 200
# Control characters, and halves of surrogate pairs: no database takes those as text.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_valid_id(message_id: str) -> bool:
    """Whether a message may have this id; no queue has a message with another one."""
    return 0 < len(message_id) <= MAX_ID_CHARACTERS and _UNFIT.search(message_id) is None


def check_messages(messages: Sequence[Message], *, max_bytes: int = MAX_MESSAGE_BYTES) -> list[Message]:
    """The messages, each id once: the first counts. Raises Reject for the first invalid one."""
    known: dict[str, Message] = {}
    for message in messages:
        if not is_valid_id(message.id):
            raise Reject(
                f"{message.id[:MAX_ID_CHARACTERS]!r} cannot be the id of a message: give one of 1 to "
                f"{MAX_ID_CHARACTERS} characters, none of them a control character",
                code="bad_message",
            )
        if not URGENT <= message.priority <= LEAST:
            raise Reject(
                f"message {message.id} has priority {message.priority}: give one from {URGENT} (first) to "
                f"{LEAST} (last)",
                code="bad_message",
            )
        if len(message.body) > max_bytes:
            raise Reject(
                f"message {message.id} has {len(message.body)} bytes, the limit is {max_bytes}: "
                "store its content as a blob and send the key",
                code="message_too_large",
            )
        known.setdefault(message.id, message)
    return list(known.values())
