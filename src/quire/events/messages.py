"""What a webhook's receiver gets: an event as CloudEvents 1.0 has it, signed as Standard Webhooks has it.

A receiver checks the signature with any library of Standard Webhooks, and knows a repetition by `webhook-id`.
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


def body_of(delivery: WebhookDelivery, source: str) -> bytes:
    """Structured mode: the same bytes at every try."""
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


def headers_of(delivery: WebhookDelivery, body: bytes, secret: str, *, now: float) -> dict[str, str]:
    """`now` is the moment of this try: receivers refuse what is old, so that nobody can play it back."""
    moment = str(int(now))
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": f"quire/{__version__}",
        "webhook-id": delivery.id,
        "webhook-timestamp": moment,
        "webhook-signature": signature(secret, delivery.id, moment, body),
    }


def signature(secret: str, message_id: str, moment: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    signed = b".".join((message_id.encode(), moment.encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _data(delivery: WebhookDelivery) -> dict[str, object]:
    data = json.loads(delivery.data)
    if not isinstance(data, dict):
        raise Bug(f"event {delivery.event_no} holds no object")
    return data
