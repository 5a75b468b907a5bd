"""IIIF: batches as manifests and assets as image services, for any viewer of that standard."""

from typing import Any

from litestar import Response
from msgspec import structs

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.delivery import send_blob
from quire.api.routing import ApiRequest, ApiResponse, Parameter, Route, json_response
from quire.assets import iiif, tiles
from quire.assets.registry import find_asset, locate_rendition
from quire.model.errors import Missing, Reject

_KEPT = {"cache-control": "public, max-age=3600"}


async def show_manifest(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    limit = request.query_params.get("limit", str(iiif.MAX_CANVASES))
    if (
        not limit.isascii()
        or not limit.isdecimal()
        or len(limit) > 9
        or not 1 <= int(limit) <= iiif.MAX_CANVASES
    ):
        raise Reject(f"limit is a whole number from 1 to {iiif.MAX_CANVASES}")
    try:
        made = await iiif.build_manifest(
            context.batches.batches,
            context.batches.records,
            context.batches.blobs,
            str(request.path_params["batch_id"]),
            base_url=context.base_url(request),
            after=request.query_params.get("after", "").encode("utf-8", "replace").decode(),
            limit=int(limit),
        )
    except Missing as error:
        if error.code == "no_pictures":
            raise
        raise Missing("Batch not found", code="unknown_batch") from error
    return json_response(made)


async def redirect_to_info(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    asset = await find_asset(context.batches.blobs, str(request.path_params["asset_id"]))
    at = f"{context.base_url(request)}/iiif/{asset.id}/info.json"
    return Response(content=None, status_code=303, headers={"location": at})


async def show_image_info(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    asset = await find_asset(context.batches.blobs, str(request.path_params["asset_id"]))
    cut = await tiles.find_tiles(context.batches.blobs, asset)
    return json_response(
        iiif.build_image_info(asset, cut, base_url=context.base_url(request)), headers=dict(_KEPT)
    )


async def send_picture(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said, blobs = request.path_params, context.batches.blobs
    asset = await find_asset(blobs, str(said["asset_id"]))
    region, size, file_name = (str(said[name]) for name in ("region", "size", "file_name"))
    cut = await tiles.find_tiles(blobs, asset)
    tile = tiles.match_tile(cut, region, size, file_name)
    if cut is not None and tile is not None:
        return await send_blob(context, await tiles.locate_tile(blobs, asset, cut, tile), request)
    if region != "full":
        raise Missing("No such tile; info.json says which there are", code="unknown_variant")
    role = iiif.find_rendition(asset, size, file_name)
    return await send_blob(context, await locate_rendition(blobs, asset, role), request)


_GROUP = "IIIF"
_AT = "/iiif/{asset_id:str}"
_PICTURE = Route(
    method="GET",
    path=f"{_AT}/{{region:str}}/{{size:str}}/0/{{file_name:str}}",
    serve=send_picture,
    scope=None,
    name="iiifPicture",
    about="A picture (`full`) in one of the sizes of its info.json: `max`, `w,h` or `w,`; or one of its "
    "tiles (`x,y,w,h`) in its size. As default.jpg.",
    group=_GROUP,
    pages=True,
    also=(206, 304),
    errors=(404, 416),
)
ROUTES = (
    Route(
        method="GET",
        path="/api/batches/{batch_id:str}/iiif/manifest.json",
        serve=show_manifest,
        scope=Scope.READ,
        name="iiifManifest",
        about="The pictures of a batch as a IIIF manifest (Presentation 3), in order of path.",
        group=_GROUP,
        pages=True,
        answers=dict[str, Any],
        errors=(400, 404),
        parameters=(
            Parameter(name="after", about="Only files after this path; `seeAlso` has the next page."),
            Parameter(
                name="limit",
                about=f"About so many pictures, up to {iiif.MAX_CANVASES}.",
                kind=int,
                example=100,
            ),
        ),
    ),
    Route(
        method="GET",
        path=_AT,
        serve=redirect_to_info,
        scope=None,
        name="iiifService",
        about="Leads to the image service's info.json.",
        group=_GROUP,
        pages=True,
        status=303,
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/info.json",
        serve=show_image_info,
        scope=None,
        name="iiifInformation",
        about="A picture as a IIIF image service (Image 3, level 0), with the sizes and tiles that exist.",
        group=_GROUP,
        pages=True,
        answers=dict[str, Any],
        errors=(404,),
    ),
    _PICTURE,
    structs.replace(
        _PICTURE, method="HEAD", name="iiifPictureHead", about="What GET would say, without the bytes."
    ),
)
