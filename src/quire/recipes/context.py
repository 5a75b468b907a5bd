"""The components and rules of recipe import, built in `assembly` and handed in."""

from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from quire.batches.context import BatchContext
from quire.batches.remote.context import RemoteContext
from quire.engine.retry import RetryPolicy
from quire.model.envelopes import RECIPE_QUEUE, ImageRef
from quire.model.plan import Plan
from quire.queues.port import MessageQueues
from quire.recipes.job_ends import JobNotifier
from quire.recipes.port import RecipeStore
from quire.steps.recipe.quality_gate import QualityLimits

PIPELINE = "recipe"
HOUR_SECONDS = 3600.0


class RecipeRules(Struct, frozen=True, kw_only=True):
    """asks_service: the OCR service reads the pictures; otherwise the pipeline does
    bucket:          in which pictures lie, with `prefix`; empty: they are files
    events_queue:    gets a message when an import has ended; empty: none
    """

    asks_service: bool = False
    bucket: str = ""
    prefix: str = ""
    reply_to: str = RECIPE_QUEUE
    ocr_seconds: float = 1800.0
    fetch_seconds: float = 15.0
    allow_private: bool = False
    has_model: bool = False
    language: str = "en"
    limits: QualityLimits = QualityLimits()
    events_queue: str = ""
    key_seconds: float = 24 * HOUR_SECONDS
    abandon_seconds: float = 72 * HOUR_SECONDS
    resend_seconds: float = 60.0
    ocr_attempts: int = 3


async def _nobody_asks(_: str) -> None:
    """Where no OCR service is asked, there is nothing to call off."""


class RecipeContext(BatchContext, frozen=True, kw_only=True):
    """`secrets` sign the tokens of tasks, the first of them new ones; `wake` is called when the outbox has
    something to send or a task was answered. `call_off` tells the OCR service that an import was cancelled.
    """

    recipes: RecipeStore
    remote: RemoteContext
    queues: MessageQueues
    secrets: tuple[bytes, ...]
    rules: RecipeRules = RecipeRules()
    policy: RetryPolicy = RetryPolicy()
    job_ends: JobNotifier = field(default_factory=JobNotifier)
    wake: Callable[[], None] = lambda: None
    call_off: Callable[[str], Awaitable[None]] = _nobody_asks

    @property
    def plan(self) -> Plan:
        return self.pipelines[PIPELINE]

    def image_ref(self, key: str, index: int) -> ImageRef:
        """How the OCR service finds a picture of the store."""
        if self.rules.bucket:
            path = f"{self.rules.prefix.strip('/')}/{key}".lstrip("/")
            return ImageRef(kind="s3", value=f"s3://{self.rules.bucket}/{path}", index=index)
        return ImageRef(kind="local_path", value=str(self.blobs.local_path(key) or key), index=index)
