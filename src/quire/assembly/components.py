"""Everything that one process works with, built from settings: the only place that holds every port."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

from msgspec import Struct, field, structs

from quire.access.port import ApiKeyStore
from quire.assembly.blobs import open_blobs
from quire.assembly.ledger import Stores, open_stores
from quire.assembly.member_pipelines import find_own_pipelines
from quire.assembly.presence import make_home
from quire.batches.context import Defaults, RunContext, StartEngine
from quire.batches.remote.context import RemoteContext
from quire.blobs.port import Blobs
from quire.events.port import WebhookStore
from quire.ingest.context import UploadContext
from quire.ledger.port import MemberStore, OutboxStore, TaskStore
from quire.model.batch import Budget
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.pipelines import to_pipelines
from quire.model.plan import Plan
from quire.model.tiers import tier_number
from quire.recipes.job_ends import JobNotifier
from quire.recipes.port import RecipeStore
from quire.settings import Settings
from quire.system import SystemClock, SystemIds

T = TypeVar("T", bound=Struct)


class Components(UploadContext, frozen=True, kw_only=True):
    """The contexts of the product rooms are views of it."""

    tasks: TaskStore
    members: MemberStore
    outbox: OutboxStore
    api_keys: ApiKeyStore
    webhooks: WebhookStore
    recipes: RecipeStore
    job_ends: JobNotifier = field(default_factory=JobNotifier)
    warnings: tuple[str, ...] = ()  # what the backends may lose, for people to know

    def remote_context(self) -> RemoteContext:
        return _view(self, RemoteContext)


class EngineComponents(Components, frozen=True, kw_only=True):
    """The components of a process that also runs the engine."""

    start_engine: StartEngine
    claim_request: Callable[[str], AbstractContextManager[None]]

    def run_context(self) -> RunContext:
        return _view(self, RunContext)


@asynccontextmanager
async def open_components(
    settings: Settings, *, pipelines: Mapping[str, Plan] | None = None
) -> AsyncIterator[Components]:
    """To inspect and control batches, also while other processes work on them: nothing runs here."""
    make_home(settings.home)
    ids = SystemIds()
    blobs = open_blobs(settings)
    try:
        async with open_stores(settings, ids) as stores:
            yield build_components(settings, stores, blobs, SystemClock(), ids, pipelines)
    finally:
        await blobs.close()


def build_components(
    settings: Settings,
    stores: Stores,
    blobs: Blobs,
    clock: Clock,
    ids: Ids,
    pipelines: Mapping[str, Plan] | None,
) -> Components:
    """`pipelines` None: those of the settings, which are loaded when one is asked for."""
    ports = field_values(stores)
    del ports["listen"]
    return Components(
        **ports,
        blobs=blobs,
        clock=clock,
        ids=ids,
        pipelines=find_own_pipelines(settings) if pipelines is None else to_pipelines(pipelines),
        defaults=Defaults(
            tier=tier_number(settings.priority), tenant=settings.tenant, budget=budget(settings)
        ),
    )


def budget(settings: Settings) -> Budget:
    chosen = settings.budget
    return Budget(
        seconds=chosen.seconds or None,
        tokens=chosen.tokens or None,
        money_micros=round(chosen.money * 1_000_000) or None,
    )


def field_values(components: Struct) -> dict[str, Any]:
    return {one.name: getattr(components, one.name) for one in structs.fields(components)}


def _view(components: Components, context: type[T]) -> T:
    return context(**{one.name: getattr(components, one.name) for one in structs.fields(context)})
