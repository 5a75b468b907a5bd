"""Callbacks of workers that run elsewhere: the URL itself permits them, for one attempt each."""

from quire.api.context import ApiContext, Caller
from quire.api.routing import Answer, Asked, Parameter, Route, answer, body_of
from quire.batches.remote import output_places
from quire.batches.remote.callbacks import (
    MAX_BODY_BYTES,
    Attempt,
    CallbackAnswer,
    receive,
    verify,
)
from quire.compute.remote.callback_body import Callback
from quire.compute.remote.output_request import MoreOutputs, OutputPlaces
from quire.model.errors import Missing, Reject

_BATCH = "01KA0000000000000000000000"
_SIGNED = (
    Parameter(name="task", about="The number of the task.", kind=int),
    Parameter(name="attempt", about="Which attempt it is.", kind=int),
    Parameter(name="sig", about="The signature that the URL was given with."),
)


async def callback(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    about = _about(desk, request)
    body = await body_of(request, limit=MAX_BODY_BYTES)
    try:
        made = await receive(
            desk.office,
            about,
            body,
            policy=desk.policy,
            prices=desk.prices,
            prefix=desk.bucket_prefix,
        )
    except Missing as error:
        raise Missing("Batch or task not found", code="unknown_task") from error
    desk.delivered(about)
    desk.wake()
    return answer(made)


async def outputs(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    about = _about(desk, request)
    body = await body_of(request, limit=output_places.MAX_BODY_BYTES)
    try:
        found = await output_places.places(
            desk.office,
            desk.front.landing,
            about,
            body,
            base_url=desk.base_url(request),
            prefix=desk.bucket_prefix,
        )
    except Missing as error:
        raise Missing("Batch or task not found", code="unknown_task") from error
    return answer(found)


def _about(desk: ApiContext, request: Asked) -> Attempt:
    """The attempt that the URL stands for, when it was made here. Raises Reject."""
    said = request.query_params
    about = Attempt(
        batch_id=str(request.path_params["batch_id"]),
        task_id=str(request.path_params["task_id"]),
        task_no=_number(said.get("task", "")),
        attempt=_number(said.get("attempt", "")),
    )
    verify(desk.secret, about, said.get("sig", ""))
    return about


def _number(said: str) -> int:
    if not said.isascii() or not said.isdecimal() or len(said) > 18:
        raise Reject("this callback URL was not made here", code="bad_signature")
    return int(said)


ROUTES = (
    Route(
        method="POST",
        path="/callback/{batch_id:str}/{task_id:str}",
        serve=callback,
        scope=None,
        name="callback",
        about="A worker that runs elsewhere reports the end of an attempt, at the URL that it was given.",
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
        serve=outputs,
        scope=None,
        name="moreOutputs",
        about="A worker that runs elsewhere asks whether its attempt still counts, and for places for pages.",
        group="Workers",
        body=MoreOutputs,
        body_example={"roles": ["jpeg-2", "jpeg-3"]},
        answers=OutputPlaces,
        errors=(400, 403, 404, 413),
        parameters=_SIGNED,
    ),
)
