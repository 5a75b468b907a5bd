"""Intervening: reset, retry, cancel, pause, resume, dead letters. Every act is kept with actor and reason."""

from typing import Any

from msgspec import Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import Answer, Asked, Parameter, Route, answer, batch_of, json_of
from quire.batches import control
from quire.batches.overview import known
from quire.consumers import administration
from quire.consumers.lines import DeadLine, QueueLine
from quire.ledger.port import OperatorAction, Selection
from quire.model.errors import Reject
from quire.queues.port import DeadLetterFilter

MAX_REASON = 500
MAX_DEAD = 1000
_BATCH = "01KA0000000000000000000000"


class ActBody(Struct, frozen=True, kw_only=True):
    """May be empty."""

    reason: str = ""


class RetryBody(Struct, frozen=True, kw_only=True):
    """Which of the failed tasks; all when nothing is said. `dry_run`: only say what would run."""

    reason: str = ""
    error_class: str | None = None
    path: str | None = None
    dry_run: bool = False


class Acted(Struct, frozen=True, kw_only=True):
    ok: bool
    message: str
    status: str


class ReplayBody(Struct, frozen=True, kw_only=True):
    """Which dead letters: by id, by error class or by text; `all` when every one is meant."""

    ids: list[str] | None = None
    error_class: str | None = None
    text: str | None = None
    all: bool = False
    per_second: float = 0.0
    reason: str = ""


class Count(Struct, frozen=True, kw_only=True):
    ok: bool
    messages: int


class Dead(Struct, frozen=True, kw_only=True):
    dead: list[DeadLine]
    classes: dict[str, int]


class Queues(Struct, frozen=True, kw_only=True):
    queues: list[QueueLine]


