"""Answers to tasks that wait for somebody outside: the queue on which they arrive."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from quire.assembly.components import Components
from quire.assembly.pipelines import build_retry_policy
from quire.assembly.queues import apply_table
from quire.assembly.remote import bucket_prefix
from quire.assembly.running_consumers import running
from quire.assembly.secrets import load_valid_secrets
from quire.batches.remote.answers import Answer, complete_task, read_message
from quire.consumers.consumer import Consumer
from quire.model.errors import Retry, Unavailable
from quire.model.queues import QueuePolicy
from quire.queues.port import LeasedMessage
from quire.settings import Settings
from quire.system import LoopSignal

AT_ONCE = 16
# By a queue an answer can wait outside of the handler.
PATIENCE_SECONDS = 1.0

_log = logging.getLogger("quire.answers")

Trouble = Callable[[str | None], None]


def answers_policy(settings: Settings) -> QueuePolicy:
    name = settings.compute.answers
    plain = QueuePolicy(name=name, concurrency=AT_ONCE, dead_letter=f"{name}-dlq")
    return apply_table(plain, name, settings)


@asynccontextmanager
async def consuming_answers(
    settings: Settings, components: Components, wake: Callable[[], None], trouble: Trouble
) -> AsyncIterator[None]:
    """Complete tasks by the messages on the queue of answers. A message is acknowledged when the ledger has
    it, and becomes a dead letter when it can never be right. `wake` is called when a task was completed.
    """
    secrets, context = load_valid_secrets(settings), components.remote_context()
    policy, prefix = build_retry_policy(settings), bucket_prefix(settings)

    async def handle(message: tuple[str, Answer], _: LeasedMessage) -> None:
        token, answer = message
        try:
            await complete_task(
                context,
                secrets,
                token,
                answer,
                policy=policy,
                prefix=prefix,
                patience_seconds=PATIENCE_SECONDS,
            )
        except Retry as error:
            if error.code != "too_early":
                raise
            # Delivered again, as if it had not been delivered: its task will wait for it soon.
            raise Unavailable(str(error), code=error.code) from error
        wake()

    consumer = Consumer(
        components.queues,
        answers_policy(settings),
        handle,
        decode=read_message,
        clock=components.clock,
        ids=components.ids,
        signal=LoopSignal(),
        trouble=trouble,
    )
    async with running(consumer, _log, "answers_not_consumed"):
        yield
