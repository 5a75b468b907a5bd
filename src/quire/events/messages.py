"""Body and headers of a delivery: an event in the form of CloudEvents 1.0, signed by Standard Webhooks.

A receiver checks the signature with any library for Standard Webhooks and recognises a repetition by its
`webhook-id`.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

from quire import __version__
from quire.events.port import WebhookDelivery
from quire.model.clock import timestamp
from quire.model.errors import Bug

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix, no secret
SECRET_BYTES = 32
CONTENT_TYPE = "application/cloudevents+json"


def new_secret(chance: Callable[[int], bytes]) -> str:
    return SECRET_PREFIX + base64.b64encode(chance(SECRET_BYTES)).decode()


def build_body(delivery: WebhookDelivery, source: str) -> bytes:
    """CloudEvents in structured mode; the same bytes for every try."""
    event = {
        "specversion": "1.0",
        "type": f"quire.{delivery.kind}",
        "source": source,
        "id": delivery.id,
        "subject": delivery.batch_id,
        "time": timestamp(delivery.happened_at),
        "datacontenttype": "application/json",
        "data": {**_data(delivery), "batch_id": delivery.batch_id, "event_no": delivery.event_no},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def build_headers(delivery: WebhookDelivery, body: bytes, secret: str, *, now: float) -> dict[str, str]:
    """`now` is the moment of this try: receivers refuse old ones, so that nobody can replay a delivery."""
    moment = str(int(now))
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": f"quire/{__version__}",
        "webhook-id": delivery.id,
        "webhook-timestamp": moment,
        "webhook-signature": sign(secret, delivery.id, moment, body),
    }


def sign(secret: str, message_id: str, moment: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    signed = b".".join((message_id.encode(), moment.encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _data(delivery: WebhookDelivery) -> dict[str, object]:
    data = json.loads(delivery.data)
    if not isinstance(data, dict):
        raise Bug(f"event {delivery.event_no} holds no object")
    return data
