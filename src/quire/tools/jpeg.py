"""Where the coded rows of a JPEG lie. Its header is read, and its bytes are served to a decoder in pieces.

Promises: `left_over` tells how many bytes between the last row and the end marker the decoder never asked
for, which decoders do not report: a header that claims half the height, or damage that made rows from fewer
bytes. The oddities of real writers listed at `_sound_segment` are corrected in the head that is served, so
that whatever a decoder complains about is damage. Decodes no pixel and knows no decoder.
"""

import re
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

_SOI, _EOI, _SOS, _APP0, _APP14 = 0xD8, 0xD9, 0xDA, 0xE0, 0xEE
_SEQUENTIAL = (0xC0, 0xC1)
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_WHOLE_SCAN = b"\x00\x3f\x00"
_LONGEST_PADDING = 64
_LONGEST_HEAD = 16 << 20  # of a header that is corrected: it is held in memory

# Within coded rows 0xFF is followed by zero, by the number of a restart, or by another 0xFF.
_END_OF_ROWS = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_PADDING = re.compile(rb"(?:\xff[\xd0-\xd7])?\xff*\Z")  # the last restart has no rows, and 0xFF may fill up
# The end marker, or a segment that may stand before it.
_AFTER_ROWS = re.compile(rb"(?:\xff[\xd0-\xd7])?\xff+[\xd9\xc4\xdb-\xdd\xe0-\xef\xfe]")
_LOOK_AHEAD = 8  # bytes that a decoder may take before it needs them
_SLOW = 2 * _LOOK_AHEAD  # before the end, bytes are served one by one


class Bytes(Protocol):
    """A file mapped into memory, or bytes."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> bytes: ...


class _Head(Struct, frozen=True):
    """Everything up to the first coded row. `sound` are its bytes without oddities; empty: as they are."""

    length: int
    sound: bytes
    one_scan: bool


class JpegBytes:
    """The bytes of a JPEG as a decoder reads them: a file that can be read and sought."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        head = _read_head(data)
        self._head = head.sound or data[: head.length]
        self._shift = len(self._head) - head.length
        self._length = len(data) + self._shift
        self._end = _end_of_rows(data, head.length) + self._shift if head.one_scan else 0
        self._at = self._furthest = 0

    @property
    def left_over(self) -> bytes:
        """What the decoder never asked for, up to the end of the rows; of several scans it says so itself."""
        first = max(self._furthest - self._shift, 0)
        return self._data[first : self._end - self._shift] if self._end else b""

    @property
    def is_ended(self) -> bool:
        """Whether the rows end as a picture does: decoders that have all rows do not ask what follows."""
        if not self._end:
            return True
        first = self._end - self._shift
        return _AFTER_ROWS.match(self._data[first : first + _LONGEST_PADDING]) is not None

    def release(self) -> None:
        """Give the bytes back; from now on there are none."""
        self._data = self._head = b""

    def read(self, size: int) -> bytes:
        at = self._at
        if at < self._end - _SLOW:
            size = min(size, self._end - _SLOW - at)
        elif at < self._end:
            size = 1
        if at < len(self._head):
            found = self._head[at : at + size]
        else:
            found = self._data[at - self._shift : at - self._shift + size]
        self._at += len(found)
        self._furthest = max(self._furthest, self._at)
        return found

    def seek(self, offset: int, whence: int) -> int:
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at


def is_padding(left_over: bytes) -> bool:
    """Whether nothing is lost when these bytes stay unread: some writers fill up with equal ones."""
    return len(left_over) <= _LOOK_AHEAD or left_over.count(left_over[:1]) == len(left_over)


def _end_of_rows(data: Bytes, start: int) -> int:
    found = _END_OF_ROWS.search(data, start)  # type: ignore[call-overload]
    end: int = found.start() if found else len(data)
    padding = _PADDING.search(data[max(start, end - _LONGEST_PADDING) : end])
    return end - (len(padding[0]) if padding else 0)


def _read_head(data: Bytes) -> _Head:
    segments = [b"\xff\xd8"]
    odd, one_scan, components, end = False, False, 0, 0
    for marker, at, body, skipped in _segments(data):
        if marker in _FRAMES and len(body) > 5:
            one_scan, components = marker in _SEQUENTIAL, body[5]
        if marker == _SOS:
            one_scan = one_scan and body[:1] == bytes([components])
        sound = _sound_segment(marker, body, one_scan)
        odd = odd or skipped or sound != body
        segments.append(bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2) + sound)
        if marker == _SOS:
            end = at + 4 + len(body)
    if not end:
        return _Head(0, b"", one_scan=False)
    return _Head(end, b"".join(segments) if odd and end <= _LONGEST_HEAD else b"", one_scan)


def _segments(data: Bytes) -> Iterator[tuple[int, int, bytes, bool]]:
    """Marker, place, content, and whether bytes that belong to nothing were skipped; up to the first rows."""
    at, skipped = 2, False
    while at + 4 <= len(data):
        first, marker = data[at : at + 2]
        if first != 0xFF or marker in (0x00, 0xFF) or marker in _ALONE:
            skipped = skipped or first != 0xFF or marker == 0x00
            at += 2 if first == 0xFF and marker in _ALONE else 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4])
        if marker in (_SOI, _EOI) or length < 2 or at + 2 + length > len(data):
            return
        yield marker, at, data[at + 4 : at + 2 + length], skipped
        if marker == _SOS:
            return
        at, skipped = at + 2 + length, False


def _sound_segment(marker: int, body: bytes, one_scan: bool) -> bytes:
    """As the standard has it. Decoders read these files rightly and complain about them:

    a JFIF revision other than 1; a colour transform of Adobe that is not defined (they assume the usual one);
    a scan of a sequential picture that claims a part of the coefficients (they read all).
    """
    if marker == _APP0 and body[:5] == b"JFIF\0" and len(body) >= 14 and body[5] != 1:
        return body[:5] + b"\1" + body[6:]
    if marker == _APP14 and body[:5] == b"Adobe" and len(body) >= 12 and body[11] > 2:
        return body[:11] + b"\1" + body[12:]
    if marker == _SOS and one_scan and len(body) > 4:
        return body[:-3] + _WHOLE_SCAN
    return body
