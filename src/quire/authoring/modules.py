"""Imports the modules that pipelines are written in: installed ones by name, files by their path.

A file is imported once, under a name made of its path; the files beside it can be imported from it. What goes
wrong is told with the file and the line.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

from quire.authoring.places import shorten
from quire.model.errors import Misconfigured

_loading: ContextVar[str] = ContextVar("loading", default="")


def is_loading() -> str:
    """The module that is being imported now, here, because a pipeline is in it; empty when there is none."""
    return _loading.get()


def name_of_file(path: Path) -> str:
    """The name of the module that a file is imported as: the same in every process on this machine."""
    mark = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in path.stem)
    return f"_quire_file_{word}_{mark}"


def import_file(path: Path) -> ModuleType:
    """A file of a package is imported as a module of it, any other under a name of its own. Raises
    Misconfigured when there is no such file, or it cannot be imported.
    """
    path = path.resolve()
    if not path.is_file():
        raise Misconfigured(f"there is no file {shorten(str(path))}")
    if (path.parent / "__init__.py").is_file():
        return _import_from_package(path)
    name, where = name_of_file(path), shorten(str(path))
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misconfigured(f"{where} cannot be imported as Python")
    _make_importable(path.parent)
    _check_siblings(path)
    module = importlib.util.module_from_spec(spec)
    with _telling_of(str(path), where):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
    return module


def _import_from_package(path: Path) -> ModuleType:
    names = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    module = import_module_from(".".join(names), folder)
    found = Path(module.__file__ or "").resolve()
    if found != path:
        raise Misconfigured(
            f"{shorten(str(path))} is the module {module.__name__}, but Python finds another one of that "
            f"name at {found}; rename the package, or remove the other one"
        )
    return module


def import_module_from(name: str, folder: Path) -> ModuleType:
    """A module that is installed, or lies in the folder. Raises Misconfigured when it cannot be imported."""
    _make_importable(folder)
    with _telling_of(name, name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise Misconfigured(
                f"there is no module {error.name!r}, neither installed nor in {shorten(str(folder))}; "
                "install it, or name its file: path/to/file.py"
            ) from error


def _make_importable(folder: Path) -> None:
    """At the end: a file beside a pipeline never takes the place of an installed module."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextmanager
def _telling_of(file: str, where: str) -> Iterator[None]:
    """Errors while a module is imported, as Misconfigured with the line that matters."""
    token = _loading.set(where)
    try:
        yield
    except Misconfigured:
        raise
    except SyntaxError as error:
        place = f"{shorten(error.filename or where)}:{error.lineno or 1}"
        raise Misconfigured(f"{place}: {where} cannot be read as Python: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise Misconfigured(_explain(error, file, where)) from error
    finally:
        _loading.reset(token)


def _explain(error: BaseException, file: str, where: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == file] or [
        frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__
    ]
    place = f"{shorten(inside[-1].filename)}:{inside[-1].lineno}" if inside else where
    if isinstance(error, ModuleNotFoundError):
        return f"{place}: {where} imports {error.name!r}, which is not installed here; install it"
    if isinstance(error, ImportError) and "relative import" in str(error):
        return (
            f"{place}: {where} is in no package, so it imports the files beside it by name: `import prompts`"
        )
    if isinstance(error, SystemExit):
        return f'{place}: {where} exits while it is imported; put that below `if __name__ == "__main__":`'
    return f"{place}: {where} cannot be imported: {type(error).__name__}: {error}"


def _check_siblings(path: Path) -> None:
    """A file that imports one beside it must get that one, and not another module of the same name: an old
    version of a pipeline would silently run with the new version's code.
    """
    waiting, seen = [path], {path}
    while waiting:
        for name, line in _list_imports(file := waiting.pop()):
            sibling = _find_sibling(path.parent, name)
            if sibling is None or sibling in seen:
                continue
            seen.add(sibling)
            waiting.append(sibling)
            found = _find_origin(name)
            if found is not None and Path(found).resolve() != sibling:
                raise Misconfigured(
                    f"{shorten(str(file))}:{line}: {name} lies beside it, but Python finds another module of "
                    f"that name at {found}; rename one, or make packages of both and write module:object"
                )


def _list_imports(file: Path) -> Iterator[tuple[str, int]]:
    """The top-level names of what a file imports anywhere; none of a file that cannot be read as Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno


def _find_sibling(folder: Path, name: str) -> Path | None:
    for place in (folder / f"{name}.py", folder / name / "__init__.py"):
        if place.is_file():
            return place.resolve()
    return None


def _find_origin(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin
