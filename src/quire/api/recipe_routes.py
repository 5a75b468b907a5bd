"""The routes of recipe import, as values; what they do is in `api.recipes`."""

from quire.access.api_keys import Scope
from quire.api.recipes import (
    InvalidAnswer,
    JobAccepted,
    PageBody,
    PageParsed,
    PayloadBody,
    PhotosAccepted,
    SavedAnswer,
    cancel_job,
    import_anything,
    import_page,
    import_payload,
    import_photos,
    list_jobs,
    parse_page_now,
    save_recipe,
    show_job,
)
from quire.api.routing import Parameter, Route
from quire.recipes.bodies import RecipeBody
from quire.recipes.lines import JobList, JobView

_GROUP = "Recipes"
_JOB = "5b0e6a1c-9f0d-4c55-8a43-6c8f1b1b7a10"
_PAGE = {"url": "https://example.org/pancakes", "use_llm_fallback": False}
_VIEW = {
    "id": _JOB,
    "status": "COMPLETE",
    "stage": "COMPLETE",
    "result": {"recipe_draft": {"title": "Pancakes"}, "pipeline": {"parser_strategy": "schema_org_json_ld"}},
    "error_code": None,
    "error_message": None,
    "next_action": None,
    "next_action_reason": None,
}
_RECIPE = {
    "title": "Pancakes",
    "ingredients": [{"name": "eggs", "quantity": "2"}, "1 cup flour"],
    "steps": ["Mix everything.", "Fry."],
    "parse_job_id": _JOB,
}
_ACCEPTED = {"id": _JOB, "status": "PENDING", "next_action": None, "next_action_reason": None}
_KEY = Parameter(
    name="Idempotency-Key",
    about="The same key again, within a day, gets the same answer; other content under it is refused.",
    place="header",
)


def _photo_route(path: str, name: str) -> Route:
    return Route(
        method="POST",
        path=path,
        serve=import_photos,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name=name,
        about="Import the recipe on 1 to 8 photos, sent as the form field `images`.",
        group=_GROUP,
        body=bytes,
        body_type="multipart/form-data",
        answers=PhotosAccepted,
        answer_example={"ingestion_id": "0d5f6d7c-2c43-4b0e-9d55-0c6c2f6f6d11", "job_id": _JOB},
        status=202,
        errors=(400, 401, 413, 422, 503),
        parameters=(
            Parameter(name="title_hint", about="The title, where it is known."),
            Parameter(name="tier_max", about="Accepted for published apps; has no effect.", kind=int),
            _KEY,
        ),
    )


def _page_route(path: str, name: str) -> Route:
    return Route(
        method="POST",
        path=path,
        serve=import_page,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name=name,
        about="Import the recipe of a web page.",
        group=_GROUP,
        body=PageBody,
        body_example=_PAGE,
        answers=JobAccepted,
        answer_example=_ACCEPTED,
        status=202,
        errors=(400, 401, 422, 503),
        parameters=(_KEY,),
    )


def _job_route(path: str, name: str) -> Route:
    return Route(
        method="GET",
        path=path,
        serve=show_job,
        scope=Scope.SUBMIT,
        users=True,
        name=name,
        about="How far an import is, and its recipe when it is complete.",
        group=_GROUP,
        answers=JobView,
        answer_example=_VIEW,
        errors=(400, 401, 404),
        parameters=(
            Parameter(
                name="wait", about="Answer when the import is over, at most after so many seconds.", kind=int
            ),
        ),
    )


ROUTES = (
    _photo_route("/recipes/from-image/jobs", "importPhotos"),
    _photo_route("/recipes/import/image", "importImage"),
    _page_route("/recipes/parse-url/async", "importPage"),
    _page_route("/recipes/import/url", "importUrl"),
    Route(
        method="POST",
        path="/imports",
        serve=import_anything,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name="importAnything",
        about="Import photos (a form), a page (`url`) or a recipe that a person has written.",
        group=_GROUP,
        body=PageBody,
        body_example=_PAGE,
        answers=JobAccepted,
        answer_example=_ACCEPTED,
        status=202,
        errors=(400, 401, 413, 422, 503),
        parameters=(_KEY,),
    ),
    Route(
        method="POST",
        path="/recipes/parse-payload/async",
        serve=import_payload,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name="importPayload",
        about="Import the recipe from what an app has taken from the page that it shows.",
        group=_GROUP,
        body=PayloadBody,
        body_example={
            "input": {
                "source_type": "client_webview",
                "source_url": "https://example.org/pancakes",
                "jsonld_blocks": ['{"@type": "Recipe", "name": "Pancakes"}'],
            }
        },
        answers=JobAccepted,
        answer_example=_ACCEPTED,
        status=202,
        errors=(400, 401, 413, 422, 503),
        parameters=(_KEY,),
    ),
    Route(
        method="POST",
        path="/recipes/parse-url",
        serve=parse_page_now,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name="parsePage",
        about="Import the recipe of a web page and wait for it; with `save` it is saved at once.",
        group=_GROUP,
        body=PageBody,
        body_example=_PAGE | {"save": False},
        answers=PageParsed,
        answer_example=_VIEW | {"recipe_id": None},
        errors=(400, 401, 422, 503),
        parameters=(_KEY,),
    ),
    Route(
        method="GET",
        path="/recipes/jobs",
        serve=list_jobs,
        scope=Scope.SUBMIT,
        users=True,
        name="listImports",
        about="The newest imports of the caller, at most 50.",
        group=_GROUP,
        answers=JobList,
        errors=(400, 401),
        parameters=(
            Parameter(name="status", about="COMPLETE unless given.", example="COMPLETE"),
            Parameter(name="include_expired", about="With imports that were abandoned.", kind=bool),
        ),
    ),
    _job_route("/recipes/jobs/{job_id:str}", "showImport"),
    _job_route("/recipes/parse-url/status/{job_id:str}", "showPageImport"),
    Route(
        method="POST",
        path="/recipes/jobs/{job_id:str}/cancel",
        serve=cancel_job,
        scope=Scope.SUBMIT,
        users=True,
        name="cancelImport",
        about="Cancel an import that is not over.",
        group=_GROUP,
        answers=JobView,
        answer_example=_VIEW | {"status": "CANCELED", "stage": "OCR_PENDING", "result": None},
        errors=(401, 404, 409),
    ),
    Route(
        method="POST",
        path="/recipes",
        serve=save_recipe,
        scope=Scope.SUBMIT,
        invalid=InvalidAnswer,
        users=True,
        name="saveRecipe",
        about="Save a recipe; with `parse_job_id` the import that it comes from is committed.",
        group=_GROUP,
        body=RecipeBody,
        body_example=_RECIPE,
        answers=SavedAnswer,
        status=201,
        errors=(400, 401, 404, 409, 422, 503),
        parameters=(_KEY,),
    ),
)
