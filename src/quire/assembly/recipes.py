"""Recipe import from settings: its context, the consumers of its queues, and what looks after its jobs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

from msgspec import structs

from quire.assembly.components import Components
from quire.assembly.ocr_reading import build_reading_options
from quire.assembly.pipelines import build_retry_policy
from quire.assembly.queues import apply_table
from quire.assembly.redis_lists import travels_on_lists
from quire.assembly.running_consumers import running
from quire.assembly.secrets import load_valid_secrets
from quire.consumers.consumer import Consumer, Handler
from quire.model.envelopes import RECIPE_QUEUE
from quire.model.errors import Retry, Unavailable
from quire.model.queues import QueuePolicy, policy_for
from quire.queues.port import LeasedMessage
from quire.recipes.context import RecipeContext, RecipeRules
from quire.recipes.messages import QueueEnvelope, read_message, take_message
from quire.recipes.results import read_result, take_result
from quire.recipes.sweeping import sweep
from quire.settings import Settings
from quire.steps.recipe.import_values import RESULTS_QUEUE, ImportResult
from quire.steps.recipe.quality_gate import QualityLimits
from quire.system import LoopSignal

AT_ONCE = 8
SWEEP_SECONDS = 10.0
MARK_SECONDS = 2.0
MARKED_SECONDS = 86_400.0
# The broker may be away for hours; what it brings is not at fault.
DELIVERIES = 100

T = TypeVar("T")
Trouble = Callable[[str | None], None]

_log = logging.getLogger("quire.recipes")


def build_recipe_context(
    settings: Settings,
    components: Components,
    *,
    wake: Callable[[], None] = lambda: None,
    embedded: bool = False,
) -> RecipeContext:
    """`embedded`: for a process that does everything itself, and asks no OCR service."""
    shared = {
        name: getattr(components, name)
        for name in RecipeContext.__struct_fields__
        if name in Components.__struct_fields__
    }
    context = RecipeContext(
        **shared,
        remote=components.remote_context(),
        secrets=load_valid_secrets(settings),
        rules=build_recipe_rules(settings, embedded=embedded),
        policy=build_retry_policy(settings),
        wake=wake,
    )
    if travels_on_lists(settings) and not embedded:
        return structs.replace(context, call_off=CancelledMarks(settings))
    return context


class CancelledMarks:
    """Marks on Redis that OCR workers look for before they read the pictures of an import. With Redis away
    there is none; then the answer is dropped when it comes.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(self, workflow_id: str) -> None:
        from quire.ocr.redis_states import RedisJobStates

        marks = RedisJobStates(self._settings.redis.url.reveal())
        try:
            async with asyncio.timeout(MARK_SECONDS):
                await marks.mark_cancelled(workflow_id, seconds=MARKED_SECONDS)
        except (Retry, TimeoutError) as error:
            _log.warning("recipe_import_not_called_off: %s: %s", workflow_id, error)
        finally:
            await marks.close()


def build_recipe_rules(settings: Settings, *, embedded: bool = False) -> RecipeRules:
    chosen = settings.recipes
    on_s3 = settings.store == "s3"
    return RecipeRules(
        asks_service=asks_service(settings) and not embedded,
        bucket=settings.s3.bucket if on_s3 else "",
        prefix=settings.s3.prefix if on_s3 else "",
        ocr_seconds=chosen.ocr_timeout_seconds,
        fetch_seconds=chosen.fetch_timeout_seconds,
        allow_private=chosen.allow_private,
        has_model=bool(settings.model) and chosen.use_model,
        language=chosen.language,
        reading=build_reading_options(settings.ocr).without_models(),
        limits=QualityLimits(min_characters=chosen.min_characters, min_lines=chosen.min_lines),
        events_queue=chosen.events_queue,
        abandon_seconds=chosen.abandon_minutes * 60,
    )


def asks_service(settings: Settings) -> bool:
    """Whether photos go to the OCR service."""
    chosen = settings.recipes.ocr
    return chosen == "service" or (chosen == "auto" and travels_on_lists(settings))


@asynccontextmanager
async def consuming_results(
    settings: Settings, components: Components, context: RecipeContext, trouble: Trouble
) -> AsyncIterator[None]:
    """Store what the pipeline hands over, for as long as the block lasts."""

    async def handle(result: ImportResult, _: LeasedMessage) -> None:
        await take_result(context, result)

    plain = QueuePolicy(
        name=RESULTS_QUEUE, concurrency=AT_ONCE, max_retries=DELIVERIES, dead_letter=f"{RESULTS_QUEUE}-dlq"
    )
    policy = apply_table(plain, RESULTS_QUEUE, settings)
    consumer = build_consumer(components, policy, handle, read_result, trouble)
    async with running(consumer, _log, "recipe_messages_not_consumed"):
        yield


@asynccontextmanager
async def consuming_messages(
    settings: Settings, components: Components, context: RecipeContext, trouble: Trouble
) -> AsyncIterator[None]:
    """Take what the OCR service and other programs send, for as long as the block lasts."""

    async def handle(envelope: QueueEnvelope, _: LeasedMessage) -> None:
        try:
            await take_message(context, envelope)
        except Retry as error:
            # Not the message's fault: its import will wait for it soon, or the database is away.
            raise Unavailable(str(error), code=error.code) from error

    policy = apply_table(policy_for(RECIPE_QUEUE), RECIPE_QUEUE, settings)
    consumer = build_consumer(components, policy, handle, read_message, trouble)
    async with running(consumer, _log, "recipe_messages_not_consumed"):
        yield


def build_consumer(
    components: Components,
    policy: QueuePolicy,
    handle: Handler[T],
    decode: Callable[[bytes], T],
    trouble: Trouble,
) -> Consumer[T]:
    return Consumer(
        components.queues,
        policy,
        handle,
        decode=decode,
        clock=components.clock,
        ids=components.ids,
        signal=LoopSignal(),
        trouble=trouble,
    )


async def run_recipe_import(
    settings: Settings, components: Components, context: RecipeContext, stop: asyncio.Event, trouble: Trouble
) -> None:
    """What a server does beside its API and its engine, until `stop`."""
    async with AsyncExitStack() as stack:
        if asks_service(settings) or travels_on_lists(settings):
            await stack.enter_async_context(consuming_messages(settings, components, context, trouble))
        await sweep_regularly(context, stop)


async def sweep_regularly(context: RecipeContext, stop: asyncio.Event) -> None:
    """At once after a start: what a killed process has accepted does not wait."""
    age: float | None = 0.0
    while not stop.is_set():
        try:
            await sweep(context, unstarted_seconds=age)
            age = None
        except Retry as error:
            _log.warning("recipe_imports_not_swept: %s", error)
        with suppress(TimeoutError):
            async with asyncio.timeout(SWEEP_SECONDS):
                await stop.wait()
