"""Webhooks of all batches or of one, the log of deliveries, and redelivery."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import ApiRequest, ApiResponse, Parameter, Route, json_response, read_json, read_number
from quire.events import webhooks
from quire.events.webhooks import DeliveryLine, HookLine, NewHook
from quire.model.errors import Reject

T = TypeVar("T")

MAX_PAGE = 500
_HOOK = "hook_01KA0000000000000000000000"


class WebhookBody(Struct, frozen=True, kw_only=True):
    """`kinds` empty: every kind of event."""

    url: str
    kinds: list[str] = []


class WebhookList(Struct, frozen=True, kw_only=True):
    webhooks: list[HookLine]


class DeliveryList(Struct, frozen=True, kw_only=True):
    """Newest first; `next` is where the following page begins, None after the last."""

    deliveries: list[DeliveryLine]
    next: int | None


class RedeliverBody(Struct, frozen=True, kw_only=True):
    deliveries: list[int]


class RedeliverAnswer(Struct, frozen=True, kw_only=True):
    ok: bool
    deliveries: int


async def create_webhook(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said = await _read_body(request, WebhookBody)
    batch_id = str(request.path_params.get("batch_id", ""))
    made = await webhooks.add_webhook(context.webhooks, url=said.url, batch_id=batch_id, kinds=said.kinds)
    # Not the URL: people put secrets into it.
    await context.acted(caller, "webhook_added", {"webhook": made.hook.id, "batch_id": batch_id})
    return json_response(made, status=201)


async def show_webhooks(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    batch_id = request.path_params.get("batch_id")
    if batch_id is not None:
        await context.batches.batches.get_batch(str(batch_id))  # raises Missing
    lines = await webhooks.list_webhooks(
        context.webhooks, batch_id=None if batch_id is None else str(batch_id)
    )
    return json_response(WebhookList(webhooks=lines))


async def end_webhook(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    line = await webhooks.disable_webhook(context.webhooks, str(request.path_params["hook_id"]))
    await context.acted(caller, "webhook_disabled", {"webhook": line.id})
    return json_response(line)


async def show_deliveries(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = request.query_params
    before, limit = (read_number(request, "before", most=2**62), read_number(request, "limit", most=MAX_PAGE))
    lines = await webhooks.list_deliveries(
        context.webhooks,
        hook_id=said.get("webhook"),
        batch_id=said.get("batch_id"),
        before=before,
        limit=limit or 100,
    )
    return json_response(
        DeliveryList(deliveries=lines, next=lines[-1].no if len(lines) == (limit or 100) else None)
    )


async def redeliver_events(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said = await _read_body(request, RedeliverBody)
    if not all(0 < no < 2**62 for no in said.deliveries):
        raise Reject("deliveries is a list of their numbers")
    sent = await webhooks.redeliver(context.webhooks, said.deliveries)
    await context.acted(caller, "webhooks_redelivered", {"deliveries": sent})
    context.wake()
    return json_response(RedeliverAnswer(ok=True, deliveries=sent))


async def _read_body(request: ApiRequest, kind: type[T]) -> T:
    try:
        return msgspec.convert(await read_json(request), kind)
    except msgspec.ValidationError as error:
        raise Reject(f"Not what is wanted here: {error}") from error


_GROUP = "Webhooks"
_EXAMPLE = {"url": "https://example.org/hooks/quire", "kinds": ["batch_done", "batch_failed"]}
ROUTES = (
    Route(
        method="POST",
        path="/api/webhooks",
        serve=create_webhook,
        scope=Scope.ADMIN,
        whole=True,
        name="addWebhook",
        about="Add a webhook for all batches. The secret that signs its calls is only in this answer.",
        group=_GROUP,
        body=WebhookBody,
        body_example=_EXAMPLE,
        answers=NewHook,
        status=201,
        errors=(400, 413),
    ),
    Route(
        method="GET",
        path="/api/webhooks",
        serve=show_webhooks,
        scope=Scope.ADMIN,
        whole=True,
        name="listWebhooks",
        about="Webhooks, oldest first, without their secrets.",
        group=_GROUP,
        answers=WebhookList,
    ),
    Route(
        method="DELETE",
        path="/api/webhooks/{hook_id:str}",
        serve=end_webhook,
        scope=Scope.ADMIN,
        whole=True,
        name="disableWebhook",
        about="Disable a webhook: nothing more is sent to it.",
        group=_GROUP,
        answers=HookLine,
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/api/batches/{batch_id:str}/webhooks",
        serve=create_webhook,
        scope=Scope.SUBMIT,
        name="addBatchWebhook",
        about="Add a webhook for one batch.",
        group=_GROUP,
        body=WebhookBody,
        body_example=_EXAMPLE,
        answers=NewHook,
        status=201,
        errors=(400, 404, 413),
    ),
    Route(
        method="GET",
        path="/api/batches/{batch_id:str}/webhooks",
        serve=show_webhooks,
        scope=Scope.READ,
        name="listBatchWebhooks",
        about="Webhooks of one batch.",
        group=_GROUP,
        answers=WebhookList,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/api/webhooks/deliveries",
        serve=show_deliveries,
        scope=Scope.ADMIN,
        whole=True,
        name="listDeliveries",
        about="The log of deliveries, newest first: sent, waiting, and how they were answered.",
        group=_GROUP,
        answers=DeliveryList,
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
        serve=redeliver_events,
        scope=Scope.ADMIN,
        whole=True,
        name="redeliver",
        about="Send deliveries again, under their old ids.",
        group=_GROUP,
        body=RedeliverBody,
        body_example={"deliveries": [17]},
        answers=RedeliverAnswer,
        errors=(400, 413),
    ),
)
