"""The published tools beside ours: their janitor, `retry` and `reprioritize`, request by request, and what
must hold once everything has come to rest.

They read, decide, and write without conditions, in the order of the published design; any of them may end
between two requests. Must not know how `quire.library.protocol` reads their markers.
"""

import json
from collections.abc import Callable, Generator, Iterator
from typing import Any

from quire.library.janitor import ListedMarkers, find_doubt
from quire.library.listing import _rank
from quire.library.protocol import layout
from quire.library.protocol.lifecycle import HeldJob
from quire.library.protocol.operator import JobStatus
from quire.library.protocol.requests import CheckExists, CheckStale, DeleteObjects, Operation, PutObject, read
from quire.model.objects import ObjectInfo
from quire.model.tiers import TIERS
from tests.simulation.library.situations import JOB, OUT, STATE, TIER, Budget, CopyObject, demand

MOVED_TO = "1_critical"
USED = (MOVED_TO, TIER)
LOCK, FAILED, DEAD, RAW = layout.processing(JOB), layout.failed(JOB), layout.dead(JOB), layout.raw(JOB)
Alone = Callable[..., Any]


def budget(**changes: Any) -> Budget:
    """One worker and one janitor of ours, beside what is named."""
    few: dict[str, Any] = {"workers": 1, "janitors": 1, "claims": 1, "crashes": 1, "lost": 0, "releases": 0}
    return Budget(**(few | {"beats": 0, "whole_deletions": True} | changes))


def list_unused(budget: Budget) -> frozenset[str]:
    """Todo markers that no actor writes."""
    used = USED if budget.their_moves else (TIER,)
    return frozenset(layout.todo(tier, JOB) for tier in TIERS if tier not in used)


SMALL = {
    "their retry of a dead job": budget(their_retries=1, start="dead"),
    "their retry from zero": budget(their_retries=1, start="dead", reset=True),
    "their retry of a failed job": budget(their_retries=1, start="failed"),
    "their janitor": budget(their_janitors=1),
    "their janitor at a failed job": budget(their_janitors=1, start="failed"),
    "their reprioritize": budget(their_moves=1, start="failed"),
    "their retry, answers lost": budget(their_retries=1, start="dead", lost=1, whole_deletions=False),
}
LARGE = (
    budget(their_retries=1, their_janitors=1, start="dead"),
    budget(their_retries=1, their_janitors=1, start="failed", crashes=0),
    budget(their_moves=1, their_janitors=1),
    budget(their_moves=1, their_retries=1, start="dead"),
    budget(their_retries=2, start="dead"),
    budget(their_retries=1, start="dead", workers=2),
    budget(their_janitors=2, start="failed", crashes=0),
)


def janitor(limit: int) -> Operation[None]:
    """A silent lock and a failed job go back to `todo`, or to `dead` when they were tried too often."""
    lock = yield from _read(LOCK)
    if lock is not None and (yield CheckStale(LOCK)):
        yield from _requeue(lock, limit, "stale_processing")
        yield DeleteObjects((LOCK,))
    failed = yield from _read(FAILED)
    if failed is not None:
        yield from _requeue(failed, limit, "failed_queue")
        yield DeleteObjects((FAILED,))


def _requeue(said: dict[str, Any], limit: int, reason: str) -> Operation[None]:
    retries, error = said.get("retries", 0) + 1, said.get("error", "stale")
    if retries > limit - 1:
        yield PutObject(DEAD, _body(error=error, total_retries=retries, reason="exceeded_max_retries"))
        yield DeleteObjects((FAILED,))
        return
    todo = _body(retries=retries, queued_at=1, recovered_from=reason, last_error=error)
    yield PutObject(layout.todo(said.get("priority", TIER), JOB), todo)


