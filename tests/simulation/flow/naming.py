"""How the model names outputs: a reading of the rules that looks at every input, one after the other.

A name depends on the inputs of the batch and on the lineage of the output, never on other results. The one
exception is what the same document was given before: a document has each name once.
"""

import hashlib
import unicodedata
from collections.abc import Sequence

from quire.model.files import Change, File, Product
from quire.model.plan import Plan, PlanStep, PlanUnit

MARK_DIGITS = 12
Lineage = tuple[str, ...]  # the input's path (or the folder's), then `step/ordinal` of each generation


def fold(path: str) -> str:
    """Equal for paths that some file system cannot tell apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def folder_path(path: str) -> str:
    """The folder of a path; the top is empty."""
    return path.rpartition("/")[0]


def join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def extension_of(path: str) -> str:
    """`a/p1.tif` → `.tif`; a leading dot does not begin an extension."""
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return dot + extension if stem else ""


def mark_of(lineage: Lineage) -> str:
    return hashlib.sha256("\n".join(lineage).encode()).hexdigest()[:MARK_DIGITS]


def ancestors_of(folder: str) -> list[str]:
    """The folder itself and all above it, the top last."""
    found = [folder]
    while found[-1]:
        found.append(folder_path(found[-1]))
    return found


class Namer:
    """Names the outputs of one batch."""

    def __init__(self, inputs: Sequence[File], plan: Plan) -> None:
        self._inputs = inputs
        self._folders = {place for file in inputs for place in ancestors_of(folder_path(file.path))}
        self._file_steps = [
            step for phase in plan.phases if phase.unit is PlanUnit.FILE for step in phase.steps
        ]

    def name_of_document_output(
        self,
        product: Product,
        *,
        path: str,
        is_input: bool,
        root: str,
        step: PlanStep,
        lineage: Lineage,
        used: set[str],
    ) -> str:
        """`path`: of the document; `root`: of the input it comes from; `lineage`: of the output; `used`:
        folded names that the document's line has given before.
        """
        folder = folder_path(path)
        preferred = join_path(folder, product.preferred)
        if (
            is_input
            and _is_preferable(product.preferred, path, step)
            and (fold(preferred) != fold(path) or product.change is Change.REPLACE)
            and fold(preferred) not in used
            and self._is_short_name_free(preferred, folder, root)
            and self._is_alone(path, root)
        ):
            return preferred
        plain = f"{path}.{product.name}"
        if fold(plain) not in used and self._is_long_name_free(plain, path, root):
            return plain
        return f"{path}.{mark_of(lineage)}.{product.name}"

    def name_of_unit_output(self, product: Product, *, folder: str, lineage: Lineage, used: set[str]) -> str:
        """Of a folder's task; of the batch's with the top folder."""
        plain = join_path(folder, product.name)
        twin = any(fold(other) == fold(folder) for other in self._folders if other != folder)
        if not twin and fold(plain) not in used and self._is_short_name_free(plain, folder, root=None):
            return plain
        return join_path(folder, f"{mark_of(lineage)}.{product.name}")

    def _is_short_name_free(self, name: str, folder: str, root: str | None) -> bool:
        """No other input is called so, or so up to a dot or a dash, or could make a file of that name."""
        if self._is_folder(name):
            return False
        for file in self._inputs:
            if file.path == root or fold(folder_path(file.path)) != fold(folder):
                continue
            if fold(file.path) == fold(name) or _extends(name, file.path, ".-"):
                return False
            for extension in self._renamed_extensions(file):
                if _extends(name, file.path[: len(file.path) - len(extension)], ".-"):
                    return False
        return True

    def _is_long_name_free(self, name: str, path: str, root: str) -> bool:
        """No other input is called so, or so up to a dot behind the document's own path."""
        if self._is_folder(name) or not self._is_alone(path, root):
            return False
        for file in self._inputs:
            if file.path == root:
                continue
            if fold(file.path) == fold(name):
                return False
            if _extends(name, file.path, ".") and len(fold(file.path)) > len(fold(path)):
                return False
        return True

    def _is_alone(self, path: str, root: str) -> bool:
        return not any(fold(file.path) == fold(path) for file in self._inputs if file.path != root)

    def _is_folder(self, name: str) -> bool:
        return any(fold(folder) == fold(name) for folder in self._folders if folder)

    def _renamed_extensions(self, file: File) -> set[str]:
        """Extensions of this input that some step would replace."""
        return {
            extension
            for step in self._file_steps
            if step.accepts.may_take(file.name)
            for extension in step.renames
            if file.path.casefold().endswith(extension.casefold())
        }


def _extends(name: str, beginning: str, marks: str) -> bool:
    """Whether a name goes on behind this beginning with one of these marks."""
    whole, part = fold(name), fold(beginning)
    return whole.startswith(part) and whole[len(part) : len(part) + 1] in tuple(marks)


def _is_preferable(preferred: str, path: str, step: PlanStep) -> bool:
    """A plain name that begins like the document's, which has an extension that the step replaces."""
    extension = extension_of(path)
    if not extension or "/" in preferred:
        return False
    if extension.casefold() not in {one.casefold() for one in step.renames}:
        return False
    return _extends(preferred, path.rpartition("/")[2].removesuffix(extension), ".-")
