"""The answer to "is this tool there, and which version": what a doctor command shows and a worker logs."""

from msgspec import Struct


class Probe(Struct, frozen=True, kw_only=True):
    """`version` None means: not usable, and `advice` says what to do about it."""

    name: str
    version: str | None
    advice: str = ""
