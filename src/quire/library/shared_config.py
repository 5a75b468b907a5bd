"""The settings shared by all tools on a bucket: `registry/config.json`, in the form of the published tools.

Promises: an invalid value is ignored and reported, never obeyed; a value is written in the type of its key;
unknown keys are kept; of two tools that change settings at once both succeed. Must not know: the settings
of this machine.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from quire.library.context import LibraryContext, LibraryRules
from quire.library.protocol import layout
from quire.model.errors import Reject, Retry

_ATTEMPTS = 10
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}


class SharedKey(Struct, frozen=True, kw_only=True):
    """`rule` is the library rule that the key sets to `scale` times its value; "": none."""

    kind: type[int] | type[float] | type[bool]
    least: float = 0
    most: float = 1
    rule: str = ""
    scale: int = 1

    @property
    def expected(self) -> str:
        if self.kind is bool:
            return "true or false"
        return f"a {'whole ' if self.kind is int else ''}number from {self.least:g} to {self.most:g}"


SHARED_KEYS: Mapping[str, SharedKey] = {
    "max_retries": SharedKey(kind=int, least=0, most=1000, rule="max_retries"),
    "heartbeat_interval": SharedKey(kind=float, least=1, most=3600, rule="heartbeat_seconds"),
    "stale_timeout_minutes": SharedKey(kind=float, least=0.1, most=10_080, rule="stale_seconds", scale=60),
    "conversion_timeout": SharedKey(kind=float, least=1, most=604_800, rule="conversion_seconds"),
    "s3_supports_conditional_writes": SharedKey(kind=bool),
}


class SharedConfig(Struct, frozen=True, kw_only=True):
    """The settings in the bucket. `values` are the valid ones; `said` is everything, as it was written."""

    values: dict[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    version: str | None = None


async def read_config(context: LibraryContext) -> SharedConfig:
    """Empty when the bucket has no shared settings."""
    found = await context.objects.read(layout.CONFIG)
    if found is None:
        return SharedConfig()
    try:
        said = msgspec.json.decode(found.body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        problem = f"{layout.CONFIG} in the bucket cannot be read and is ignored"
        return SharedConfig(problems=(problem,), version=found.version)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, kind in SHARED_KEYS.items():
        if name not in said:
            continue
        value = _usable_value(kind, said[name])
        if value is None:
            problems.append(f"{name} in {layout.CONFIG} must be {kind.expected} and is ignored")
        else:
            values[name] = value
    return SharedConfig(values=values, said=said, problems=tuple(problems), version=found.version)


def merge_rules(own: LibraryRules, shared: SharedConfig, explicit: frozenset[str]) -> LibraryRules:
    """The rules in force: those set on this machine (`explicit`), then those of the bucket, then `own`."""
    changes = {
        kind.rule: shared.values[name] * kind.scale
        for name, kind in SHARED_KEYS.items()
        if kind.rule and name in shared.values and kind.rule not in explicit
    }
    rules = structs.replace(own, **changes)
    # A worker that is silent too long loses its job: three heartbeats must fit into that time.
    return structs.replace(
        rules, heartbeat_seconds=min(rules.heartbeat_seconds, max(1.0, rules.stale_seconds / 3))
    )


async def change_config(context: LibraryContext, words: Mapping[str, str]) -> SharedConfig:
    """Set these keys. Raises Reject for an invalid value, and changes nothing then."""
    wanted = {name: parse_value(name, text) for name, text in words.items()}
    for _ in range(_ATTEMPTS):
        now = await read_config(context)
        if now.version is not None and now.problems and not now.said:
            raise Reject(f"{now.problems[0]}: delete or repair that object first.", code="bad_config")
        body = msgspec.json.encode({**now.said, **wanted})
        if now.version is None:
            written = await context.objects.create(layout.CONFIG, body)
        else:
            written = await context.objects.swap(layout.CONFIG, body, now.version)
        if written is not None:
            return await read_config(context)
    raise Retry("The shared settings keep changing; nothing was set. Try again.")


def parse_value(name: str, text: str) -> int | float | bool:
    """Parse by the type of the key: `1` is a number where the key is one. Raises Reject."""
    kind = SHARED_KEYS.get(name)
    if kind is None:
        known = ", ".join(SHARED_KEYS)
        raise Reject(f"Unknown shared setting {name[:80]!r}; choose from {known}.", code="bad_config")
    word = text.strip().lower()
    value: Any = _WORDS.get(word) if kind.kind is bool else _parse_number(word)
    if kind.kind is not bool and isinstance(value, float) and value.is_integer():
        value = int(value)  # published tools read_config whole numbers
    if value is None or _usable_value(kind, value) is None:
        raise Reject(f"{name} must be {kind.expected}, got {text[:80]!r}.", code="bad_config")
    return value  # type: ignore[no-any-return]


def _parse_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _usable_value(kind: SharedKey, value: object) -> Any:
    """None: the value is not valid."""
    if kind.kind is bool:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        # The published command stored `1` as true, and counted with it as with one.
        return int(value) if kind.kind is int else None
    if not isinstance(value, int | float) or not kind.least <= value <= kind.most:
        return None
    if kind.kind is float:
        return value
    return int(value) if float(value).is_integer() else None