def retry(number: int, *, reset: bool) -> Operation[None]:
    """Into the default tier, as it does unless told another. `number` is the moment at which it runs."""
    if (yield CheckExists(OUT)):
        return
    for tier in USED:
        if (yield CheckExists(layout.todo(tier, JOB))):
            return
    if (yield CheckExists(LOCK)):
        return
    source, said = "dead-letter", (yield from _read(DEAD))
    if said is None:
        source, said = "failed", (yield from _read(FAILED))
    if said is None:
        source = "raw"
    known = said or {}
    retries = 0 if reset else known.get("retries", known.get("total_retries", 0))
    todo = _body(
        retries=retries,
        queued_at=number,
        recovered_from=f"manual_retry_{source}",
        previous_error=known.get("error"),
    )
    yield PutObject(layout.todo(TIER, JOB), todo)
    if source != "raw":
        yield DeleteObjects((DEAD if source == "dead-letter" else FAILED,))


def reprioritize() -> Generator[Any, Any, bool]:
    """Copies the marker and deletes the original."""
    for key in (LOCK, OUT, DEAD):
        if (yield CheckExists(key)):
            return False
    for tier in USED:
        there = layout.todo(tier, JOB)
        if (yield CheckExists(there)):
            target = layout.todo(MOVED_TO, JOB)
            if there == target or not (yield CopyObject(target, there)):
                return False
            yield DeleteObjects((there,))
            return True
    return False


def _read(key: str) -> Operation[dict[str, Any] | None]:
    found = yield from read(key)
    return None if found is None else json.loads(found.body or b"{}")


def _body(**said: Any) -> bytes:
    return json.dumps(said).encode()


def list_todos(store: dict[str, bytes]) -> Iterator[tuple[str, bool]]:
    """Tier and whether the marker is empty, the most urgent first."""
    for tier in TIERS:
        body = store.get(layout.todo(tier, JOB))
        if body is not None:
            yield tier, not body


def find_doubt_at_once(store: dict[str, bytes]) -> str:
    """What a sweep sees of objects that were all written in the same second, long ago: no time tells it that
    anything is wrong.
    """
    todos = list(list_todos(store))
    marks = ListedMarkers(
        tiers=len(todos),
        todo=float(bool(todos)),
        tried=any(not blank for _, blank in todos),
        processing=float(LOCK in store),
        failed=FAILED in store,
        dead=float(DEAD in store),
        state=float(STATE in store),
        state_size=len(store.get(STATE, b"")),
    )
    return find_doubt(marks, now=1e6, stale_seconds=900.0)


def come_to_rest(store: dict[str, bytes], turns: int, ending: str, run_alone: Alone) -> HeldJob | None:
    """A sweep and a worker, in turns; the worker's attempts all end alike. Returns the first attempt."""
    first: HeldJob | None = None
    for turn in range(turns):
        if find_doubt_at_once(store):
            run_alone(store, "settle", f"last{turn}")
        for tier, blank in list(list_todos(store)):
            if {LOCK, FAILED, DEAD} & set(store):
                break
            held = run_alone(store, "claim", f"work{turn}", tier, blank)
            if isinstance(held, HeldJob):
                first = first or held
                run_alone(store, ending, f"end{turn}", held)
                break
    return first


def check_nothing_stranded(store: dict[str, bytes], run_alone: Alone) -> None:
    """It is done, or dead with a reason; and every command says so."""
    demand(not list(list_todos(store)), "stranded: a todo marker that no worker claims")
    left = set(store) - {RAW}
    if OUT in store:
        # A janitor of theirs that was slow: the next sweep of ours looks at a dead marker that is new.
        demand(left - {DEAD} == {OUT}, f"left behind beside a result: {sorted(left - {OUT})}")
    else:
        demand(left - {STATE} == {DEAD}, f"stranded: a job neither done nor dead: {sorted(left)}")
        said = json.loads(store[DEAD])
        demand(bool(said.get("error") and said.get("reason")), "stranded: dead without a reason")
    wanted = JobStatus.DONE if OUT in store else JobStatus.DEAD
    demand(run_alone(store, "inspect", "look").status is wanted, f"the status is not {wanted.value}")
    page = [ObjectInfo(key, len(body), "", 0.0) for key, body in store.items()]
    listed = min(rank for _, rank in _rank(page))
    demand(list(JobStatus)[listed] is wanted, f"the listing does not show that it is {wanted.value}")
