"""The result of one check of a tool, a store or a queue backend."""

from msgspec import Struct


class Probe(Struct, frozen=True, kw_only=True):
    """`detail` is what was seen, for a tool its version; `advice` is what to do about a failure, or what it
    means. A failure is a warning if the probe is not `needed`.
    """

    name: str
    ok: bool
    detail: str = ""
    needed: bool = True
    advice: str = ""
    seconds: float = 0.0