async def reset(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    act = await _act(desk, request, caller)
    batch = await known(control.reset(desk.office, batch_of(request), act))
    return _acted(desk, "Batch reset", batch.status)


async def cancel(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    act = await _act(desk, request, caller)
    batch = await known(control.cancel(desk.office, batch_of(request), act))
    return _acted(desk, "Batch cancelled", batch.status)


async def pause(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    act = await _act(desk, request, caller)
    batch = await known(control.pause(desk.office, batch_of(request), act))
    return _acted(desk, "Batch paused", batch.status)


async def resume(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    act = await _act(desk, request, caller)
    batch = await known(control.resume(desk.office, batch_of(request), act))
    return _acted(desk, "Batch resumed", batch.status)


async def retry(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    said = await _said(request)
    selection = Selection(error_class=_word(said, "error_class"), path=_word(said, "path"))
    if said.get("dry_run") is True:
        return answer(await known(control.preview_retry(desk.office, batch_of(request), selection)))
    preview = await known(
        control.retry(desk.office, batch_of(request), _made_act(desk, caller, said), selection)
    )
    desk.wake()
    return answer(preview)


async def queues(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    return answer(Queues(queues=await administration.list_queues(desk.queue_desk)))


async def dead(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    said, queue = request.query_params, str(request.path_params["queue"])
    chosen = DeadLetterFilter(error_class=said.get("error_class"), text=said.get("text"))
    after = said.get("after", "0")
    if not after.isascii() or not after.isdecimal() or len(after) > 18:
        raise Reject("after is the number of a dead letter")
    lines = await administration.dead_list(desk.queue_desk, queue, chosen, after=int(after), limit=100)
    return answer(Dead(dead=lines, classes=await administration.dead_groups(desk.queue_desk, queue)))


async def replay(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    said, queue = await _said(request), str(request.path_params["queue"])
    chosen = _chosen(said)
    rate = said.get("per_second", 0.0)
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 <= rate <= 10_000:
        raise Reject("per_second is a number from 0 to 10000")
    done = await administration.replay(desk.queue_desk, queue, chosen, per_second=float(rate))
    await desk.acted(
        caller, "dead_letters_replayed", {"queue": queue, "messages": done}, reason=_reason(said)
    )
    desk.wake()
    return answer(Count(ok=True, messages=done))


async def discard(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    said, queue = await _said(request), str(request.path_params["queue"])
    done = await administration.discard(desk.queue_desk, queue, _chosen(said))
    await desk.acted(
        caller, "dead_letters_discarded", {"queue": queue, "messages": done}, reason=_reason(said)
    )
    return answer(Count(ok=True, messages=done))


def _chosen(said: dict[str, Any]) -> DeadLetterFilter:
    ids = said.get("ids")
    if ids is not None and (
        not isinstance(ids, list)
        or len(ids) > MAX_DEAD
        or not all(isinstance(one, str) and "\x00" not in one for one in ids)
    ):
        raise Reject(f"ids is a list of at most {MAX_DEAD} message ids")
    chosen = DeadLetterFilter(
        ids=None if ids is None else tuple(ids),
        error_class=_word(said, "error_class"),
        text=_word(said, "text"),
    )
    if chosen == DeadLetterFilter() and said.get("all") is not True:
        # An empty choice is a mistake more often than it is meant.
        raise Reject("Say which dead letters: ids, error_class or text, or all: true for every one")
    return chosen


async def _act(desk: ApiContext, request: Asked, caller: Caller) -> OperatorAction:
    return _made_act(desk, caller, await _said(request))


def _made_act(desk: ApiContext, caller: Caller, said: dict[str, Any]) -> OperatorAction:
    return OperatorAction(actor=caller.name, reason=_reason(said), now=desk.office.clock.now())


async def _said(request: Asked) -> dict[str, Any]:
    said = await json_of(request, empty={})
    if not isinstance(said, dict):
        raise Reject("Invalid JSON body (must be an object)", code="bad_json")
    return said


def _reason(said: dict[str, Any]) -> str:
    return (_word(said, "reason") or "")[:MAX_REASON]


def _word(said: dict[str, Any], name: str) -> str | None:
    found = said.get(name)
    if found is not None and (not isinstance(found, str) or "\x00" in found):
        raise Reject(f"{name} must be text")
    return found


def _acted(desk: ApiContext, message: str, status: str) -> Answer:
    desk.wake()
    return answer(Acted(ok=True, message=message, status=status))


def _route(
    word: str, serve: Any, about: str, *, body: Any = ActBody, answers: Any = Acted, contract: bool = False
) -> Route:
    return Route(
        method="POST",
        path=f"/admin/{word}/{{batch_id:str}}",
        serve=serve,
        scope=Scope.OPERATE,
        name=f"{word}Batch",
        about=about,
        group="Act",
        contract=contract,
        body=body,
        body_example={"reason": "wrong box"},
        body_required=False,
        answers=answers,
        errors=(400, 404, 409, 413),
    )


_QUEUE = "/api/queues/{queue:str}/dead"
ROUTES = (
    _route(
        "reset",
        reset,
        "End a batch in error; its start message delivered again begins it anew.",
        contract=True,
    ),
    _route("cancel", cancel, "End a batch here; what it has done stays."),
    _route("pause", pause, "No further task of the batch starts."),
    _route("resume", resume, "Tasks of a paused batch start again."),
    _route(
        "retry",
        retry,
        "Do again what failed, all of it or a choice; `dry_run` only says what that is.",
        body=RetryBody,
        answers=control.Preview,
    ),
    Route(
        method="GET",
        path="/api/queues",
        serve=queues,
        scope=Scope.READ,
        name="listQueues",
        about="Queues with their depth, age and rates.",
        group="Queues",
        whole=True,
        answers=Queues,
    ),
    Route(
        method="GET",
        path=_QUEUE,
        serve=dead,
        scope=Scope.READ,
        name="listDeadLetters",
        about="Dead letters of a queue, a hundred at a time, and how many there are of each error class.",
        group="Queues",
        whole=True,
        answers=Dead,
        errors=(400, 404),
        parameters=(
            Parameter(name="error_class", about="Only with this error class."),
            Parameter(name="text", about="Only with this text in body or error."),
            Parameter(name="after", about="The number of the last one seen.", kind=int),
        ),
    ),
    Route(
        method="POST",
        path=f"{_QUEUE}/replay",
        serve=replay,
        scope=Scope.OPERATE,
        name="replayDeadLetters",
        about="Dead letters go back into their queue, with their history.",
        group="Queues",
        whole=True,
        body=ReplayBody,
        body_example={"error_class": "missing", "reason": "the manifest is there now"},
        answers=Count,
        errors=(400, 404, 413),
    ),
    Route(
        method="POST",
        path=f"{_QUEUE}/discard",
        serve=discard,
        scope=Scope.OPERATE,
        name="discardDeadLetters",
        about="Dead letters are thrown away for good.",
        group="Queues",
        whole=True,
        body=ReplayBody,
        body_example={"ids": ["m-1"], "reason": "a test"},
        answers=Count,
        errors=(400, 404, 413),
    ),
)
