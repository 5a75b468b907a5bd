"""Converts rows to the values of the port: tokens, histories, dead letters, filters.

Shared by the adapters on SQL databases. Must not know: statements and connections.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from quire.model.errors import Lost
from quire.queues.checks import is_valid_id
from quire.queues.checksums import is_intact
from quire.queues.port import DeadLetter, DeadLetterFilter, FailedDelivery, LeasedMessage, QueuedMessage

Row = tuple[Any, ...]

HOUR_SECONDS = 3600.0
PRIORITIES = range(1, 6)
# The minute under which counters older than an hour are summed up.
EARLIER = -1
# How many dead letters are searched, or ids forgotten, in one step.
PAGE = 1000


def to_minute(moment: float) -> int:
    return int(moment // 60)


def build_token(no: int, lease: str) -> str:
    """Row and lease in one: the row is found by its number, without a search for queue and id."""
    return f"{no}.{lease}"


def parse_token(leased: LeasedMessage) -> tuple[int, str]:
    """Row and lease of a token. A foreign token gives a row number that never exists."""
    no, _, lease = leased.token.partition(".")
    # Longer ones are no row's number and would not fit into a column of the database.
    return (int(no), lease) if no.isdecimal() and no.isascii() and len(no) <= 18 else (-1, lease)


def group_by_lease(leased: Sequence[LeasedMessage]) -> dict[str, list[int]]:
    """Row numbers by the lease that gave them out; mostly there is one lease."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in leased:
        no, lease = parse_token(one)
        found[lease].append(no)
    return found


def raise_lost(leased: Sequence[LeasedMessage], *, kept: Collection[tuple[int, str]]) -> None:
    """Raises Lost with the ids of the messages that are not in `kept`, if there are any."""
    gone = [one for one in leased if parse_token(one) not in kept]
    if not gone:
        return
    first = gone[0]
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    raise Lost(
        f"the lease on {first.id}{more} in {first.queue} is gone: stop working on it",
        code="lease_lost",
        ids=tuple(one.id for one in gone),
    )


def make_storable(text: str) -> str:
    """Text that every database accepts: names and classes may come from anywhere."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def build_entry(leased: LeasedMessage, *, at: float, ending: str, error_class: str, error: str) -> str:
    """One entry of the history, without its worker, which the row has. Escaped to plain ASCII, so that any
    text comes back as it was.
    """
    trial = {"delivery": leased.deliveries, "at": at, "ending": ending}
    return json.dumps({**trial, "error_class": error_class, "error": error})


def read_history(entries: Iterable[dict[str, Any]]) -> tuple[FailedDelivery, ...]:
    return tuple(FailedDelivery(**one) for one in entries)


def to_dead_letter(queue: str, row: Row) -> DeadLetter:
    """From (buried_no, id, body, priority, deliveries, sent_at, ended_at, error_class, checksum, entries)."""
    no, message_id, body, priority, deliveries, sent_at, buried_at, error_class, checksum, entries = row
    trials = read_history(entries)
    return DeadLetter(
        no=no,
        queue=queue,
        id=message_id,
        body=body,
        priority=priority,
        deliveries=deliveries,
        sent_at=sent_at,
        buried_at=buried_at,
        error_class=error_class,
        reason=trials[-1].error if trials else "",
        history=trials,
        is_damaged=not is_intact(queue, message_id, priority, sent_at, body, checksum),
    )


def to_queued_message(queue: str, row: Row, *, now: float) -> QueuedMessage:
    """From (id, body, priority, deliveries, sent_at, due_at, token, worker, checksum)."""
    message_id, body, priority, deliveries, sent_at, due_at, token, worker, checksum = row
    return QueuedMessage(
        queue=queue,
        id=message_id,
        body=body,
        priority=priority,
        deliveries=deliveries,
        sent_at=sent_at,
        due_at=due_at,
        leased_to=worker if token is not None and due_at > now else None,
        is_damaged=not is_intact(queue, message_id, priority, sent_at, body, checksum),
    )


def list_ids(chosen: DeadLetterFilter) -> list[str] | None:
    """The valid ids of the filter; None: any id."""
    return None if chosen.ids is None else sorted({one for one in chosen.ids if is_valid_id(one)})


def has_text(letter: DeadLetter, text: str) -> bool:
    """Searched here and not in the database: databases differ in ignoring case and refuse bodies that are not
    text.
    """
    folded = text.casefold()
    body = letter.body.decode("utf-8", "replace")
    return any(folded in place.casefold() for place in (letter.reason, letter.id, body))
