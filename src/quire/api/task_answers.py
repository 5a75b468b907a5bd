"""Answers to tasks that wait for somebody outside: a token in the URL permits them, for one attempt each."""

from quire.api.context import ApiContext, Caller
from quire.api.routing import ApiRequest, ApiResponse, Route, json_response, read_body
from quire.batches.remote.answers import MAX_BODY_BYTES, Answer, TaskAnswered, complete_task, read_answer
from quire.model.errors import Missing
from quire.model.task_tokens import read_token


async def answer_task(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    token = str(request.path_params["token"])
    read_token(context.secrets, token)  # before anything is read of the body
    answer = read_answer(await read_body(request, limit=MAX_BODY_BYTES))
    try:
        answered = await complete_task(
            context.remote,
            context.secrets,
            token,
            answer,
            policy=context.policy,
            prefix=context.bucket_prefix,
        )
    except Missing as error:
        if error.code not in {"unknown_batch", "unknown_task"}:
            raise
        raise Missing("Batch or task not found", code="unknown_task") from error
    context.wake()
    return json_response(answered)


ROUTES = (
    Route(
        method="POST",
        path="/tasks/{token:str}",
        serve=answer_task,
        scope=None,
        name="answerTask",
        about="Somebody whom a step has asked completes its task, with the token that the request had.",
        group="Workers",
        body=Answer,
        body_example={
            "status": "success",
            "value": {"pages": 3},
            "outputs": [{"name": "page.txt", "text": "Dear Emma, …"}],
        },
        answers=TaskAnswered,
        errors=(400, 403, 404, 413, 503),
    ),
)
