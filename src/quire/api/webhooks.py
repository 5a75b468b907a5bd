"""Being told: webhooks of all batches or of one, the log of deliveries, and sending again."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import Answer, Asked, Parameter, Route, answer, json_of, number_of
from quire.events.webhooks import (
    DeliveryLine,
    HookLine,
    NewHook,
    add_hook,
    disable_hook,
    list_deliveries,
    list_hooks,
    redeliver,
)
from quire.model.errors import Reject

T = TypeVar("T")

MAX_PAGE = 500
_HOOK = "hook_01KA0000000000000000000000"


class HookBody(Struct, frozen=True, kw_only=True):
    """`kinds` empty: every kind of event."""

    url: str
    kinds: list[str] = []


class HookLines(Struct, frozen=True, kw_only=True):
    webhooks: list[HookLine]


class Deliveries(Struct, frozen=True, kw_only=True):
    """Newest first; `next` is where the following page begins, None after the last."""

    deliveries: list[DeliveryLine]
    next: int | None


class AgainBody(Struct, frozen=True, kw_only=True):
    deliveries: list[int]


class Again(Struct, frozen=True, kw_only=True):
    ok: bool
    deliveries: int


async def add(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    said = await _said(request, HookBody)
    batch_id = str(request.path_params.get("batch_id", ""))
    made = await add_hook(desk.hook_desk, url=said.url, batch_id=batch_id, kinds=said.kinds)
    # Not the URL: people put secrets into it.
    await desk.acted(caller, "webhook_added", {"webhook": made.hook.id, "batch_id": batch_id})
    return answer(made, status=201)


async def listed(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    batch_id = request.path_params.get("batch_id")
    if batch_id is not None:
        await desk.office.ledger.batch(str(batch_id))  # is there one?
    lines = await list_hooks(desk.hook_desk, batch_id=None if batch_id is None else str(batch_id))
    return answer(HookLines(webhooks=lines))


async def end(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    line = await disable_hook(desk.hook_desk, str(request.path_params["hook_id"]))
    await desk.acted(caller, "webhook_disabled", {"webhook": line.id})
    return answer(line)


async def deliveries(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    said = request.query_params
    before, limit = (
        number_of(request, "before", most=2**62),
        number_of(request, "limit", most=MAX_PAGE),
    )
    lines = await list_deliveries(
        desk.hook_desk,
        hook_id=said.get("webhook"),
        batch_id=said.get("batch_id"),
        before=before,
        limit=limit or 100,
    )
    return answer(Deliveries(deliveries=lines, next=lines[-1].no if len(lines) == (limit or 100) else None))


async def again(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    said = await _said(request, AgainBody)
    if not all(0 < no < 2**62 for no in said.deliveries):
        raise Reject("deliveries is a list of their numbers")
    sent = await redeliver(desk.hook_desk, said.deliveries)
    await desk.acted(caller, "webhooks_redelivered", {"deliveries": sent})
    desk.wake()
    return answer(Again(ok=True, deliveries=sent))


async def _said(request: Asked, kind: type[T]) -> T:
    try:
        return msgspec.convert(await json_of(request), kind)
    except msgspec.ValidationError as error:
        raise Reject(f"Not what is wanted here: {error}") from error


_GROUP = "Be told"
_EXAMPLE = {"url": "https://example.org/hooks/quire", "kinds": ["batch_done", "batch_failed"]}
ROUTES = (
    Route(
        method="POST",
        path="/api/webhooks",
        serve=add,
        scope=Scope.ADMIN,
        whole=True,
        name="addWebhook",
        about="Be told of all batches. The secret that signs the calls is in this answer and nowhere else.",
        group=_GROUP,
        body=HookBody,
        body_example=_EXAMPLE,
        answers=NewHook,
        status=201,
        errors=(400, 413),
    ),
    Route(
        method="GET",
        path="/api/webhooks",
        serve=listed,
        scope=Scope.ADMIN,
        whole=True,
        name="listWebhooks",
        about="Webhooks, oldest first, without their secrets.",
        group=_GROUP,
        answers=HookLines,
    ),
    Route(
        method="DELETE",
        path="/api/webhooks/{hook_id:str}",
        serve=end,
        scope=Scope.ADMIN,
        whole=True,
        name="disableWebhook",
        about="Nothing more is sent there.",
        group=_GROUP,
        answers=HookLine,
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/api/batches/{batch_id:str}/webhooks",
        serve=add,
        scope=Scope.SUBMIT,
        name="addBatchWebhook",
        about="Be told of one batch.",
        group=_GROUP,
        body=HookBody,
        body_example=_EXAMPLE,
        answers=NewHook,
        status=201,
        errors=(400, 404, 413),
    ),
    Route(
        method="GET",
        path="/api/batches/{batch_id:str}/webhooks",
        serve=listed,
        scope=Scope.READ,
        name="listBatchWebhooks",
        about="Webhooks of one batch.",
        group=_GROUP,
        answers=HookLines,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/api/webhooks/deliveries",
        serve=deliveries,
        scope=Scope.ADMIN,
        whole=True,
        name="listDeliveries",
        about="What was sent, what waits, what was answered: the log, newest first.",
        group=_GROUP,
        answers=Deliveries,
        errors=(400,),
        parameters=(
            Parameter(name="webhook", about="Only to this one.", example=_HOOK),
            Parameter(name="batch_id", about="Only of this batch."),
            Parameter(name="before", about="`next` of the page before.", kind=int),
            Parameter(name="limit", about=f"At most so many, up to {MAX_PAGE}.", kind=int, example=100),
        ),
    ),
    Route(
        method="POST",
        path="/api/webhooks/redeliver",
        serve=again,
        scope=Scope.ADMIN,
        whole=True,
        name="redeliver",
        about="Send these again, under their old ids.",
        group=_GROUP,
        body=AgainBody,
        body_example={"deliveries": [17]},
        answers=Again,
        errors=(400, 413),
    ),
)
