"""Callbacks of remote workers: a signed URL permits them, for one attempt each."""

from quire.api.context import ApiContext, Caller
from quire.api.routing import ApiRequest, ApiResponse, Parameter, Route, json_response, read_body
from quire.batches.remote import output_places
from quire.batches.remote.attempts import AttemptAddress, CallbackAnswer, read_number, verify
from quire.batches.remote.callbacks import settle_callback
from quire.compute.remote.callback_body import MAX_BODY_BYTES, Callback
from quire.compute.remote.output_request import MoreOutputs, OutputPlaces
from quire.model.errors import Missing

_BATCH = "01KA0000000000000000000000"
_SIGNED = (
    Parameter(name="task", about="The number of the task.", kind=int),
    Parameter(name="attempt", about="Which attempt it is.", kind=int),
    Parameter(name="sig", about="The signature that the URL was given with."),
)


async def receive_callback(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    about = _verify_attempt(context, request)
    body = await read_body(request, limit=MAX_BODY_BYTES)
    try:
        made = await settle_callback(
            context.remote,
            about,
            body,
            policy=context.policy,
            prices=context.prices,
            prefix=context.bucket_prefix,
        )
    except Missing as error:
        raise Missing("Batch or task not found", code="unknown_task") from error
    context.delivered(about)
    context.wake()
    return json_response(made)


async def grant_outputs(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    about = _verify_attempt(context, request)
    body = await read_body(request, limit=output_places.MAX_BODY_BYTES)
    try:
        found = await output_places.grant_places(
            context.remote,
            context.ingest.presigned,
            about,
            body,
            base_url=context.base_url(request),
            prefix=context.bucket_prefix,
        )
    except Missing as error:
        raise Missing("Batch or task not found", code="unknown_task") from error
    return json_response(found)


def _verify_attempt(context: ApiContext, request: ApiRequest) -> AttemptAddress:
    """The attempt that the URL was signed for. Raises Reject."""
    said = request.query_params
    about = AttemptAddress(
        batch_id=str(request.path_params["batch_id"]),
        task_id=str(request.path_params["task_id"]),
        task_no=read_number(said.get("task", "")),
        attempt=read_number(said.get("attempt", "")),
    )
    verify(context.secrets, about, said.get("sig", ""))
    return about


ROUTES = (
    Route(
        method="POST",
        path="/callback/{batch_id:str}/{task_id:str}",
        serve=receive_callback,
        scope=None,
        name="callback",
        about="A remote worker reports the end of an attempt, at the URL that it was given.",
        group="Workers",
        contract=True,
        body=Callback,
        body_example={
            "task_id": "tiff_3f0a91c2",
            "batch_id": _BATCH,
            "status": "success",
            "output_r2_key": f"staging/{_BATCH}/scans/p1.jpg",
            "output_file_name": "p1.jpg",
            "output_file_size": 845120,
        },
        answers=CallbackAnswer,
        errors=(400, 403, 404, 413),
        parameters=_SIGNED,
    ),
    Route(
        method="POST",
        path="/callback/{batch_id:str}/{task_id:str}/outputs",
        serve=grant_outputs,
        scope=None,
        name="moreOutputs",
        about="A remote worker asks whether its attempt still counts, and for URLs for further outputs.",
        group="Workers",
        body=MoreOutputs,
        body_example={"roles": ["jpeg-2", "jpeg-3"]},
        answers=OutputPlaces,
        errors=(400, 403, 404, 413),
        parameters=_SIGNED,
    ),
)
