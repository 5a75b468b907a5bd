"""Administration of the whole server: API keys, the audit trail, cleaning."""

import msgspec
from msgspec import Struct

from quire.access.api_keys import KeyDraft, KeyLine, NewKey, Scope, create, list_keys, revoke, rotate
from quire.api.context import ApiContext, Caller
from quire.api.routing import ApiRequest, ApiResponse, Parameter, Route, json_response, read_json
from quire.batches.lines import BatchEvent
from quire.ingest.cleanup import CleanupCandidate, list_due
from quire.ledger.port import NO_BATCH
from quire.model.clock import timestamp
from quire.model.errors import Reject

PAGE = 200


class KeyList(Struct, frozen=True, kw_only=True):
    keys: list[KeyLine]


class AuditTrail(Struct, frozen=True, kw_only=True):
    events: list[BatchEvent]


class CleaningStatus(Struct, frozen=True, kw_only=True):
    idle_upload_days: float
    staging_days: float
    every_seconds: float
    due: list[CleanupCandidate]


async def show_keys(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(KeyList(keys=await list_keys(context.keys)))


async def create_key(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    try:
        draft = msgspec.convert(await read_json(request), KeyDraft)
    except msgspec.ValidationError as error:
        raise Reject(f"Not the description of a key: {error}") from error
    made = await create(context.keys, draft)
    await context.acted(caller, "key_created", {"key": made.key.id, "scope": made.key.scope})
    return json_response(made, status=201)


async def revoke_key(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    line = await revoke(context.keys, str(request.path_params["key_id"]))
    await context.acted(caller, "key_revoked", {"key": line.id})
    return json_response(line)


async def rotate_key(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    made = await rotate(context.keys, str(request.path_params["key_id"]))
    await context.acted(caller, "key_rotated", {"key": made.key.id})
    return json_response(made, status=201)


async def show_audit_trail(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    after = request.query_params.get("after", "0")
    if not after.isascii() or not after.isdecimal() or len(after) > 18:
        raise Reject("after is the number of an event")
    page = await context.batches.records.list_events(NO_BATCH, after=int(after), limit=PAGE)
    return json_response(
        AuditTrail(
            events=[BatchEvent(no=no, at=timestamp(at), kind=kind, data=data) for no, at, kind, data in page]
        )
    )


async def show_cleaning(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    terms = context.cleaning
    return json_response(
        CleaningStatus(
            idle_upload_days=terms.idle_upload_days,
            staging_days=terms.staging_days,
            every_seconds=context.cleaning_seconds,
            due=await list_due(context.ingest, terms),
        )
    )


_GROUP = "Administration"
ROUTES = (
    Route(
        method="GET",
        path="/api/keys",
        serve=show_keys,
        scope=Scope.ADMIN,
        whole=True,
        name="listKeys",
        about="API keys: what they allow, when they end, when they were last used. Never their text.",
        group=_GROUP,
        answers=KeyList,
    ),
    Route(
        method="POST",
        path="/api/keys",
        serve=create_key,
        scope=Scope.ADMIN,
        whole=True,
        name="createKey",
        about="Create an API key. Its text is in this answer and nowhere else.",
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
        serve=revoke_key,
        scope=Scope.ADMIN,
        whole=True,
        name="revokeKey",
        about="Revoke a key: it is invalid from now on.",
        group=_GROUP,
        answers=KeyLine,
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/api/keys/{key_id:str}/rotate",
        serve=rotate_key,
        scope=Scope.ADMIN,
        whole=True,
        name="rotateKey",
        about="A new key with the same rights; the old one stays valid for a day.",
        group=_GROUP,
        answers=NewKey,
        status=201,
        errors=(400, 404, 409),
    ),
    Route(
        method="GET",
        path="/api/audit",
        serve=show_audit_trail,
        scope=Scope.OPERATE,
        whole=True,
        name="auditTrail",
        about="Actions that concern no single batch, with actor and reason.",
        group=_GROUP,
        answers=AuditTrail,
        errors=(400,),
        parameters=(Parameter(name="after", about="The number of the last event seen.", kind=int),),
    ),
    Route(
        method="GET",
        path="/api/cleaning",
        serve=show_cleaning,
        scope=Scope.OPERATE,
        whole=True,
        name="cleaning",
        about="When the server cleans up, and what it would delete now.",
        group=_GROUP,
        answers=CleaningStatus,
    ),
)
