"""A step that looks at a document's name is given no result of another document with the same bytes."""

from collections.abc import Callable
from typing import Any

import pytest

from quire import Document, Folder, Output, Pipeline
from quire.authoring.fields_read import ALL_FIELDS
from quire.model.step import StepInput, StepOutput


def use(document: Document) -> None: ...


def bytes_only(document: Document) -> Output:
    document.progress(1, 2)
    document.spend(tokens_in=1)
    return Output.bytes(
        "copy", document.bytes() + document.text().encode() + document.path_on_disk.read_bytes()
    )


def reads_name(document: Document) -> str:
    return document.name + document.stem


def reads_some(doc: Document) -> str:
    return f"{doc.path} {doc.content_type} {doc.tags} {doc.config}"


def hands_on(document: Document) -> None:
    use(document)


def renames(document: Document) -> str:
    other = document
    return other.name


def asks_roundabout(document: Document) -> str:
    return getattr(document, "name")  # noqa: B009


def asks_inside(document: Document) -> list[str]:
    return [document.name for _ in range(2)]


async def asks_in_a_function(document: Document) -> str:
    def inner() -> str:
        return document.name

    return inner()


def no_document() -> None: ...


def raw(step_input: StepInput) -> StepOutput: ...


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        (bytes_only, ()),
        (reads_name, ("name",)),
        (reads_some, ("content_type", "path", "processing_config", "tags")),
        (asks_inside, ("name",)),
        (asks_in_a_function, ("name",)),
        (hands_on, ALL_FIELDS),
        (renames, ALL_FIELDS),
        (asks_roundabout, ALL_FIELDS),
        (raw, ALL_FIELDS),
        (no_document, ()),
    ],
)
def test_the_fields_that_a_step_can_see_are_found(function: Callable[..., Any], fields: tuple[str, ...]):
    pipeline = Pipeline("p")
    pipeline.step(function)
    assert pipeline.plan().phases[0].steps[0].cache_by == fields


def test_a_step_without_source_sees_everything():
    names: dict[str, Any] = {"Document": Document}
    exec("def made(document: Document) -> str: return document.text()", names)  # noqa: S102
    pipeline = Pipeline("p")
    pipeline.step(names["made"])
    assert pipeline.plan().phases[0].steps[0].cache_by == ALL_FIELDS


def test_what_is_said_counts():
    pipeline = Pipeline("p")
    pipeline.step(cache_by=["processing_config.language"])(hands_on)
    assert pipeline.plan().phases[0].steps[0].cache_by == ("processing_config.language",)


def test_a_folder_is_known_by_the_list_of_its_members():
    pipeline = Pipeline("p")

    @pipeline.step(unit="folder")
    def overview(folder: Folder) -> list[str]:
        return [document.name for document in folder.documents]

    assert pipeline.plan().phases[0].steps[0].cache_by == ()
