"""Places for outputs whose number is not known in advance, and whether an attempt is still current.

Promises: a worker gets places of its own attempt only, as many as a TIFF may have pages or a step may have
outputs, and none when another attempt has replaced it. Must not know: HTTP.
"""

import msgspec

from quire.batches.remote.attempts import AttemptAddress, find_attempt
from quire.batches.remote.context import RemoteContext
from quire.blobs.presigned_uploads import PresignedUploads
from quire.compute.remote.output_keys import MAX_PAGES, ROLES, page_key, page_of
from quire.compute.remote.output_request import MoreOutputs, OutputPlace, OutputPlaces
from quire.compute.remote.step_claims import place_key
from quire.model.errors import Reject

MAX_BODY_BYTES = 8 * 1024
SPARE_SECONDS = 300  # for which URLs are valid longer than an attempt


_decoder = msgspec.json.Decoder(MoreOutputs)


async def grant_places(
    context: RemoteContext,
    presigned: PresignedUploads,
    address: AttemptAddress,
    body: bytes,
    *,
    base_url: str,
    prefix: str = "",
) -> OutputPlaces:
    """`address` comes from a verified URL. Raises Reject, and Missing for an unknown attempt. May be
    repeated.
    """
    try:
        wanted = _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise Reject(f"the body is no request for outputs: {error}", code="bad_request") from error
    found = await find_attempt(context, address)
    if not found.is_current(address.attempt):
        return OutputPlaces(current=False)
    seconds = int(found.step.longest_seconds(found.claim.order.file.size)) + SPARE_SECONDS
    start = prefix if found.step.step in ROLES else ""  # others have URLs alone
    places = []
    for role in dict.fromkeys(wanted.roles):
        key = _choose_key(found.step.step, address, role)
        url = await presigned.sign_put(key, seconds=seconds, base_url=base_url, announced=False)
        places.append(OutputPlace(role=role, key=start + key, url=url))
    return OutputPlaces(current=True, places=tuple(places))


def _choose_key(step: str, address: AttemptAddress, role: str) -> str:
    """Raises Reject for a role that this step has no place for."""
    batch_id, attempt = address.batch_id, address.attempt
    if step not in ROLES:
        return place_key(batch_id, address.task_no, attempt, role)
    page = page_of(role)
    if step != "tiff_to_jpeg" or page is None:
        raise Reject(
            f"there is no place for {role!r} here: pages of a TIFF are jpeg-2 to jpeg-{MAX_PAGES}",
            code="bad_request",
        )
    return page_key(batch_id, address.task_id, attempt, page)
