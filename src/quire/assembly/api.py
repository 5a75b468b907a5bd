"""The context of the API, the webhook sender and the rules of admission, built from settings."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import structs

from quire import __version__
from quire.access.api_keys import ApiKeyContext, KeyChecker, is_valid
from quire.access.user_tokens import UserTokens
from quire.api.app import ROUTES
from quire.api.authentication import ANONYMOUS, Authenticator, Origin, is_loopback
from quire.api.context import ApiContext
from quire.assembly.components import Components
from quire.assembly.outgoing_client import open_outgoing
from quire.assembly.pipelines import build_retry_policy
from quire.assembly.presigned_uploads import build_cleanup_policy
from quire.assembly.queues import queue_policies
from quire.assembly.remote import bucket_prefix, prices
from quire.assembly.secrets import load_valid_secrets
from quire.batches.remote.attempts import AttemptAddress
from quire.blobs.presigned_uploads import PresignedUploads
from quire.consumers import administration
from quire.events.sender import DeliveryPolicy, WebhookSender
from quire.events.webhooks import WebhookContext
from quire.ingest.context import IngestLimits, build_ingest_context
from quire.ledger.submissions import OwnerQuota
from quire.model.errors import Misconfigured
from quire.ocr.service import OcrService
from quire.recipes.context import RecipeContext
from quire.recipes.photos import PhotoRules
from quire.settings import Settings
from quire.system import LoopSignal, SystemClock

SOURCE = "urn:quire"
LEAST_SECRET_BYTES = 16


def build_api_context(
    settings: Settings,
    components: Components,
    presigned: PresignedUploads,
    *,
    recipes: RecipeContext,
    stopping: asyncio.Event,
    wake: Callable[[], None],
    delivered: Callable[[AttemptAddress], None] = lambda _: None,
    ocr: OcrService | None = None,
) -> ApiContext:
    if settings.ingest.pipeline not in components.pipelines:
        known = ", ".join(sorted(components.pipelines))
        raise Misconfigured(
            f"ingest.pipeline is {settings.ingest.pipeline!r}, and there is no such pipeline; choose one of: "
            f"{known}, or add yours to the setting pipelines",
            code="unknown_pipeline",
        )
    ingest = build_ingest_context(
        components,
        presigned,
        ingest_limits(settings),
        pipeline=settings.ingest.pipeline,
        hands_over_to=settings.ingest.hand_over_to,
    )
    return ApiContext(
        ingest=ingest,
        remote=components.remote_context(),
        queues=administration.QueueContext(
            queues=components.queues, policies=queue_policies(settings), clock=components.clock
        ),
        webhooks=WebhookContext(
            store=components.webhooks,
            outgoing=open_outgoing(settings),
            clock=components.clock,
            ids=components.ids,
        ),
        keys=ApiKeyContext(store=components.api_keys, clock=components.clock, ids=components.ids),
        recipes=recipes,
        photos=PhotoRules(sandbox=settings.sandbox),
        max_photo_bytes=settings.recipes.max_image_bytes,
        secrets=load_valid_secrets(settings),
        stopping=stopping,
        public_url=settings.serve.public_url,
        wake=wake,
        delivered=delivered,
        policy=build_retry_policy(settings),
        prices=prices(settings),
        bucket_prefix=bucket_prefix(settings),
        version=__version__,
        routes=ROUTES,
        cleaning=build_cleanup_policy(settings),
        cleaning_seconds=settings.cleaning.every_seconds,
        ocr=ocr,
    )


def build_webhook_sender(settings: Settings, components: Components) -> WebhookSender:
    chosen = settings.webhooks
    return WebhookSender(
        store=components.webhooks,
        outgoing=open_outgoing(settings),
        clock=components.clock,
        signal=LoopSignal(),
        fraction=components.ids.fraction,
        source=settings.serve.public_url or SOURCE,
        policy=DeliveryPolicy(
            max_tries=chosen.max_tries, timeout_seconds=chosen.timeout_seconds, at_once=chosen.at_once
        ),
    )


def ingest_limits(settings: Settings) -> IngestLimits:
    chosen = settings.ingest
    return IngestLimits(
        max_batch_bytes=chosen.max_batch_bytes,
        max_file_bytes=chosen.max_file_bytes,
        max_files=chosen.max_files,
        prompt_characters=chosen.prompt_characters,
        prompts_characters=chosen.prompts_characters,
        allowed_extensions=tuple(chosen.allowed_extensions.lower().split()),
        url_seconds=chosen.url_seconds,
        verify_cid_bytes=chosen.verify_cid_bytes,
    )


async def anonymous_allowed(settings: Settings, components: Components) -> bool:
    """Whether requests without a key are served; only on loopback by default. Raises Misconfigured when no
    caller could be admitted.
    """
    wanted = settings.serve.anonymous
    loopback = is_loopback(settings.serve.host)
    anonymous = wanted == "always" or (wanted == "loopback" and loopback)
    now = components.clock.now()
    tokens = bool(settings.recipes.token_secret)
    if (
        not anonymous
        and not tokens
        and not any(is_valid(key, now) for key in await components.api_keys.list_keys())
    ):
        otherwise = "do not set serve.anonymous to never" if loopback else "listen on 127.0.0.1"
        raise Misconfigured(
            f"the server on {settings.serve.host} would refuse every request: it requires API keys, and no "
            f"valid key exists; create one with `quire key create --scope admin`, or {otherwise}",
            code="no_keys",
        )
    return anonymous


def build_authenticator(
    settings: Settings, keys: KeyChecker, origin: Origin, *, anonymous: bool
) -> Authenticator:
    chosen = settings.serve
    quota = OwnerQuota(
        max_bytes=chosen.anonymous_max_bytes, max_files=chosen.anonymous_max_files, counts_kept=True
    )
    return Authenticator(
        keys.identify,
        origin,
        anonymous=anonymous,
        hosts=own_hosts(settings),
        public_url=chosen.public_url,
        # The operator has opened the server, behind a proxy that asks for something else, say.
        foreign_uploads=chosen.anonymous == "always",
        user_tokens=build_user_tokens(settings),
        caller=structs.replace(ANONYMOUS, max_batches=chosen.anonymous_max_batches, quota=quota),
    )


def build_user_tokens(settings: Settings) -> UserTokens | None:
    """None: no token is accepted. Raises Misconfigured for a secret that can be guessed."""
    secret = settings.recipes.token_secret.reveal().encode()
    if not secret:
        return None
    if len(secret) < LEAST_SECRET_BYTES:
        raise Misconfigured(
            f"recipes.token_secret is too short: it must have at least {LEAST_SECRET_BYTES} characters"
        )
    return UserTokens(secret, SystemClock())


def own_hosts(settings: Settings) -> frozenset[str]:
    public = urlsplit(settings.serve.public_url).hostname if settings.serve.public_url else None
    return frozenset({name.lower() for name in (public, settings.serve.host) if name})
