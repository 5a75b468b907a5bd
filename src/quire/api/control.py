"""Control of batches and dead letters. Every action is recorded with actor and reason."""

from typing import Any

from msgspec import Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import (
    ApiRequest,
    ApiResponse,
    Parameter,
    Route,
    get_batch_id,
    json_response,
    read_json,
)
from quire.batches import control
from quire.batches.overview import require_batch
from quire.consumers import administration
from quire.consumers.lines import DeadLine, QueueLine
from quire.ledger.port import OperatorAction, TaskSelection
from quire.model.errors import Reject
from quire.queues.port import DeadLetterFilter

MAX_REASON = 500
MAX_DEAD = 1000
_BATCH = "01KA0000000000000000000000"


class ActionBody(Struct, frozen=True, kw_only=True):
    """May be empty."""

    reason: str = ""


class RetryBody(Struct, frozen=True, kw_only=True):
    """Which failed tasks to retry, all by default. `dry_run`: only list what would run."""

    reason: str = ""
    error_class: str | None = None
    path: str | None = None
    dry_run: bool = False


class ActionAnswer(Struct, frozen=True, kw_only=True):
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


class MessageCount(Struct, frozen=True, kw_only=True):
    ok: bool
    messages: int


class DeadLetterList(Struct, frozen=True, kw_only=True):
    dead: list[DeadLine]
    classes: dict[str, int]


class QueueList(Struct, frozen=True, kw_only=True):
    queues: list[QueueLine]


async def reset_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    act = await _read_action(context, request, caller)
    batch = await require_batch(control.reset(context.batches, get_batch_id(request), act))
    return _build_answer(context, "Batch reset", batch.status)


async def cancel_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    act = await _read_action(context, request, caller)
    batch = await require_batch(control.cancel(context.batches, get_batch_id(request), act))
    return _build_answer(context, "Batch cancelled", batch.status)


async def pause_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    act = await _read_action(context, request, caller)
    batch = await require_batch(control.pause(context.batches, get_batch_id(request), act))
    return _build_answer(context, "Batch paused", batch.status)


async def resume_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    act = await _read_action(context, request, caller)
    batch = await require_batch(control.resume(context.batches, get_batch_id(request), act))
    return _build_answer(context, "Batch resumed", batch.status)


async def retry_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said = await _read_object(request)
    selection = TaskSelection(error_class=_read_text(said, "error_class"), path=_read_text(said, "path"))
    if said.get("dry_run") is True:
        return json_response(
            await require_batch(control.preview_retry(context.batches, get_batch_id(request), selection))
        )
    preview = await require_batch(
        control.retry(context.batches, get_batch_id(request), _build_action(context, caller, said), selection)
    )
    context.wake()
    return json_response(preview)


