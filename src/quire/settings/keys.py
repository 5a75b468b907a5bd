"""Every setting by its name, for messages, `quire doctor` and the reference page."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from quire.settings.library import SHORT_NAMES
from quire.settings.values import HOME_DEFAULT, PREFIX, QueueSettings, Settings


class Key(NamedTuple):
    """One setting: its name, type, limits and default."""

    name: str
    kind: Any
    limits: Meta
    default: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def description(self) -> str:
        return self.limits.description or ""

    @property
    def wanted(self) -> str:
        if get_origin(self.kind) is Literal:
            return " or ".join(f'"{choice}"' for choice in get_args(self.kind))
        return _WANTED.get(self.kind, "text")


_WANTED: dict[Any, str] = {  # others: text
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
    tuple[float, ...]: "a list of numbers",
    tuple[str, ...]: 'a list of texts, such as ["words.py"]',
}


def show_value(value: object) -> str:
    """A value as it is shown to people, also in the default column of the reference page."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(show_value, value)) or "not set"
    return f"{value:.15g}" if isinstance(value, float) else to_printable(str(value)) or "not set"


def value_of(settings: Settings, name: str) -> Any:
    found: Any = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


def to_printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _keys(table: type[Struct], prefix: str = "") -> Iterator[Key]:
    for one in fields(table):
        if get_origin(one.type) is Annotated:
            kind, limits = get_args(one.type)
            default = HOME_DEFAULT if one.default is NODEFAULT else show_value(one.default)
            yield Key(prefix + one.name, _without_none(kind), limits, default)
        elif isinstance(one.type, type):
            yield from _keys(one.type, f"{one.name}.")


def _without_none(kind: Any) -> Any:
    """The type without None."""
    return (
        next(part for part in get_args(kind) if part is not NoneType) if NoneType in get_args(kind) else kind
    )


KEYS = tuple(_keys(Settings))
BY_NAME = {key.name: key for key in KEYS}
BY_VARIABLE = SHORT_NAMES | {key.variable: key.name for key in KEYS}
# Variables of the published upload client, by the key they stand in for; the first that is set counts.
UPLOAD_FALLBACKS: dict[str, tuple[str, ...]] = {
    "upload.url": ("ARKE_WORKER_URL",),
    "upload.uploader": ("ARKE_UPLOADER",),
    "upload.root_path": ("ARKE_ROOT_PATH",),
    "upload.parent": ("ARKE_PARENT_PI",),
    "upload.metadata": ("ARKE_METADATA",),
    "upload.processing": ("ARKE_PROCESSING",),
    "upload.parallel": ("ARKE_PARALLEL",),
    "upload.parallel_parts": ("ARKE_PARALLEL_PARTS",),
}
QUEUE_KEYS = {key.name: key for key in _keys(QueueSettings)}
TABLES: dict[str, Any] = {one.name: one.type for one in fields(Settings) if isinstance(one.type, type)}
