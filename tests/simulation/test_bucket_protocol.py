"""The bucket's protocol in every order: nothing that must never be, and that again when a condition goes.

`make soak` runs the larger budgets (`python -m tests.simulation.library.explorer`).
"""

import pytest

from quire.library import janitor as sweeps
from quire.library.protocol import janitor, lifecycle, operator
from quire.library.protocol.requests import Operation
from tests.simulation.library import published
from tests.simulation.library.explorer import Explorer
from tests.simulation.library.situations import Budget

TWO_WORKERS = Budget(workers=2, janitors=1, claims=1, crashes=1, lost=0, releases=1, beats=0)
TWO_OF_EACH = Budget(
    workers=2, janitors=2, claims=1, crashes=0, lost=0, releases=0, beats=0, limit=1, whole_deletions=True
)
TWO_JANITORS = Budget(
    workers=1, janitors=2, claims=2, crashes=0, lost=0, releases=0, beats=0, whole_deletions=True
)
LOST_ANSWERS = Budget(workers=1, janitors=1, claims=2, crashes=0, lost=2, releases=1)
AGAIN_AND_AGAIN = Budget(workers=1, janitors=1, passes=2, claims=3, crashes=1, lost=0, beats=0, releases=0)
PEOPLE = Budget(workers=1, janitors=1, claims=2, crashes=0, lost=0, releases=0, beats=0, people=1)
ALL = {
    "two workers": TWO_WORKERS,
    "two of each": pytest.param(TWO_OF_EACH, marks=pytest.mark.soak),  # a minute
    "two janitors": TWO_JANITORS,
    "lost answers": LOST_ANSWERS,
    "again and again": AGAIN_AND_AGAIN,
    "people": PEOPLE,
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("budget", ALL.values(), ids=ALL.keys())
def test_nothing_happens_that_must_never_happen(budget: Budget) -> None:
    explored = Explorer(budget).run()
    assert explored.violations == {}
    assert explored.situations > 10_000  # it did go on


WITHOUT = {
    "first claim": (TWO_WORKERS, {"two attempts have one number"}),
    "claim": (
        Budget(workers=2, janitors=1, claims=2, crashes=0, lost=0, releases=1, beats=0),
        {"a live worker was robbed that nobody judged stale"},
    ),
    "beat": (
        Budget(workers=2, janitors=1, claims=1, crashes=0, lost=0, releases=0),
        {"a worker wrote the state of a job that is not its own"},
    ),
    "fail": (TWO_WORKERS, {"a worker wrote the state of a job that is not its own"}),
    "release": (TWO_WORKERS, {"a worker wrote the state of a job that is not its own"}),
    "recover": (TWO_JANITORS, {"a live worker was robbed that nobody judged stale"}),
    "commit": (TWO_WORKERS, {"two results were committed"}),
    "finished": (TWO_WORKERS, {"a finished job was begun again"}),
    "people": (
        Budget(workers=2, janitors=0, claims=1, crashes=0, lost=0, releases=0, people=1),
        {"two attempts have one number"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("condition", WITHOUT)
def test_every_condition_is_needed(condition: str) -> None:
    budget, wanted = WITHOUT[condition]
    kept = {name: getattr(budget, name) for name in budget.__struct_fields__}
    explored = Explorer(Budget(**{**kept, "drop": condition})).run(until=wanted)
    assert wanted <= set(explored.violations)
    for violation in explored.violations.values():
        assert violation.trace


def test_the_marker_for_other_tools_decides_nothing_among_ours() -> None:
    budget = Budget(workers=2, janitors=0, claims=1, crashes=0, lost=0, releases=0, drop="marker")
    assert Explorer(budget).run().violations == {}


def test_who_does_not_know_its_own_writing_wastes_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(key: str, nonce: str) -> Operation[str | None]:
        return None
        yield

    monkeypatch.setattr(lifecycle, "_find_own_write", nobody)
    budget = Budget(workers=1, janitors=0, claims=1, crashes=0, lost=1, releases=0, beats=0)
    assert "an attempt was counted that nobody began" in Explorer(budget).run().violations


@pytest.mark.slow
def test_attempts_that_are_counted_at_their_end_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that kills its worker each time."""
    started = lifecycle._running_record

    def free(job: lifecycle.JobRecord, actor: lifecycle.JobActor, nonce: str) -> lifecycle.JobRecord:
        begun = started(job, actor, nonce)
        return lifecycle.structs.replace(begun, charged=job.charged)

    monkeypatch.setattr(lifecycle, "_running_record", free)
    budget = Budget(
        workers=1, janitors=1, passes=2, claims=2, crashes=2, lost=0, releases=0, beats=0, limit=1
    )
    wanted = "more attempts than allowed"
    assert wanted in Explorer(budget).run(until={wanted}).violations


@pytest.mark.slow
@pytest.mark.parametrize("budget", published.SMALL.values(), ids=published.SMALL.keys())
def test_nothing_is_stranded_beside_published_tools(budget: Budget) -> None:
    explored = Explorer(budget).run()
    assert explored.violations == {}
    assert explored.situations > 5_000


def test_a_retry_of_theirs_that_is_not_read_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "find_retry", lambda *_: None)
    monkeypatch.setattr(operator, "find_retry", lambda *_: None)
    budget = published.SMALL["their retry of a dead job"]
    wanted = {"a retry by a person was undone"}
    assert wanted <= set(Explorer(budget).run(until=wanted).violations)


def test_a_job_that_nobody_looks_at_is_stranded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before the size of a state told what it says, and before workers settled what they cannot claim."""

    def ignore_rest(
        candidate: lifecycle.JobCandidate, actor: lifecycle.JobActor
    ) -> Operation[lifecycle.HeldJob | lifecycle.Refusal]:
        return (yield from lifecycle.claim(candidate, actor)) or lifecycle.Refusal.TAKEN

    monkeypatch.setattr(sweeps, "guess_state", lambda _: "waiting")
    monkeypatch.setattr(janitor, "try_claim", ignore_rest)
    wanted = {"stranded: a todo marker that no worker claims"}
    for name in ("their retry of a dead job", "their janitor at a failed job"):
        found = Explorer(published.SMALL[name]).run(until=wanted)
        assert wanted <= set(found.violations), name


def test_a_change_of_priority_that_is_not_read_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "choose_tier", lambda job, _: job.priority)
    wanted = {"a change of priority was undone"}
    found = Explorer(published.SMALL["their reprioritize"]).run(until=wanted)
    assert wanted <= set(found.violations)
