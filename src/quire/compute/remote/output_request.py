"""The request of a remote worker that has more outputs than it was given places for, and the answer."""

from typing import Annotated

from msgspec import Meta, Struct

AT_ONCE = 100


class MoreOutputs(Struct, frozen=True, kw_only=True):
    """`roles`: `jpeg-2` is the second page of a TIFF. Without roles: only whether the attempt is current."""

    roles: Annotated[tuple[Annotated[str, Meta(max_length=20)], ...], Meta(max_length=AT_ONCE)] = ()


class OutputPlace(Struct, frozen=True, kw_only=True):
    """`key` is repeated in the callback; `url` accepts one PUT."""

    role: str
    key: str
    url: str


class OutputPlaces(Struct, frozen=True, kw_only=True):
    """`current` false: another attempt has replaced this one, or the batch has ended; stop working."""

    current: bool
    places: tuple[OutputPlace, ...] = ()
