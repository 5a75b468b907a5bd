"""Assets on the web: registration, and delivery to everyone who has the address."""

from typing import Any

from litestar import Response
from msgspec import Struct, structs

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.delivery import FOREVER, send_blob
from quire.api.routing import ApiRequest, ApiResponse, Parameter, Route, json_response, read_json
from quire.assets.registry import deliver, register
from quire.batches.remote.attempts import find_attempt, read_registry_token
from quire.model.errors import Missing, Reject, Stale

BODY_BYTES = 64 << 20
_ASSET = "01KB0000000000000000000000"


class AssetBody(Struct, frozen=True, kw_only=True):
    """Three kinds: `url` or `r2_key`; an image whose `variants` are in the store, by name; an image whose
    `variants` are a list and carry their data.
    """

    content_type: Any = None
    size_bytes: Any = None
    url: Any = None
    r2_key: Any = None
    is_image: Any = None
    original_width: Any = None
    original_height: Any = None
    default_variant: Any = None
    variants: Any = None
    original_filename: Any = None
    original_content_type: Any = None
    ipfs_cid: Any = None


async def register_asset(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    made = await register(
        context.batches.blobs,
        str(request.path_params["asset_id"]),
        await read_json(request, limit=BODY_BYTES),
        allowed=context.webhooks.outgoing.check_url,
        base_url=context.base_url(request),
        prefix=context.bucket_prefix,
    )
    return json_response(made.answer, status=201 if made.created else 200)


async def register_own_asset(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    """For a worker that runs an attempt: files of its batch and data in the body, while the attempt runs."""
    try:
        token = str(request.path_params["attempt"])
        address = read_registry_token(context.secrets, token)
        found = await find_attempt(context.remote, address)
    except Missing as error:
        raise Missing("Batch or task not found", code="unknown_task") from error
    if found.step.step != "image_variants":
        raise Missing("This attempt has no picture to register", code="unknown_task")
    if not found.is_current(address.attempt):
        raise Stale("This attempt is over; nothing more of it is registered", code="wrong_state")
    made = await register(
        context.batches.blobs,
        str(request.path_params["asset_id"]),
        await read_json(request, limit=BODY_BYTES),
        allowed=_refuse_url,
        base_url=context.base_url(request),
        prefix=context.bucket_prefix,
        folder=f"staging/{found.batch.id}/",
    )
    return json_response(made.answer, status=201 if made.created else 200)


def _refuse_url(url: str) -> str:
    raise Reject(f"A worker registers files and data, not {url[:80]!r}", code="bad_asset")


async def send_asset(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    wanted = request.path_params.get("variant") or request.query_params.get("size")
    given = await deliver(
        context.batches.blobs,
        str(request.path_params["asset_id"]),
        None if wanted is None else str(wanted),
        allowed=context.webhooks.outgoing.check_url,
    )
    if given.url:
        headers = {"location": given.url, "cache-control": FOREVER, "x-asset-id": given.asset.id}
        return Response(content=None, status_code=302, headers=headers)
    return await send_blob(context, given, request)


_GROUP = "Assets"
_AT = "/asset/{asset_id:str}"
_GET = Route(
    method="GET",
    path=_AT,
    serve=send_asset,
    scope=None,
    name="getAsset",
    about="An asset, in its usual size. Ranges and If-None-Match are understood.",
    group=_GROUP,
    contract=True,
    pages=True,
    also=(206, 302, 304),
    errors=(400, 404, 416),
    parameters=(
        Parameter(name="size", about="thumb, medium, large or original.", example="thumb"),
        Parameter(name="Range", about="A part of it, such as bytes=0-1023.", place="header"),
        Parameter(name="If-None-Match", about="The ETag of what is there already.", place="header"),
    ),
)
_VARIANT = structs.replace(
    _GET,
    path=f"{_AT}/{{variant:str}}",
    name="getAssetVariant",
    about="An asset in the requested size, or in the one that stands in for it.",
    parameters=_GET.parameters[1:],
)
_NAMED = structs.replace(
    _VARIANT,
    path=f"{_AT}/{{variant:str}}/{{file_name:str}}",
    name="getAssetVariantAs",
    about="The same, with any name at the end of the address for those who save it.",
)


def _head(route: Route) -> Route:
    about = f"What GET would answer, without the bytes. {route.about}"
    return structs.replace(route, method="HEAD", name=route.name.replace("get", "head", 1), about=about)


ROUTES = (
    Route(
        method="POST",
        path=_AT,
        serve=register_asset,
        scope=Scope.OPERATE,
        whole=True,
        name="registerAsset",
        about="Register an asset permanently; in the shape of the service, or with its renditions as base64.",
        group=_GROUP,
        contract=True,
        body=AssetBody,
        body_example={
            "is_image": True,
            "content_type": "image/jpeg",
            "original_width": 3000,
            "original_height": 2000,
            "default_variant": "medium",
            "variants": {
                "thumb": {
                    "r2_key": f"staging/{_ASSET}/p1.thumb.jpg",
                    "width": 200,
                    "height": 133,
                    "size_bytes": 9000,
                }
            },
        },
        answers=dict[str, Any],
        status=201,
        also=(200,),
        errors=(400, 409, 413),
    ),
    Route(
        method="POST",
        path="/registry/{attempt:str}/asset/{asset_id:str}",
        serve=register_own_asset,
        scope=None,
        name="registerOwnAsset",
        about="A remote worker registers the picture of its attempt, at the address that it was given.",
        group="Workers",
        contract=True,
        body=AssetBody,
        body_example={
            "variants": [{"name": "thumb", "data": "aGVsbG8=", "content_type": "image/jpeg", "size": 5}],
            "original_filename": "p1.jpg",
            "original_content_type": "image/jpeg",
            "ipfs_cid": "bafkrei",
        },
        answers=dict[str, Any],
        status=201,
        also=(200,),
        errors=(400, 403, 404, 409, 413),
    ),
    *(one for route in (_GET, _VARIANT, _NAMED) for one in (route, _head(route))),
)
