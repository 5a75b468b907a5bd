"""Which pictures a page of a PDF shows, and how many pixels they claim; by their headers, nothing is decoded.

Works on the objects of pikepdf, handed in as `Any`. Pictures within forms are found to a fixed depth.
"""

from collections.abc import Collection
from typing import Any

_DEEPEST_FORM = 8


def pixels(stream: Any) -> int:
    if stream.get("/Subtype") != "/Image":
        return 0
    return _side(stream.get("/Width")) * _side(stream.get("/Height"))


def _side(value: Any) -> int:
    """0 for real numbers and other oddities: the decoder judges them."""
    return value if isinstance(value, int) and 0 < value < 1 << 20 else 0


def frames(stream: Any, library: Any) -> bool:
    """Whether it is a form with a picture of its own."""
    if stream.get("/Subtype") != "/Form":
        return False
    inside = _streams(stream.get("/Resources"), library)
    return any(one.get("/Subtype") == "/Image" for one in inside)


def shows(page: Any, wanted: Collection[tuple[int, int]], library: Any) -> bool:
    """Whether one of the wanted objects is among the page's resources, at whatever depth of forms."""
    seen: set[tuple[int, int]] = set()
    level = [_resources(page, library)]
    for _ in range(_DEEPEST_FORM):
        below = []
        for resources in level:
            for one in _streams(resources, library):
                if one.objgen in wanted or any(
                    isinstance(one.get(mask), library.Stream) and one[mask].objgen in wanted
                    for mask in ("/SMask", "/Mask")
                ):
                    return True
                if one.objgen not in seen:
                    seen.add(one.objgen)
                    below.append(one.get("/Resources"))
        level = below
    return False


def _resources(page: Any, library: Any) -> Any:
    """The page's own resources or inherited ones; the tree may contain a cycle."""
    for _ in range(64):
        if isinstance(found := page.get("/Resources"), library.Dictionary):
            return found
        page = page.get("/Parent")
        if not isinstance(page, library.Dictionary):
            return None
    return None


def _streams(resources: Any, library: Any) -> list[Any]:
    found = []
    for kind in ("/XObject", "/Pattern"):
        table = resources.get(kind) if isinstance(resources, library.Dictionary) else None
        if isinstance(table, library.Dictionary):
            found += [one for one in table.values() if isinstance(one, library.Stream)]
    return found
