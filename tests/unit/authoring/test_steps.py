"""Functions as workers run them: what they are given, and what becomes of what they return."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quire import Document, External, Folder, Output, Pipeline, Reject, Result, TryLater
from quire.authoring.returned import OUTPUTS_FOLDER
from quire.model.files import Change, File
from quire.model.step import Step, StepInput, StepOutput
from quire.model.work import EarlierResult, MemberFile, StepResult, Value


class Notes(msgspec.Struct):
    score: float


@pytest.fixture
def letter(tmp_path: Path) -> StepInput:
    return make_input(tmp_path)


def make_input(tmp_path: Path, **changes: Any) -> StepInput:
    source = tmp_path / "source"
    source.write_bytes(b"so many w\xc3\xb6rds")
    folder = tmp_path / "scratch"
    folder.mkdir()
    file = File(
        key="cas/1",
        path="1912/letter.txt",
        name="letter.txt",
        size=15,
        content_type="text/plain",
        tags=("old",),
        processing_config={"language": "en"},
    )
    return StepInput(**({"file": file, "source": source, "folder": folder} | changes))


def step_of(function: Callable[..., Any], *before: Callable[..., Any], **options: Any) -> Step:
    pipeline = Pipeline("p")
    for earlier in before:
        pipeline.step(earlier)
    pipeline.step(**options)(function)
    return pipeline.steps()[f"p.{function.__name__}"]


def run(function: Callable[..., Any], step_input: StepInput, *before: Any, **options: Any) -> StepOutput:
    return step_of(function, *before, **options).run(step_input)


def line_edit(document: Document) -> Notes: ...


def test_a_document_shows_its_record_and_its_bytes(letter: StepInput):
    seen: list[Document] = []

    def look(document: Document) -> None:
        seen.append(document)

    assert run(look, letter) == StepOutput()
    (document,) = seen
    assert (document.name, document.stem, document.path) == ("letter.txt", "letter", "1912/letter.txt")
    assert (document.content_type, document.size, document.tags) == ("text/plain", 15, ("old",))
    assert dict(document.config) == {"language": "en"}
    with pytest.raises(TypeError):
        document.config["language"] = "de"  # type: ignore[index]
    assert document.bytes() == b"so many w\xc3\xb6rds"
    assert document.text() == "so many wörds"
    assert document.text("latin-1") == "so many wÃ¶rds"
    assert (document.path_on_disk, document.scratch) == (letter.source, letter.folder)
    assert repr(document) == "Document('1912/letter.txt')"


def test_progress_and_cost_reach_the_meter(tmp_path: Path):
    class Meter:
        def __init__(self) -> None:
            self.said: list[tuple] = []

        def progress(self, done: int = 0, total: int = 0) -> None:
            self.said.append((done, total))

        def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Any = 0.0) -> None:
            self.said.append((tokens_in, tokens_out, money))

    def work(document: Document) -> None:
        document.progress(1, 3)
        document.spend(tokens_in=5, tokens_out=2, money="0.1")

    meter = Meter()
    run(work, make_input(tmp_path, meter=meter))
    assert meter.said == [(1, 3), (5, 2, "0.1")]


def test_an_output_is_written_into_the_scratch_folder(letter: StepInput):
    def count(document: Document) -> Output:
        return Output.json(
            "words.json", {"words": 3}, change="join", tags=["count"], preferred="x.json", facts={"n": 1}
        )

    (file,) = run(count, letter).files
    assert file.path.read_bytes() == b'{"words":3}\n'
    assert file.path.parent.parent == letter.folder
    assert (file.name, file.role, file.content_type) == ("words.json", "words.json", "application/json")
    assert (file.change, file.tags, file.preferred, file.facts) == (
        Change.JOIN,
        ("count",),
        "x.json",
        {"n": 1},
    )


def test_several_outputs_keep_their_order(letter: StepInput):
    def listed(document: Document) -> list[Output]:
        return [Output.text("a.txt", "a"), Output.text("b.txt", "b", role="second")]

    def yielded(document: Document) -> Iterator[Output]:
        yield Output.text("a.txt", "a")
        assert (document.scratch / OUTPUTS_FOLDER / "0").read_text() == "a", "written before the next is made"
        yield Output.text("b.txt", "b", role="second")

    def paired(document: Document) -> tuple[Output, Output]:
        first, second = listed(document)
        return first, second

    for function in (listed, yielded, paired):
        files = run(function, letter).files
        assert [(file.name, file.role, file.path.read_text()) for file in files] == [
            ("a.txt", "a.txt", "a"),
            ("b.txt", "second", "b"),
        ]


def test_files_of_the_scratch_folder_stay_and_others_are_copied(letter: StepInput, tmp_path: Path):
    (tmp_path / "elsewhere.bin").write_bytes(b"else")

    def make(document: Document) -> list[Output]:
        own = document.scratch / "own.bin"
        own.write_bytes(b"own")
        (document.scratch / "link.bin").symlink_to(own)
        return [
            Output.file(own),
            Output.file(own, "again.bin"),
            Output.file(tmp_path / "elsewhere.bin"),
            Output.file(document.scratch / "link.bin"),
            Output.file(document.path_on_disk, "copy.txt"),
        ]

    files = run(make, letter).files
    assert files[0].path == letter.folder / "own.bin"
    assert [file.path.read_bytes() for file in files[1:4]] == [b"own", b"else", b"own"]
    assert files[4].path != letter.source
    assert len({file.path for file in files}) == 5
    assert not any(file.path.is_symlink() for file in files)


@pytest.mark.parametrize("name", ["missing.bin", ""])
def test_an_output_without_a_file_is_refused(letter: StepInput, name: str):
    def make(document: Document) -> Output:
        return Output.file(document.scratch / name, "out.bin")

    with pytest.raises(
        Reject, match=r"make \(.*test_steps\.py:\d+\) returned the output 'out.bin', but there"
    ):
        run(make, letter)


def test_a_value_becomes_plain_data(letter: StepInput):
    def rate(document: Document) -> Notes:
        return Notes(0.5)

    def rate_and_write(document: Document) -> Result[Notes]:
        return Result(Notes(0.5), Output.text("a.txt", "a"), tags=("rated",), facts={"n": 1})

    def only_tags(document: Document) -> Result[None]:
        return Result(None, tags=("seen",))

    assert run(rate, letter) == StepOutput(value={"score": 0.5})
    both = run(rate_and_write, letter)
    assert (both.value, both.tags, both.facts, len(both.files)) == ({"score": 0.5}, ("rated",), {"n": 1}, 1)
    assert run(only_tags, letter) == StepOutput(tags=("seen",))


def test_a_list_that_is_a_value_is_no_list_of_outputs(letter: StepInput):
    def words(document: Document) -> list[str]:
        return document.text().split()

    def either(document: Document) -> list[Output] | list[str]:
        return ["a"]

    def none_at_all(document: Document) -> list[Output]:
        return []

    assert run(words, letter).value == ["so", "many", "wörds"]
    assert run(either, letter).value == ["a"]
    assert run(none_at_all, letter) == StepOutput()


def test_the_request_to_somebody_outside_is_passed_on(letter: StepInput):
    def ask(document: Document) -> Notes | External:
        return External({"path": document.path}, queue="jobs", within=60)

    request = run(ask, letter).external
    assert request is not None
    assert (request.queue, request.body) == ("jobs", b'{"path":"1912/letter.txt"}')


def returns_number(document: Document) -> Notes:
    return 3  # type: ignore[return-value]


def returns_other(document: Document) -> Output:
    return {"a": 1}  # type: ignore[return-value]


def returns_mixed(document: Document) -> list[Output]:
    return [Output.text("a.txt", "a"), "b"]  # type: ignore[list-item]


def returns_text(document: Document) -> None:
    return "text"  # type: ignore[return-value]


def returns_wrong_result(document: Document) -> Result[Notes]:
    return Result(Notes("high"))  # type: ignore[arg-type]


def returns_nan(document: Document) -> Notes:
    return Notes(float("nan"))


def returns_outputs_of_nothing(document: Document) -> Result[Notes]:
    return Result(Notes(1.0), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [
        returns_number,
        returns_other,
        returns_mixed,
        returns_text,
        returns_wrong_result,
        returns_nan,
        returns_outputs_of_nothing,
    ],
)
def test_what_is_not_as_annotated_is_refused_with_its_place(function: Callable[..., Any], letter: StepInput):
    with pytest.raises(Reject, match=rf"{function.__name__} \(.*test_steps\.py:\d+\) returned") as caught:
        run(function, letter)
    assert caught.value.code == "bad_result"


def test_earlier_values_are_given_by_name_and_type(tmp_path: Path):
    seen: list[Any] = []

    def later(document: Document, line_edit: Notes) -> None:
        seen.append((line_edit, document.value(line_edit_function), document.value("line_edit")))

    line_edit_function = line_edit
    run(later, make_input(tmp_path, values={"line_edit": {"score": 0.5}}), line_edit)
    assert seen == [(Notes(0.5), Notes(0.5), Notes(0.5))]


def test_a_missing_value_is_the_default_or_none(letter: StepInput):
    seen: list[Any] = []

    def with_default(line_edit: Notes = Notes(9.0)) -> None:  # noqa: B008
        seen.append(line_edit)

    def optional(line_edit: Notes | None) -> None:
        seen.append(line_edit)

    run(with_default, letter, line_edit)
    run(optional, letter, line_edit)
    assert seen == [Notes(9.0), None]


def test_the_values_of_branches_are_a_mapping_of_those_that_are_there(tmp_path: Path):
    seen: list[Any] = []
    pipeline = Pipeline("p")

    @pipeline.step(each={"agent": ["a", "b", "c"]})
    def notes(document: Document, agent: str) -> Notes:
        return Notes(float(len(agent)))

    @pipeline.step
    def collect(document: Document, notes: dict[str, Notes]) -> None:
        seen.append((notes, document.values("notes")))

    values = {"notes.a": {"score": 1}, "notes.c": {"score": 3}}
    pipeline.steps()["p.collect"].run(make_input(tmp_path, values=values))
    there = {"a": Notes(1.0), "c": Notes(3.0)}
    assert seen == [(there, there)]


def test_the_name_of_the_branch_and_fixed_options_are_given(tmp_path: Path):
    def asset(document: Document, agent: str, quality: int) -> Result[str]:
        return Result(f"{agent} {quality}")

    given = make_input(tmp_path, options={"agent": "blurb", "quality": 80})
    made = run(asset, given, each={"agent": ["blurb"]}, options={"quality": 80})
    assert made.value == "blurb 80"


def test_a_value_of_another_type_is_refused(tmp_path: Path):
    def later(line_edit: Notes) -> None: ...

    with pytest.raises(Reject, match="the value of line_edit is no Notes") as caught:
        run(later, make_input(tmp_path, values={"line_edit": {"score": "high"}}), line_edit)
    assert caught.value.code == "bad_value"


def test_a_coroutine_runs_in_a_loop_or_alone(letter: StepInput):
    async def count(document: Document) -> Result[int]:
        await asyncio.sleep(0)
        words = len(document.text().split())
        return Result(words, Output.text("n.txt", str(words)))

    step = step_of(count)
    assert step.run_async is not None

    async def run_in_loop() -> StepOutput:
        assert step.run_async is not None
        return await step.run_async(letter)

    for made in (asyncio.run(run_in_loop()), step.run(letter)):
        assert made.value == 3
        assert made.files[0].path.read_text() == "3"


@pytest.mark.parametrize("error", [Reject("never"), TryLater(3), KeyError("a")])
def test_what_a_function_raises_is_raised(letter: StepInput, error: Exception):
    def fail(document: Document) -> None:
        raise error

    async def fail_later(document: Document) -> None:
        raise error

    for function in (fail, fail_later):
        with pytest.raises(type(error)) as caught:
            run(function, letter)
        assert caught.value is error


def test_a_step_that_needs_no_bytes_says_so():
    def from_values(line_edit: Notes) -> Notes: ...

    def writes(line_edit: Notes) -> Output: ...

    assert step_of(from_values, line_edit).needs_source is False
    assert step_of(writes, line_edit).needs_source is True
    assert step_of(line_edit).needs_source is True


def test_a_step_may_take_and_give_the_worker_s_own_values(letter: StepInput):
    def raw(step_input: StepInput) -> StepOutput:
        return StepOutput(facts={"name": step_input.file.name})

    assert run(raw, letter).facts == {"name": "letter.txt"}


def member(path: str, **values: Any) -> MemberFile:
    return MemberFile(
        key=f"cas/{path}",
        path=path,
        name=path.rpartition("/")[2],
        size=1,
        content_type="text/plain",
        values={name.replace("__", "."): Value(data=data) for name, data in values.items()},
    )


def folder_input(tmp_path: Path, *members: MemberFile, earlier: tuple[EarlierResult, ...] = ()) -> StepInput:
    unit = File(key="cas/list", path="1912", name="1912", size=1, content_type="application/json")
    files = tmp_path / "store"
    files.mkdir()
    for one in members:
        (files / one.name).write_text(f"text of {one.name}")
    return make_input(
        tmp_path, file=unit, members=members, earlier=earlier, fetch=lambda file: files / file.name
    )


def test_a_folder_has_documents_with_values_and_the_folders_below(tmp_path: Path):
    pipeline = Pipeline("p")
    pipeline.step(line_edit)

    @pipeline.step(unit="folder")
    def overview(folder: Folder) -> Result[float]:
        seen.append(folder)
        own = sum(document.value(line_edit).score for document in folder.documents)
        return Result(own + sum(below.value(overview) for below in folder.folders))

    seen: list[Folder] = []
    earlier = (
        EarlierResult("1912/may", StepResult(value=Value(data=4.0))),
        EarlierResult("1912/june", StepResult(value=Value(data=0.5))),
    )
    members = (member("1912/a.txt", line_edit={"score": 1}), member("1912/b.txt", line_edit={"score": 2}))
    made = pipeline.steps()["p.overview"].run(folder_input(tmp_path, *members, earlier=earlier))
    assert made.value == 7.5
    (folder,) = seen
    assert (folder.path, folder.name, repr(folder)) == ("1912", "1912", "Folder('1912')")
    assert [below.path for below in folder.folders] == ["1912/may", "1912/june"]
    assert folder.folders[0].name == "may"
    assert [document.text() for document in folder.documents] == ["text of a.txt", "text of b.txt"]


def test_a_missing_value_of_a_document_is_refused_or_the_default(tmp_path: Path):
    pipeline = Pipeline("p")
    pipeline.step(line_edit)
    pipeline.step(unit="folder", name="strict")(lambda_strict)
    pipeline.step(unit="folder", name="lenient")(lambda_lenient)
    given = folder_input(tmp_path, member("1912/a.txt", line_edit={"score": 1}), member("1912/b.txt"))
    with pytest.raises(Reject, match=r"1912/b\.txt has no value of line_edit") as caught:
        pipeline.steps()["p.strict"].run(given)
    assert caught.value.code == "input_missing"
    assert pipeline.steps()["p.lenient"].run(given).value == [1.0, None]


def lambda_strict(folder: Folder) -> list[float]:
    return [document.value(line_edit).score for document in folder.documents]


def lambda_lenient(folder: Folder) -> list[float | None]:
    found = [document.value(line_edit, None) for document in folder.documents]
    return [None if notes is None else notes.score for notes in found]


def test_values_of_branches_are_asked_for_together(tmp_path: Path):
    pipeline = Pipeline("p")

    @pipeline.step(each={"agent": ["a", "b"]})
    def notes(document: Document, agent: str) -> Notes: ...

    @pipeline.step(unit="folder")
    def overview(folder: Folder) -> dict[str, float]:
        (document,) = folder.documents
        with pytest.raises(LookupError, match=r"ask for all of them: \.values\(notes\)"):
            document.value(notes)
        with pytest.raises(
            LookupError, match="line_edit is no step of this pipeline; its steps are: notes, "
        ):
            document.value(line_edit)
        return {branch: one.score for branch, one in document.values(notes).items()}

    given = folder_input(tmp_path, member("1912/a.txt", notes__a={"score": 1}, notes__b={"score": 2}))
    assert pipeline.steps()["p.overview"].run(given).value == {"a": 1.0, "b": 2.0}


def test_a_large_value_is_read_from_the_store(tmp_path: Path):
    pipeline = Pipeline("p")
    pipeline.step(line_edit)
    pipeline.step(unit="folder", name="strict")(lambda_strict)
    large = msgspec.structs.replace(
        member("1912/a.txt"), values={"line_edit": Value(key="cas/v", size=9, digest="d")}
    )
    given = folder_input(tmp_path, large)
    read: list[str] = []

    def resolve(value: Value) -> Any:
        read.append(value.key)
        return {"score": 3}

    given = msgspec.structs.replace(given, resolve=resolve)
    assert pipeline.steps()["p.strict"].run(given).value == [3.0]
    assert read == ["cas/v"]


def test_the_whole_batch_is_a_folder_too(tmp_path: Path):
    def total(folder: Folder) -> list[str]:
        return [document.path for document in folder.documents]

    given = folder_input(tmp_path, member("a.txt"), member("b/c.txt"))
    assert run(total, given, unit="batch").value == ["a.txt", "b/c.txt"]


def test_nothing_of_a_step_is_left_outside_its_folder(letter: StepInput, tmp_path: Path):
    def make(document: Document) -> list[Output]:
        return [Output.text(f"{n}.txt", "x") for n in range(3)]

    before = sorted(tmp_path.iterdir())
    run(make, letter)
    assert sorted(tmp_path.iterdir()) == before
