"""Lists as PostgreSQL's array literals. A statement of ours carries thousands of values in a few arrays, and
psycopg looks at each value by itself: that was half of the time of a process that settles tasks.

Every array in our queries has a cast (`%s::bigint[]`), which says what its values are.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg.abc import Buffer

_NUMBERS = ({int}, {float}, {int, float}, {bool}, {bool, int})


def encode_array(values: list[Any]) -> str:
    """Raises TypeError for values that none of our columns holds."""
    kinds = set(map(type, values))
    if kinds in _NUMBERS:
        return "{" + str(values)[1:-1] + "}"
    if kinds == {str}:
        joined = '","'.join(values)
        if "\\" not in joined and joined.count('"') == 2 * len(values) - 2:
            return '{"' + joined + '"}'
    return "{" + ",".join(map(_encode, values)) + "}"


def _encode(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    raise TypeError(f"cannot be in an array: {type(value).__name__}")


def build_list_dumper() -> type:
    """For psycopg, which is imported when a database is made."""
    from psycopg.adapt import Dumper

    class ListDumper(Dumper):
        def dump(self, obj: list[Any]) -> "Buffer":
            return encode_array(obj).encode()

    return ListDumper
