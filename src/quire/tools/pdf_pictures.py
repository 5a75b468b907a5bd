"""Which pictures a page of a PDF shows, and how many pixels they claim; by their headers, nothing is decoded.

Works on the objects of pikepdf, handed in as `Any`. Pictures within forms are found to a fixed depth.
"""

from collections.abc import Collection, Iterator
from typing import Any

_DEEPEST_FORM = 8
_DEEPEST_RESOURCE = 24  # of dictionaries within each other
_ELSEWHERE = frozenset({"/Parent", "/StructParent", "/OC", "/Dest"})  # lead out of what is drawn


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


def shown_streams(page: Any, library: Any, seen: set[tuple[int, int]]) -> Iterator[Any]:
    """The content of a page and all that it is drawn with: pictures, forms, fonts, profiles. Without those
    that were seen before, and to a fixed depth.
    """
    level = [page.get("/Contents"), _resources(page, library)]
    for _ in range(_DEEPEST_RESOURCE):
        below: list[Any] = []
        for one in level:
            if not isinstance(one, library.Object) or one.objgen in seen:
                continue
            if one.is_indirect:
                seen.add(one.objgen)
            if isinstance(one, library.Array):
                below += list(one)
            elif isinstance(one, library.Dictionary | library.Stream):
                below += [value for key, value in one.items() if key not in _ELSEWHERE]
            if isinstance(one, library.Stream):
                yield one
        level = below


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
