"""Whether a log (`quire.db-wal`) that a killed process left behind is whole.

SQLite stops reading its log at the first frame whose checksum is wrong and drops the rest without a word.
After a power cut that is right: what follows was never acknowledged. A bit that changes later drops
acknowledged work in the same way. The two differ: every transaction is synchronized before the next begins,
so behind a frame that was only half written no later transaction can stand.

Promise: reports damage in all transactions of the log but the last. Must not know: connections, tables.
"""

import os
from array import array
from operator import mul
from pathlib import Path
from sys import byteorder
from typing import BinaryIO, Literal, NamedTuple

_HEAD_BYTES, _FRAME_BYTES = 32, 24
_MAGIC: dict[int, "Order"] = {0x377F0682: "little", 0x377F0683: "big"}
_MOST_FRAMES = 20_000
_MASK = 0xFFFFFFFF

Sums = tuple[int, int]
Order = Literal["little", "big"]


class _Head(NamedTuple):
    page_bytes: int
    salts: bytes
    order: Order
    sums: Sums


def find_log_damage(log: Path) -> str | None:
    """What is wrong with it, in words. Only for a log whose database no process has open."""
    try:
        with log.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return _examine(stream, size, log.name)
    except FileNotFoundError:
        return None


def _examine(stream: BinaryIO, size: int, name: str) -> str | None:
    if size <= _HEAD_BYTES:
        return None
    head = _read_head(stream.read(_HEAD_BYTES))
    if head is None:
        return f"the beginning of {name} has changed, and with it all that was written last is lost"
    length = _FRAME_BYTES + head.page_bytes
    count = min((size - _HEAD_BYTES) // length, _MOST_FRAMES)
    weights = _Weights(head)
    sums = head.sums
    for number in range(count):
        frame = stream.read(length)
        sums = weights.add_page(frame[_FRAME_BYTES:], _add_pair(frame[:8], sums, head.order))
        stored = int.from_bytes(frame[16:20], "big"), int.from_bytes(frame[20:24], "big")
        if frame[8:16] != head.salts or stored != sums:
            if _has_later_transaction(stream, number, count, length, head.salts):
                return f"{name} has changed in frame {number + 1} of {count}, and later transactions follow"
            return None
    return None


def _read_head(head: bytes) -> _Head | None:
    words = [int.from_bytes(head[place : place + 4], "big") for place in range(0, _HEAD_BYTES, 4)]
    order = _MAGIC.get(words[0])
    if order is None:
        return None
    sums = (0, 0)
    for place in range(0, 24, 8):
        sums = _add_pair(head[place : place + 8], sums, order)
    if sums != (words[6], words[7]) or words[2] not in range(512, 65537):
        return None
    return _Head(words[2], head[16:24], order, sums)


def _add_pair(pair: bytes, sums: Sums, order: Order) -> Sums:
    first = sums[0] + int.from_bytes(pair[:4], order) + sums[1] & _MASK
    return first, sums[1] + int.from_bytes(pair[4:], order) + first & _MASK


class _Weights:
    """SQLite adds one pair of words after the other. As each is only added to what came before, a page's
    share is a sum of products with fixed weights, which Python computes much faster than pair after pair.
    """

    def __init__(self, head: _Head) -> None:
        self._order = head.order
        count = head.page_bytes // 4
        growth = [0, 1]  # of a word in the sums, for each word that follows it
        while len(growth) < count + 2:
            growth.append(growth[-1] + growth[-2] & _MASK)
        self._first = growth[count - 1 :: -1]
        self._second = growth[count:0:-1]
        self._carry = growth[count - 1], growth[count], growth[count + 1]

    def add_page(self, page: bytes, sums: Sums) -> Sums:
        words = array("I", page)
        if self._order != byteorder:
            words.byteswap()
        before, at, after = self._carry
        first = sums[0] * before + sums[1] * at + sum(map(mul, words, self._first))
        second = sums[0] * at + sums[1] * after + sum(map(mul, words, self._second))
        return first & _MASK, second & _MASK


def _has_later_transaction(stream: BinaryIO, number: int, count: int, length: int, salts: bytes) -> bool:
    """Whether a transaction ends at this frame or later, and another one follows it."""
    ended = False
    for place in range(number, count):
        stream.seek(_HEAD_BYTES + place * length)
        frame = stream.read(16)
        if frame[8:16] != salts and place != number:
            return False
        if ended:
            return True
        ended = frame[4:8] != bytes(4)
    return False
