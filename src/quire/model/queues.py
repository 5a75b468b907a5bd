"""How each queue is consumed: the policy, and the policies of the known queues.

`max_retries` counts what comes after the first delivery: a message is delivered `max_retries` + 1 times at
most, then it is a dead letter. Dead letters stay with their queue; `dead_letter` is only a name for people.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from quire.model.redelivery import RedeliveryPolicy

MAX_NAME_CHARACTERS = 200


class QueuePolicy(Struct, frozen=True, kw_only=True):
    """`delays_seconds` are exact, one for each retry, the last of them for all that follow; without them the
    delay doubles from the first to the longest, the upper half of it by chance.

    A consumer starts when `max_batch_size` messages have come together, or with fewer after
    `max_batch_timeout_seconds`; it holds no more than that beside the `concurrency` it works on.
    """

    name: str
    max_batch_size: int = 10
    max_batch_timeout_seconds: float = 0.0
    max_retries: int = 3
    delays_seconds: tuple[float, ...] = ()
    first_delay_seconds: float = 2.0
    longest_delay_seconds: float = 300.0
    dead_letter: str = ""
    lease_seconds: float = 60.0
    concurrency: int = 1

    @property
    def max_deliveries(self) -> int:
        return self.max_retries + 1

    @property
    def redelivery(self) -> RedeliveryPolicy:
        return RedeliveryPolicy(
            max_tries=self.max_deliveries,
            delays_seconds=self.delays_seconds,
            first_delay_seconds=self.first_delay_seconds,
            longest_delay_seconds=self.longest_delay_seconds,
        )


# About 1, 5 and 15 minutes: what the model services of these queues need to recover from a rate limit.
_PATIENT = (60.0, 300.0, 900.0)

_KNOWN = (
    QueuePolicy(name="arke-preprocess-jobs", max_batch_size=1, dead_letter="preprocess-dlq"),
    QueuePolicy(
        name="arke-batch-jobs",
        max_batch_size=10,
        max_batch_timeout_seconds=30.0,
        dead_letter="arke-batch-jobs-dlq",
    ),
    QueuePolicy(
        name="manuscript-analysis-queue",
        max_batch_size=1,
        max_batch_timeout_seconds=60.0,
        delays_seconds=_PATIENT,
        dead_letter="manuscript-analysis-dlq",
    ),
    QueuePolicy(
        name="asset-generation-queue",
        max_batch_size=1,
        max_batch_timeout_seconds=60.0,
        max_retries=2,
        delays_seconds=_PATIENT[:2],
        dead_letter="asset-generation-dlq",
    ),
    QueuePolicy(name="jarvis.ocr.jobs", max_batch_size=1, max_retries=2, dead_letter="jarvis.ocr.jobs:dead"),
    QueuePolicy(
        name="jarvis.recipes.jobs", max_batch_size=1, max_retries=1, dead_letter="jarvis.recipes.jobs:dead"
    ),
)
KNOWN_QUEUES: Mapping[str, QueuePolicy] = MappingProxyType({policy.name: policy for policy in _KNOWN})

# Queues that had another name: messages under the old one are read too.
FORMER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({"arke-preprocess-jobs": ("preprocess",)})


def is_queue_name(name: str) -> bool:
    """Whether every backend can have a queue of this name, and people can read and type it."""
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable() and " " not in name


def policy_for(name: str, policies: Mapping[str, QueuePolicy] = KNOWN_QUEUES) -> QueuePolicy:
    """The policy of the queue, of the queue that had this name once, or the default one."""
    if name in policies:
        return policies[name]
    successor = next(
        (now for now, former in FORMER_NAMES.items() if name in former and now in policies), None
    )
    return QueuePolicy(name=name, dead_letter=f"{name}-dlq") if successor is None else policies[successor]
