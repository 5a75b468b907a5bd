"""Steps that ask somebody outside: what they are given, and what their annotations mean."""

from pathlib import Path

import pytest

from quire import Document, External, Output, Pipeline, Reject
from quire.model.work import ExternalRequest
from quire.testing import run_step


def ask(document: Document) -> dict[str, int] | External:
    return External({"task": document.task}, queue="jobs", within=5)


def forgetful(document: Document) -> int:
    return External()  # type: ignore[return-value]


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text("so many words")
    return path


def test_the_plan_tells_which_steps_need_a_token():
    asking = Pipeline("asking")
    asking.step(ask)

    @asking.step
    def use(
        document: Document, ask: dict[str, int]
    ) -> Output:  # the answer has the value: it is not optional
        return Output.json("words.json", ask)

    first, second = (phase.steps[0] for phase in asking.plan().phases)
    assert (first.external, first.gives_value, second.external) == (True, True, False)


def test_the_request_has_the_token_of_its_task(letter: Path):
    request = run_step(ask, letter).value
    assert isinstance(request, ExternalRequest)
    assert request.queue == "jobs"
    assert b"the-token-of-this-task" in request.body


def test_a_step_that_does_not_say_so_cannot_ask(letter: Path):
    with pytest.raises(Reject, match=r"says that it returns int; add External") as caught:
        run_step(forgetful, letter)
    assert caught.value.code == "bad_result"
    assert "test_external.py" in str(caught.value)
