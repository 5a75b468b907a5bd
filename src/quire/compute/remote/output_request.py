"""What a remote worker asks for when it finds more outputs than it was given places for, and the answer."""

from typing import Annotated

from msgspec import Meta, Struct

AT_ONCE = 100


class MoreOutputs(Struct, frozen=True, kw_only=True):
    """`roles`: `jpeg-2` is the second page of a TIFF. None: only whether the attempt still counts."""

    roles: Annotated[tuple[Annotated[str, Meta(max_length=20)], ...], Meta(max_length=AT_ONCE)] = ()


class OutputPlace(Struct, frozen=True, kw_only=True):
    """`key` is said again in the callback; `url` takes one PUT."""

    role: str
    key: str
    url: str


class OutputPlaces(Struct, frozen=True, kw_only=True):
    """`current` false: another attempt has taken its place, or the batch has ended; nothing is to be done."""

    current: bool
    places: tuple[OutputPlace, ...] = ()
