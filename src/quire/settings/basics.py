"""Shared by all tables of settings: secrets, number of cores, descriptions."""

import os
from typing import Any

from msgspec import Meta


class Secret:
    """Never shown by a message, table or repr. Not a Struct: msgspec must not encode it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "set" if self._text else "not set"


def cores() -> int:
    """The cores that this process may use: in a container often fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def about(description: str, **limits: Any) -> Meta:
    return Meta(description=description, **limits)
