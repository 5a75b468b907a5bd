"""The font of invisible text: one glyph for all characters, which a reader knows by their numbers.

Each character that a document uses gets a number in the order of its first use; the table `ToUnicode` says
which character a number is, whatever its script. The glyph is a box, because programs give the place of a
character without an outline as a line without height. Pure, and the same for the same text.
"""

import struct
from functools import cache

UNITS = 1000  # of the font, to the size of a letter
ADVANCE = 500
TALL = 700  # how high the box is: as tall letters are
ASCENT, DESCENT = 800, -200
MOST_CHARACTERS = 0xFFFE
_ENTRIES = 100  # of one block of a character map
_SUM = 0xB1B0AFBA
_HEAD_MAGIC = 0x5F0F3CF5
_MADE = 100 * 365 * 86_400  # seconds since 1904: programs warn of dates before 1970


class Glyphs:
    """The characters of one document."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, text: str) -> bytes:
        """The text as it stands in a content stream. Characters beyond the limit of a font are left out."""
        found = bytearray()
        for letter in text:
            number = self._numbers.get(letter)
            if number is None:
                if len(self._numbers) >= MOST_CHARACTERS:
                    continue
                number = self._numbers[letter] = len(self._numbers) + 1
            found += number.to_bytes(2, "big")
        return bytes(found)

    def to_unicode(self) -> bytes:
        """The map from numbers to characters."""
        lines = [
            "/CIDInit /ProcSet findresource begin",
            "12 dict begin",
            "begincmap",
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
            "/CMapName /Adobe-Identity-UCS def",
            "/CMapType 2 def",
            "1 begincodespacerange",
            "<0000> <FFFF>",
            "endcodespacerange",
        ]
        pairs = [(number, letter) for letter, number in self._numbers.items()]
        for start in range(0, len(pairs), _ENTRIES):
            block = pairs[start : start + _ENTRIES]
            lines.append(f"{len(block)} beginbfchar")
            lines += [
                f"<{number:04X}> <{letter.encode('utf-16-be').hex().upper()}>" for number, letter in block
            ]
            lines.append("endbfchar")
        lines += ["endcmap", "CMapName currentdict /CMap defineresource pop", "end", "end", ""]
        return "\n".join(lines).encode("ascii")

    def to_glyphs(self) -> bytes:
        """The map from numbers to glyphs: every character is the box."""
        return b"\0\0" + b"\0\1" * len(self._numbers)


@cache
def build_font() -> bytes:
    """A TrueType font of two glyphs: none, and the box."""
    box = _build_box()
    tables = {
        b"glyf": box,
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            *(0x00010000, 0x00010000, 0, _HEAD_MAGIC, 0b1011, UNITS, _MADE, _MADE),
            *(0, 0, ADVANCE, TALL, 0, 8, 2, 0, 0),
        ),
        b"hhea": struct.pack(
            ">IhhhHhhhhhh8xhH", 0x00010000, ASCENT, DESCENT, 0, ADVANCE, 0, 0, ADVANCE, 1, 0, 0, 0, 1
        ),
        b"hmtx": struct.pack(">Hhh", ADVANCE, 0, 0),
        b"loca": struct.pack(">HHH", 0, 0, len(box) // 2),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x00010000, 2, 4, 1, *(0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)),
    }
    font = _lay_out(tables)
    at = font.index(struct.pack(">I", _HEAD_MAGIC)) - 4
    return font[:at] + struct.pack(">I", (_SUM - _checksum(font)) & 0xFFFFFFFF) + font[at + 4 :]


def _build_box() -> bytes:
    """A simple glyph: one contour of four points on the curve, with coordinates as differences."""
    head = struct.pack(">hhhhhHH", 1, 0, 0, ADVANCE, TALL, 3, 0)
    corners = struct.pack(">4B", 1, 1, 1, 1)
    across, up = struct.pack(">4h", 0, 0, ADVANCE, 0), struct.pack(">4h", 0, TALL, 0, -TALL)
    box = head + corners + across + up
    return box + b"\0" * (-len(box) % 4)


def _lay_out(tables: dict[bytes, bytes]) -> bytes:
    count = len(tables)
    power = count.bit_length() - 1
    head = struct.pack(">IHHHH", 0x00010000, count, 16 << power, power, 16 * count - (16 << power))
    at = len(head) + 16 * count
    directory, bodies = b"", b""
    for name in sorted(tables):
        body = tables[name]
        padded = body + b"\0" * (-len(body) % 4)
        directory += struct.pack(">4sIII", name, _checksum(padded), at + len(bodies), len(body))
        bodies += padded
    return head + directory + bodies


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (-len(data) % 4)
    return int(sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF)