async def list_queues(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(QueueList(queues=await administration.list_queues(context.queues)))


async def list_dead_letters(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said, queue = request.query_params, str(request.path_params["queue"])
    chosen = DeadLetterFilter(error_class=said.get("error_class"), text=said.get("text"))
    after = said.get("after", "0")
    if not after.isascii() or not after.isdecimal() or len(after) > 18:
        raise Reject("after is the number of a dead letter")
    lines = await administration.list_dead_letters(context.queues, queue, chosen, after=int(after), limit=100)
    return json_response(
        DeadLetterList(dead=lines, classes=await administration.count_by_error_class(context.queues, queue))
    )


async def replay_dead_letters(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said, queue = await _read_object(request), str(request.path_params["queue"])
    chosen = _read_selection(said)
    rate = said.get("per_second", 0.0)
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 <= rate <= 10_000:
        raise Reject("per_second is a number from 0 to 10000")
    done = await administration.replay(context.queues, queue, chosen, per_second=float(rate))
    await context.acted(
        caller, "dead_letters_replayed", {"queue": queue, "messages": done}, reason=_read_reason(said)
    )
    context.wake()
    return json_response(MessageCount(ok=True, messages=done))


async def discard_dead_letters(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said, queue = await _read_object(request), str(request.path_params["queue"])
    done = await administration.discard(context.queues, queue, _read_selection(said))
    await context.acted(
        caller, "dead_letters_discarded", {"queue": queue, "messages": done}, reason=_read_reason(said)
    )
    return json_response(MessageCount(ok=True, messages=done))


def _read_selection(said: dict[str, Any]) -> DeadLetterFilter:
    ids = said.get("ids")
    if ids is not None and (
        not isinstance(ids, list)
        or len(ids) > MAX_DEAD
        or not all(isinstance(one, str) and "\x00" not in one for one in ids)
    ):
        raise Reject(f"ids is a list of at most {MAX_DEAD} message ids")
    chosen = DeadLetterFilter(
        ids=None if ids is None else tuple(ids),
        error_class=_read_text(said, "error_class"),
        text=_read_text(said, "text"),
    )
    if chosen == DeadLetterFilter() and said.get("all") is not True:
        # An empty selection is more often a mistake than meant.
        raise Reject("Say which dead letters: ids, error_class or text, or all: true for every one")
    return chosen


async def _read_action(context: ApiContext, request: ApiRequest, caller: Caller) -> OperatorAction:
    return _build_action(context, caller, await _read_object(request))


def _build_action(context: ApiContext, caller: Caller, said: dict[str, Any]) -> OperatorAction:
    return OperatorAction(actor=caller.name, reason=_read_reason(said), now=context.batches.clock.now())


async def _read_object(request: ApiRequest) -> dict[str, Any]:
    said = await read_json(request, empty={})
    if not isinstance(said, dict):
        raise Reject("Invalid JSON body (must be an object)", code="bad_json")
    return said


def _read_reason(said: dict[str, Any]) -> str:
    return (_read_text(said, "reason") or "")[:MAX_REASON]


def _read_text(said: dict[str, Any], name: str) -> str | None:
    found = said.get(name)
    if found is not None and (not isinstance(found, str) or "\x00" in found):
        raise Reject(f"{name} must be text")
    return found


def _build_answer(context: ApiContext, message: str, status: str) -> ApiResponse:
    context.wake()
    return json_response(ActionAnswer(ok=True, message=message, status=status))


def _route(
    word: str,
    serve: Any,
    about: str,
    *,
    body: Any = ActionBody,
    answers: Any = ActionAnswer,
    contract: bool = False,
) -> Route:
    return Route(
        method="POST",
        path=f"/admin/{word}/{{batch_id:str}}",
        serve=serve,
        scope=Scope.OPERATE,
        name=f"{word}Batch",
        about=about,
        group="Control",
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
        reset_batch,
        "End a batch in error; delivering its start message again restarts it.",
        contract=True,
    ),
    _route("cancel", cancel_batch, "End a batch; finished work stays."),
    _route("pause", pause_batch, "No further task of the batch starts."),
    _route("resume", resume_batch, "Tasks of a paused batch start again."),
    _route(
        "retry",
        retry_batch,
        "Retry failed tasks, all or a selection; `dry_run` only lists them.",
        body=RetryBody,
        answers=control.RetryPreview,
    ),
    Route(
        method="GET",
        path="/api/queues",
        serve=list_queues,
        scope=Scope.READ,
        name="listQueues",
        about="Queues with their depth, age and rates.",
        group="Queues",
        whole=True,
        answers=QueueList,
    ),
    Route(
        method="GET",
        path=_QUEUE,
        serve=list_dead_letters,
        scope=Scope.READ,
        name="listDeadLetters",
        about="Dead letters of a queue, a hundred at a time, and how many there are of each error class.",
        group="Queues",
        whole=True,
        answers=DeadLetterList,
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
        serve=replay_dead_letters,
        scope=Scope.OPERATE,
        name="replayDeadLetters",
        about="Put dead letters back into their queue, with their history.",
        group="Queues",
        whole=True,
        body=ReplayBody,
        body_example={"error_class": "missing", "reason": "the manifest is there now"},
        answers=MessageCount,
        errors=(400, 404, 413),
    ),
    Route(
        method="POST",
        path=f"{_QUEUE}/discard",
        serve=discard_dead_letters,
        scope=Scope.OPERATE,
        name="discardDeadLetters",
        about="Discard dead letters for good.",
        group="Queues",
        whole=True,
        body=ReplayBody,
        body_example={"ids": ["m-1"], "reason": "a test"},
        answers=MessageCount,
        errors=(400, 404, 413),
    ),
)
