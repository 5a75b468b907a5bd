"""How a remote worker asks the server for places for its outputs, and whether its attempt still counts."""

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from quire.compute.remote.output_request import MoreOutputs, OutputPlace, OutputPlaces
from quire.compute.remote.transfer import TransferClient
from quire.model.errors import QuireError, Reject

T = TypeVar("T")


class StoreError(Exception):
    """Bytes could not be fetched or stored; the cause says why."""


async def mark_store_errors(work: Awaitable[T]) -> T:
    """Raises StoreError for a QuireError."""
    try:
        return await work
    except QuireError as error:
        raise StoreError from error


async def get_places(client: TransferClient, url: str, roles: list[str]) -> dict[str, OutputPlace]:
    """A place for each role. Raises StoreError, or Reject when there are none."""
    answer = await mark_store_errors(request_places(client, url, roles))
    found = {one.role: one for one in answer.places}
    if not all(role in found for role in roles):
        raise Reject("there are no places for the outputs: the attempt is over", code="bad_task")
    return found


async def request_places(
    client: TransferClient, url: str, roles: list[str], *, once: bool = False
) -> OutputPlaces:
    """Raises a QuireError."""
    body = msgspec.json.encode(MoreOutputs(roles=tuple(roles)))
    answer = await client.ask(url, body, "the request for places", once=once)
    try:
        return msgspec.json.decode(answer, type=OutputPlaces)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Reject("the answer to the request for places is invalid", code="bad_task") from error


async def is_over(client: TransferClient, url: str) -> bool:
    """Has the attempt ended before its work began? Unknown counts as no."""
    if not url:
        return False
    try:
        return not (await request_places(client, url, [], once=True)).current
    except QuireError:
        return False
