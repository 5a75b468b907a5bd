"""Documents and folders, as steps are given them.

A step changes nothing here: what it makes, it returns. Bytes are read when they are asked for; those of a
folder's documents are fetched one by one, which takes time: an `async def` step does that in a thread, with
`await asyncio.to_thread(document.bytes)`.
"""

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, overload

from quire.authoring.known_steps import NO_DEFAULT, GivenValues, KnownSteps, StepName
from quire.authoring.outputs import Result
from quire.model.cost import Money
from quire.model.files import File, stem_and_extension
from quire.model.step import StepInput
from quire.model.work import EarlierResult, MemberFile, Value

T = TypeVar("T")
D = TypeVar("D")


class TaskInput:
    """What documents and folders have in common: a folder to work in, and the meter of the attempt."""

    def __init__(self, step_input: StepInput) -> None:
        self._input = step_input

    @property
    def scratch(self) -> Path:
        """An empty folder for files in the making, removed when the step has ended."""
        return self._input.folder

    @property
    def task(self) -> str:
        """The token of this task, for a step that returns `External`: whoever is given it can complete the
        task, once. Put it into the request; it is valid for this try alone.
        """
        return self._input.task

    def progress(self, done: int = 0, total: int = 0) -> None:
        """Show people how far the step is, and that it is alive. May be called as often as you like."""
        self._input.meter.progress(done, total)

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        """Add to the cost of this attempt, which counts even if the step fails afterwards."""
        self._input.meter.spend(tokens_in=tokens_in, tokens_out=tokens_out, money=money)


class HasValues:
    """Gives the values of earlier steps, typed by what their functions return."""

    def __init__(self, values: GivenValues) -> None:
        self._values = values

    @overload
    def value(self, step: Callable[..., Coroutine[Any, Any, Result[T]]], default: D = ...) -> T | D: ...
    @overload
    def value(self, step: Callable[..., Coroutine[Any, Any, T]], default: D = ...) -> T | D: ...
    @overload
    def value(self, step: Callable[..., Result[T]], default: D = ...) -> T | D: ...
    @overload
    def value(self, step: Callable[..., T], default: D = ...) -> T | D: ...
    @overload
    def value(self, step: str, default: Any = ...) -> Any: ...
    def value(self, step: StepName, default: Any = NO_DEFAULT) -> Any:
        """What an earlier step gave: `document.value(line_edit)`. If it gave nothing (it failed, or did not
        take the document), the default; without one this step is refused as `input_missing`.
        """
        return self._values.get(step, default)

    @overload
    def values(self, step: Callable[..., Coroutine[Any, Any, Result[T]]]) -> dict[str, T]: ...
    @overload
    def values(self, step: Callable[..., Coroutine[Any, Any, T]]) -> dict[str, T]: ...
    @overload
    def values(self, step: Callable[..., Result[T]]) -> dict[str, T]: ...
    @overload
    def values(self, step: Callable[..., T]) -> dict[str, T]: ...
    @overload
    def values(self, step: str) -> dict[str, Any]: ...
    def values(self, step: StepName) -> dict[str, Any]:
        """What a step with `each` gave, by name: those that are there."""
        return self._values.get_all(step)


class Document(TaskInput, HasValues):
    """A file on its way through a pipeline."""

    def __init__(self, file: File, step_input: StepInput, values: GivenValues) -> None:
        TaskInput.__init__(self, step_input)
        HasValues.__init__(self, values)
        self._file = file

    @property
    def name(self) -> str:
        """`letter.txt`"""
        return self._file.name

    @property
    def stem(self) -> str:
        """`letter`"""
        return stem_and_extension(self._file.name)[0]

    @property
    def path(self) -> str:
        """Where it lies in the collection, with forward slashes: `1912/letter.txt`"""
        return to_collection_path(self._file.path)

    @property
    def content_type(self) -> str:
        return self._file.content_type

    @property
    def size(self) -> int:
        """In bytes."""
        return self._file.size

    @property
    def tags(self) -> tuple[str, ...]:
        return self._file.tags

    @property
    def config(self) -> Mapping[str, Any]:
        """The `processing_config` that came with the file."""
        return MappingProxyType(self._file.processing_config)

    @property
    def path_on_disk(self) -> Path:
        """A local copy to read, under a name of its own; it must not be changed."""
        if self._file is self._input.file:
            return self._input.source
        return self._input.fetch(self._file)

    def bytes(self) -> bytes:
        return self.path_on_disk.read_bytes()

    def text(self, encoding: str = "utf-8") -> str:
        """Raises UnicodeDecodeError when it is another encoding, or no text."""
        return self.bytes().decode(encoding)

    def __repr__(self) -> str:
        return f"Document({self.path!r})"


class Subfolder(HasValues):
    """A folder right below, with what the same step gave for it."""

    def __init__(self, path: str, values: GivenValues) -> None:
        super().__init__(values)
        self._path = to_collection_path(path)

    @property
    def path(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def __repr__(self) -> str:
        return f"Subfolder({self._path!r})"


class Folder(TaskInput):
    """A folder of the collection, or with `unit="batch"` all of it."""

    def __init__(
        self,
        path: str,
        documents: tuple[Document, ...],
        folders: tuple[Subfolder, ...],
        step_input: StepInput,
    ) -> None:
        super().__init__(step_input)
        self._path = to_collection_path(path)
        self._documents = documents
        self._folders = folders

    @property
    def path(self) -> str:
        """Where it lies in the collection; empty at the top."""
        return self._path

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def documents(self) -> tuple[Document, ...]:
        """Those of the folder itself that the step accepts, by path; those of the folders below have been in
        the tasks of their own folders. A document that an earlier step has stopped is not among them.
        """
        return self._documents

    @property
    def folders(self) -> tuple[Subfolder, ...]:
        """The folders right below whose tasks have succeeded, by path."""
        return self._folders

    def __repr__(self) -> str:
        return f"Folder({self._path!r})"


def to_collection_path(path: str) -> str:
    """As steps see it: paths of uploads begin with a slash, those of folders on disk do not."""
    return path.removeprefix("/")


def build_document(step_input: StepInput, steps: KnownSteps) -> Document:
    """The document of a step on a file. Its values are those that the step takes as parameters."""
    given = {name: Value(data=data) for name, data in step_input.values.items()}
    file = step_input.file
    return Document(file, step_input, GivenValues(steps, given, step_input.resolve, file.path))


def build_folder(step_input: StepInput, steps: KnownSteps, step_name: str) -> Folder:
    """The folder of a step on folders or on the batch. `step_name` is that of its results."""
    documents = tuple(_build_member(member, step_input, steps) for member in step_input.members)
    folders = tuple(_build_subfolder(one, step_input, steps, step_name) for one in step_input.earlier)
    return Folder(step_input.file.path, documents, folders, step_input)


def _build_member(member: File, step_input: StepInput, steps: KnownSteps) -> Document:
    given = member.values if isinstance(member, MemberFile) else {}
    return Document(member, step_input, GivenValues(steps, given, step_input.resolve, member.path))


def _build_subfolder(
    earlier: EarlierResult, step_input: StepInput, steps: KnownSteps, step_name: str
) -> Subfolder:
    value = earlier.result.value
    given = {} if value is None else {step_name: value}
    return Subfolder(
        earlier.path, GivenValues(steps, given, step_input.resolve, f"the folder {earlier.path!r}")
    )
