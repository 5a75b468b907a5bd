"""Imports one recipe in this process, with an engine of its own: for the command line."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from quire.assembly.engine import open_engine
from quire.assembly.member_pipelines import choose_recipe_pipeline
from quire.assembly.recipes import build_recipe_context
from quire.model.errors import Reject, Stale
from quire.recipes.context import RecipeContext
from quire.recipes.photos import PhotoRules, prepare_photos
from quire.recipes.port import JobStatus, RecipeJob
from quire.recipes.requests import Requester, import_pictures, import_url
from quire.recipes.saving import cancel_import
from quire.recipes.starting import has_ended
from quire.recipes.states import abandon, is_open
from quire.settings import Settings

USER = "local"
LOOK_SECONDS = 0.2
END_SECONDS = 0.05
GRACE_SECONDS = 5.0

Trouble = Callable[[str | None], None]
Observe = Callable[[str], None]  # called with each stage


class WantedRecipe(Struct, frozen=True, kw_only=True):
    """Photos in their order, or the address of a page."""

    photos: Sequence[Path] = ()
    filename: str = ""
    url: str = ""
    title_hint: str = ""
    use_model: bool = True


async def import_recipe(
    settings: Settings, wanted: WantedRecipe, stop: asyncio.Event, *, observe: Observe, trouble: Trouble
) -> RecipeJob | None:
    """The import at its end; None: stopped before, and cancelled. Raises Reject for what cannot be one."""
    photos: list[bytes] = []
    if wanted.photos:
        observe("READING_FILES")
        photos = await prepare_photos(wanted.photos, PhotoRules(sandbox=settings.sandbox))
    async with (
        open_engine(
            settings,
            pipelines=choose_recipe_pipeline(settings),
            kind="recipe",
            trouble=trouble,
            starts_ahead=True,
        ) as components,
        components.start_engine(schedules=True, workers=1) as loop,
    ):
        context = build_recipe_context(settings, components, wake=loop.wake, embedded=True)
        requester = Requester(user_id=USER)
        if photos:
            accepted = await import_pictures(
                context, requester, photos, title_hint=wanted.title_hint, filename=wanted.filename
            )
        else:
            accepted = await import_url(context, requester, wanted.url, use_model=wanted.use_model)
        running = asyncio.create_task(loop.run(None))
        try:
            job = await _wait(context, accepted.job_id, running, stop, observe)
            if job is not None:
                await _leave(context, job, running)
            return job
        finally:
            loop.stop()
            await asyncio.wait({running})
            await loop.shut_down(GRACE_SECONDS)


async def _leave(context: RecipeContext, job: RecipeJob, running: "asyncio.Task[None]") -> None:
    """Let its batch come to its end, too, and mark the import: it is printed, nobody will save it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            while not running.done() and not await has_ended(context, job):
                await asyncio.wait({running}, timeout=END_SECONDS)
    if job.status is JobStatus.COMPLETE:
        with suppress(Stale):
            await context.recipes.replace_job(abandon(job, now=context.clock.now()))


async def _wait(
    context: RecipeContext, job_id: str, running: "asyncio.Task[None]", stop: asyncio.Event, observe: Observe
) -> RecipeJob | None:
    ended, stage = context.job_ends.watch(job_id), ""
    while not stop.is_set():
        job = await context.recipes.get_job(job_id)
        if job.stage.value != stage:
            stage = job.stage.value
            observe(stage)
        if not is_open(job):
            return job
        if running.done():
            running.result()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await ended.wait()
    with suppress(Reject):  # it has come to its end meanwhile
        await cancel_import(context, USER, job_id, actor="the command line")
    return None
