"""Reads and writes the pickled call of an RQ job without running anything.

Reading interprets the few opcodes that make tuples, texts, None and dictionaries, and refuses all others:
there is none among them that looks up a class, calls a function or allocates more than the data has bytes.
"""

import pickle
import pickletools
import zlib
from collections.abc import Callable
from typing import Any

from quire.model.errors import Reject

PROTOCOL = 4  # the oldest Python that published workers run on reads it
# A call of one text has some twelve.
_MOST_OPCODES = 1000
_MOST_VALUES = 1000
_UNSET: Any = object()


def write_call(function: str, text: str) -> bytes:
    """Compressed, as RQ stores it: function, no instance, one positional argument, no others."""
    return zlib.compress(pickle.dumps((function, None, (text,), {}), protocol=PROTOCOL))


def read_call(data: bytes, *, max_bytes: int) -> str:
    """The only positional argument. Raises Reject."""
    call = _interpret(_decompress(data, max_bytes))
    if not isinstance(call, tuple) or len(call) != 4:
        raise _refuse("it is no call of a function")
    arguments = call[2]
    if not isinstance(arguments, tuple | list) or len(arguments) != 1 or not isinstance(arguments[0], str):
        raise _refuse("its argument is not one text")
    return arguments[0]


def _decompress(data: bytes, max_bytes: int) -> bytes:
    # The text is pickled and compressed: a little room for what the pickle adds.
    most = max_bytes + 4096
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(data, most)
    except zlib.error:
        plain = data  # RQ also reads jobs that were never compressed
    else:
        if reader.unconsumed_tail or not reader.eof:
            raise _refuse(f"it is damaged, or larger than {max_bytes} bytes")
    if len(plain) > most:
        raise _refuse(f"it is larger than {max_bytes} bytes")
    return plain


class _Machine:
    """The stack and the memo of a pickle. A mark is an entry of its own."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def pop_to_mark(self) -> list[Any]:
        place = self.marks.pop()
        found, self.stack[place:] = self.stack[place:], []
        return found

    def replace(self, number: int, build: Callable[[list[Any]], Any]) -> None:
        if len(self.stack) < number or (self.marks and len(self.stack) - number < self.marks[-1]):
            raise IndexError
        taken = self.stack[len(self.stack) - number :]
        del self.stack[len(self.stack) - number :]
        self.stack.append(build(taken))

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise IndexError
        target.update(_to_dict(pairs))

    def append_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise IndexError
        target.extend(items)


def _interpret(data: bytes) -> Any:
    machine = _Machine()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number > _MOST_OPCODES or len(machine.stack) > _MOST_VALUES:
                raise _refuse("it has too many parts")
            if opcode.name == "STOP":
                return machine.stack.pop() if len(machine.stack) == 1 else _UNSET
            act = _ACTS.get(opcode.name)
            if act is None:
                raise _refuse(f"its pickle has {opcode.name}, which a call with texts does not need")
            act(machine, argument)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _refuse("its pickle is damaged") from error
    raise _refuse("its pickle has no end")


_ACTS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda *_: None),
    "NONE": lambda machine, _: machine.stack.append(None),
    "NEWTRUE": lambda machine, _: machine.stack.append(True),
    "NEWFALSE": lambda machine, _: machine.stack.append(False),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "EMPTY_TUPLE": lambda machine, _: machine.stack.append(()),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "LIST": lambda machine, _: machine.stack.append(machine.pop_to_mark()),
    "DICT": lambda machine, _: machine.stack.append(_to_dict(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.replace(1, tuple),
    "TUPLE2": lambda machine, _: machine.replace(2, tuple),
    "TUPLE3": lambda machine, _: machine.replace(3, tuple),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "SETITEM": lambda machine, _: _set_one(machine),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.append_items([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append_items(machine.pop_to_mark()),
    **dict.fromkeys(
        ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2"),
        lambda machine, argument: machine.stack.append(argument),
    ),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, argument: machine.put(argument)),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"),
        lambda machine, argument: machine.stack.append(machine.memo[argument]),
    ),
}


def _to_dict(values: list[Any]) -> dict[Any, Any]:
    # Names of arguments. Hashing a tuple that holds another one twice, and so on, would take for ever.
    if not all(type(name) is str for name in values[::2]):
        raise TypeError
    return dict(zip(values[::2], values[1::2], strict=True))


def _set_one(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items([key, value])


def _refuse(problem: str) -> Reject:
    return Reject(f"this RQ job is not read: {problem}", code="bad_message")
