"""Ways to damage a file, as disks, networks and programs do; the chance that is passed in decides."""

from random import Random

_ENDS = {"jpeg": b"\xff\xd9", "png": b"\0\0\0\0IEND\xaeB`\x82", "pdf": b"\nstartxref\n0\n%%EOF\n"}


def mutate(whole: bytes, others: list[bytes], kind: str, chance: Random) -> tuple[str, bytes]:
    """What was done, and the damaged bytes. `others` are files of the same kind to splice with."""
    name = chance.choice(list(_WAYS))
    if name == "spliced":
        other = chance.choice(others)
        return name, whole[: chance.randrange(len(whole))] + other[chance.randrange(len(other)) :]
    if name == "cut off with an end":
        return name, whole[: chance.randrange(16, len(whole))] + _ENDS.get(kind, b"\0\0")
    return name, bytes(_WAYS[name](bytearray(whole), chance))


def _flip(content: bytearray, chance: Random) -> bytearray:
    for _ in range(chance.choice((1, 1, 2, 8))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def _zero(content: bytearray, chance: Random) -> bytearray:
    at, length = _block(content, chance, 2000)
    content[at : at + length] = bytes(length)
    return content


def _scramble(content: bytearray, chance: Random) -> bytearray:
    at, length = _block(content, chance, 600)
    content[at : at + length] = chance.randbytes(length)
    return content


def _cut(content: bytearray, chance: Random) -> bytearray:
    return content[: chance.randrange(len(content))]


def _double(content: bytearray, chance: Random) -> bytearray:
    at, length = _block(content, chance, 3000)
    return content[: at + length] + content[at:]


def _remove(content: bytearray, chance: Random) -> bytearray:
    at, length = _block(content, chance, 3000)
    del content[at : at + length]
    return content


def _change_head(content: bytearray, chance: Random) -> bytearray:
    for _ in range(chance.choice((1, 2))):
        content[chance.randrange(min(len(content), 700))] = chance.choice(
            (0, 1, 2, 8, 255, chance.randrange(256))
        )
    return content


def _change_tail(content: bytearray, chance: Random) -> bytearray:
    """Where TIFFs have their directory and PDFs their index."""
    for _ in range(chance.choice((1, 2))):
        at = len(content) - 1 - chance.randrange(min(len(content), 400))
        content[at] = chance.choice((0, 1, 2, 8, 255, chance.randrange(256)))
    return content


def _change_size(content: bytearray, chance: Random) -> bytearray:
    """Another height or width, wherever a number like theirs is stored."""
    number = chance.choice((168, 224))
    changed = int(number * chance.choice((0.5, 2, 10)))
    order = chance.choice(("big", "little"))
    found = content.find(number.to_bytes(2, order))
    if found >= 0:
        content[found : found + 2] = changed.to_bytes(2, order)
    return content


def _block(content: bytearray, chance: Random, most: int) -> tuple[int, int]:
    at = chance.randrange(len(content))
    return at, min(chance.randint(1, most), len(content) - at)


_WAYS = {
    "bits flipped": _flip,
    "zeroed": _zero,
    "scrambled": _scramble,
    "cut off": _cut,
    "cut off with an end": _cut,
    "doubled": _double,
    "removed": _remove,
    "head changed": _change_head,
    "tail changed": _change_tail,
    "size changed": _change_size,
    "spliced": _cut,
}
