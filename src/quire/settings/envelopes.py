"""Settings of the envelopes that the OCR service and recipe import exchange: on what they travel."""

from typing import Annotated, Literal

from msgspec import Struct

from quire.settings.basics import about


class EnvelopeSettings(Struct, frozen=True, kw_only=True):
    transport: Annotated[
        Literal["auto", "lists", "queues"],
        about(
            "lists: on Redis lists and RQ, as published programs; queues: on Quire's own; auto: lists if "
            "redis.url is set"
        ),
    ] = "auto"
