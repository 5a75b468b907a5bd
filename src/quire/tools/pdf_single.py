"""Prepares a page that becomes a PDF of its own.

Kept: layers (without them a hidden one would show) and the page's share of the form fields. Removed: scripts,
actions other than links, attached files, and the fields of other pages. Works on the objects of pikepdf,
handed in as `Any`; opens and writes nothing.
"""

from collections.abc import Iterator
from typing import Any

_UNWANTED = ("/AA", "/AF")  # actions that happen by themselves; attached files
_HARMLESS = {"/URI", "/GoTo"}
_DEEPEST_FIELD = 32


def quieten(page: Any, library: Any) -> None:
    _drop(page, *_UNWANTED)
    for annotation in _annotations(page, library):
        _drop(annotation, *_UNWANTED)
        if annotation.get("/Subtype") == "/FileAttachment":
            _drop(annotation, "/FS")
        action = annotation.get("/A")
        if not isinstance(action, library.Dictionary) or str(action.get("/S")) not in _HARMLESS:
            _drop(annotation, "/A")
        else:
            _drop(action, "/Next")


def copy_layers(source: Any, single: Any, library: Any) -> None:
    layers = source.Root.get("/OCProperties")
    if isinstance(layers, library.Dictionary):
        single.Root.OCProperties = single.copy_foreign(source.make_indirect(layers))


def copy_fields(source: Any, single: Any, library: Any) -> None:
    """The fields whose boxes are on the page, each with these boxes alone."""
    roots: dict[tuple[int, int], Any] = {}
    cleared: set[tuple[int, int]] = set()
    for annotation in _annotations(single.pages[0].obj, library):
        if annotation.get("/Subtype") != "/Widget" or not annotation.is_indirect:
            continue
        below = annotation
        for field in _above(annotation, library):
            if field.objgen not in cleared:
                cleared.add(field.objgen)
                _drop(field, *_UNWANTED, "/A")
                field.Kids = library.Array()
            if below.objgen not in {kid.objgen for kid in field.Kids}:
                field.Kids.append(below)
            below = field
        roots[below.objgen] = below
    if roots:
        form = library.Dictionary(Fields=library.Array(list(roots.values())))
        known = source.Root.get("/AcroForm")
        for name in ("/DR", "/DA", "/Q", "/NeedAppearances"):
            if isinstance(known, library.Dictionary) and name in known:
                form[name] = _copy(known[name], source, single, library)
        single.Root.AcroForm = form


def _copy(value: Any, source: Any, single: Any, library: Any) -> Any:
    return (
        single.copy_foreign(source.make_indirect(value)) if isinstance(value, library.Dictionary) else value
    )


def _above(annotation: Any, library: Any) -> Iterator[Any]:
    """The fields above a box, from the nearest to the root. A document may contain a cycle of them."""
    seen: set[tuple[int, int]] = set()
    field = annotation.get("/Parent")
    for _ in range(_DEEPEST_FIELD):
        if not isinstance(field, library.Dictionary) or not field.is_indirect or field.objgen in seen:
            return
        seen.add(field.objgen)
        yield field
        field = field.get("/Parent")


def _annotations(page: Any, library: Any) -> Iterator[Any]:
    found = page.get("/Annots")
    if isinstance(found, library.Array):
        yield from (one for one in found if isinstance(one, library.Dictionary))


def _drop(table: Any, *names: str) -> None:
    for name in names:
        if name in table:
            del table[name]
