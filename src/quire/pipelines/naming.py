"""Names for files that a phase adds, so that no two files of a list ever have the same path.

The rule must give the same answer whatever the order in which tasks settle, so it looks only at which files
were there before, never at what other tasks have made. A wanted path is *free* when nothing exists that is
that path or whose first page would get it: a file with such a rival takes another name. Paths are compared
case-folded: a list must unpack on any disk.
"""

import hashlib
from collections.abc import Container, Iterable

from quire.model.files import File, sibling, stem_and_extension

_TIFF_EXTENSIONS = (".tif", ".tiff")
_PDF_EXTENSION = ".pdf"
_PAGE_EXTENSIONS = (".jpg", ".pdf")


def jpeg_paths(file: File, pages: int, taken: Container[str]) -> tuple[str, ...]:
    """Where the pages of a TIFF go: `x.jpg`, `x-p002.jpg` …; else `x.tif.jpg` …; else with a mark."""
    for base in _bases(_name(file)):
        names = _page_names(base, pages)
        if not any(rival in taken for rival in _fold(file, _rivals(names))):
            return tuple(sibling(file.path, name) for name in names)
    return tuple(sibling(file.path, name) for name in _page_names(_add_number(file), pages))


def jpeg_rivals(file: File, pages: int) -> tuple[str, ...]:
    """All paths whose existence `jpeg_paths` asks about."""
    names = [name for base in _bases(_name(file)) for name in _page_names(base, pages)]
    return tuple(sibling(file.path, name) for name in dict.fromkeys(_rivals(names)))


def page_bases(file: File, pages: int, taken: Container[str]) -> tuple[str, ...]:
    """How the pages of a PDF are called, without extension: `x-p0001` …; else `x.pdf-p0001` …; else with a
    mark. `.jpg` and `.pdf` are both free.
    """
    for base in _pdf_bases(_name(file)):
        if not any(rival in taken for rival in _fold(file, _pdf_rivals(base, pages))):
            return tuple(sibling(file.path, name) for name in _page_numbers(base, pages))
    return tuple(sibling(file.path, name) for name in _page_numbers(_add_number(file), pages))


def page_rivals(file: File, pages: int) -> tuple[str, ...]:
    """All paths whose existence `page_bases` asks about."""
    names = [name for base in _pdf_bases(_name(file)) for name in _pdf_rivals(base, pages)]
    return tuple(sibling(file.path, name) for name in dict.fromkeys(names))


def beside(file: File, ending: str, taken: Container[str]) -> str:
    """`x.jpg` + `.ref.json`, or with a mark when that path, or the file's own, is another file's too."""
    wanted = file.path + ending
    free = wanted.casefold() not in taken and file.path.casefold() not in taken
    return wanted if free else sibling(file.path, _add_number(file) + ending)


def is_tiff_name(name: str) -> bool:
    return name.lower().endswith(_TIFF_EXTENSIONS)


def is_pdf_name(name: str) -> bool:
    return name.lower().endswith(_PDF_EXTENSION)


def _bases(name: str) -> tuple[str, ...]:
    """A TIFF without its extension has one candidate: its stem may belong to any number of files."""
    stem, extension = stem_and_extension(name)
    return (stem, name) if is_tiff_name(extension) else (name,)


def _page_names(base: str, pages: int) -> list[str]:
    return [f"{base}.jpg", *(f"{base}-p{page:03d}.jpg" for page in range(2, pages + 1))]


def _rivals(names: Iterable[str]) -> list[str]:
    """Every name that is one of `names`, or of a file whose first page may be called so.

    Later pages need no entry: the file with the pages sees the other one and takes another name.
    """
    found: list[str] = []
    for name in names:
        base = name.removesuffix(".jpg")
        found += [name, base, *(base + extension for extension in _TIFF_EXTENSIONS)]
    return found


def _pdf_bases(name: str) -> tuple[str, ...]:
    stem, extension = stem_and_extension(name)
    return (stem, name) if is_pdf_name(extension) else (name,)


def _page_numbers(base: str, pages: int) -> list[str]:
    """No name is made of two bases: what follows the last `-p` is the number."""
    return [f"{base}-p{page:04d}" for page in range(1, pages + 1)]


def _pdf_rivals(base: str, pages: int) -> list[str]:
    """Every name of a page, and of every file with the same base or whose name a page could take."""
    found = [base, base + _PDF_EXTENSION]
    for numbered in _page_numbers(base, pages):
        names = [numbered + extension for extension in _PAGE_EXTENSIONS]
        found += [numbered, *names, *(name + _PDF_EXTENSION for name in names)]
    return found


def _fold(file: File, names: Iterable[str]) -> list[str]:
    return [sibling(file.path, name).casefold() for name in names]


def _name(file: File) -> str:
    return file.path.rpartition("/")[2]


def _add_number(file: File) -> str:
    """The hash of the path distinguishes even files whose names differ in case alone."""
    return f"{_name(file)}.{hashlib.sha256(file.path.encode()).hexdigest()[:12]}"
