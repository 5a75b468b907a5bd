"""The house as a whole: keys, the audit trail, cleaning."""

import msgspec
from msgspec import Struct

from quire.access.api_keys import (
    ApiKeyContext,
    KeyDraft,
    KeyLine,
    NewKey,
    Scope,
    create,
    list_keys,
    revoke,
    rotate,
)
from quire.api.context import ApiContext, Caller
from quire.api.routing import Answer, Asked, Parameter, Route, answer, json_of
from quire.batches.lines import Event
from quire.ingest.cleanup import Due, due
from quire.ledger.port import NO_BATCH
from quire.model.clock import timestamp
from quire.model.errors import Reject

PAGE = 200


class Keys(Struct, frozen=True, kw_only=True):
    keys: list[KeyLine]


class Audit(Struct, frozen=True, kw_only=True):
    events: list[Event]


class Cleaning(Struct, frozen=True, kw_only=True):
    idle_upload_days: float
    staging_days: float
    every_seconds: float
    due: list[Due]


async def keys(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    return answer(Keys(keys=await list_keys(_keys(desk))))


async def new_key(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    try:
        draft = msgspec.convert(await json_of(request), KeyDraft)
    except msgspec.ValidationError as error:
        raise Reject(f"Not the description of a key: {error}") from error
    made = await create(_keys(desk), draft)
    await desk.acted(caller, "key_created", {"key": made.key.id, "scope": made.key.scope})
    return answer(made, status=201)


async def end_key(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    line = await revoke(_keys(desk), str(request.path_params["key_id"]))
    await desk.acted(caller, "key_revoked", {"key": line.id})
    return answer(line)


async def turn_key(desk: ApiContext, request: Asked, caller: Caller) -> Answer:
    made = await rotate(_keys(desk), str(request.path_params["key_id"]))
    await desk.acted(caller, "key_rotated", {"key": made.key.id})
    return answer(made, status=201)


async def audit(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    after = request.query_params.get("after", "0")
    if not after.isascii() or not after.isdecimal() or len(after) > 18:
        raise Reject("after is the number of an event")
    page = await desk.office.ledger.events(NO_BATCH, after=int(after), limit=PAGE)
    return answer(
        Audit(events=[Event(no=no, at=timestamp(at), kind=kind, data=data) for no, at, kind, data in page])
    )


async def cleaning(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    terms = desk.cleaning
    return answer(
        Cleaning(
            idle_upload_days=terms.idle_upload_days,
            staging_days=terms.staging_days,
            every_seconds=desk.cleaning_seconds,
            due=await due(desk.office, terms),
        )
    )


def _keys(desk: ApiContext) -> ApiKeyContext:
    return ApiKeyContext(ledger=desk.office.ledger, clock=desk.office.clock, ids=desk.office.ids)


_GROUP = "House"
ROUTES = (
    Route(
        method="GET",
        path="/api/keys",
        serve=keys,
        scope=Scope.ADMIN,
        whole=True,
        name="listKeys",
        about="API keys: what they allow, when they end, when they were last used. Never their text.",
        group=_GROUP,
        answers=Keys,
    ),
    Route(
        method="POST",
        path="/api/keys",
        serve=new_key,
        scope=Scope.ADMIN,
        whole=True,
        name="createKey",
        about="Make an API key. Its text is in this answer and nowhere else.",
        group=_GROUP,
        body=KeyDraft,
        body_example={"scope": "submit", "label": "scanner in room 4", "requests_per_minute": 600},
        answers=NewKey,
        status=201,
        errors=(400, 413),
    ),
    Route(
        method="DELETE",
        path="/api/keys/{key_id:str}",
        serve=end_key,
        scope=Scope.ADMIN,
        whole=True,
        name="revokeKey",
        about="Take a key back: it is not valid any more.",
        group=_GROUP,
        answers=KeyLine,
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/api/keys/{key_id:str}/rotate",
        serve=turn_key,
        scope=Scope.ADMIN,
        whole=True,
        name="rotateKey",
        about="A new key with the same rights; the old one goes on for a day.",
        group=_GROUP,
        answers=NewKey,
        status=201,
        errors=(400, 404, 409),
    ),
    Route(
        method="GET",
        path="/api/audit",
        serve=audit,
        scope=Scope.OPERATE,
        whole=True,
        name="auditTrail",
        about="What was done that concerns no single batch, with actor and reason.",
        group=_GROUP,
        answers=Audit,
        errors=(400,),
        parameters=(Parameter(name="after", about="The number of the last event seen.", kind=int),),
    ),
    Route(
        method="GET",
        path="/api/cleaning",
        serve=cleaning,
        scope=Scope.OPERATE,
        whole=True,
        name="cleaning",
        about="When the server cleans up, and what it would take now.",
        group=_GROUP,
        answers=Cleaning,
    ),
)
