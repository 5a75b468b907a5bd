"""Questions about type annotations: what is inside one, and whether a value of one type fits another."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def strip(kind: Any) -> Any:
    """Without `Annotated` around it."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def alternatives(kind: Any) -> Iterator[Any]:
    """The members of a union, or the type itself."""
    kind = strip(kind)
    if get_origin(kind) in {Union, types.UnionType}:
        for one in get_args(kind):
            yield from alternatives(one)
    else:
        yield kind


def allows_none(kind: Any) -> bool:
    return any(one is types.NoneType for one in alternatives(kind))


def unite(kinds: list[Any]) -> Any:
    """The union of types; `Any` of none."""
    return Union[tuple(kinds)] if kinds else Any  # noqa: UP007 - a union of what is in a list


def fits(given: Any, wanted: Any) -> bool:
    """Whether everything of the one type may be given where the other is wanted. Containers are taken as
    read-only: a list of ints fits a `Sequence[float]`, and a `list[float]` too.
    """
    given, wanted = strip(given), strip(wanted)
    if given == wanted or given is Any or wanted is Any or wanted is object:
        return True
    members = list(alternatives(given))
    if len(members) > 1:
        return all(fits(one, wanted) for one in members)
    accepted = list(alternatives(wanted))
    if len(accepted) > 1:
        return any(fits(given, one) for one in accepted)
    if get_origin(given) is Literal:
        return all(_is_literal_of(value, wanted) for value in get_args(given))
    return (given is int and wanted is float) or _is_kind_of(given, wanted)


def _is_literal_of(value: object, wanted: Any) -> bool:
    if get_origin(wanted) is Literal:
        return value in get_args(wanted)
    return fits(type(value), wanted)


def _is_kind_of(given: Any, wanted: Any) -> bool:
    """Whether a class is another one or below it, and what is inside it fits as well."""
    try:
        if not issubclass(get_origin(given) or given, get_origin(wanted) or wanted):
            return False
    except TypeError:  # not classes, or a protocol that cannot be asked
        return False
    inside, needed = _arguments(given), _arguments(wanted)
    if not inside or not needed:
        return True
    return len(inside) == len(needed) and all(map(fits, inside, needed))


def _arguments(kind: Any) -> tuple[Any, ...]:
    found = get_args(kind)
    return found[:1] if len(found) == 2 and found[1] is Ellipsis else found
