"""The keys of the bucket: those of the published design, and `queue/state/`, which is ours.

All keys are relative to the library's prefix. Promise: no text from outside gets into a key; a job's id is
64 lower-case hexadecimal digits, and is checked before a key is made of it.
"""

import re

from quire.model.errors import Reject
from quire.model.tiers import TIERS

MANIFEST = "registry/manifest.json"
CONFIG = "registry/config.json"
WORKERS = "registry/workers"
LOGS = "registry/logs"
QUEUE, TODO, STATE = "queue", "queue/todo", "queue/state"
PROCESSING, FAILED, DEAD = "queue/processing", "queue/failed", "queue/dead"
RAW, OUT = "store/raw", "store/out"

_ID = re.compile(r"[0-9a-f]{64}")


def check_hash(job: str) -> str:
    """Raises Reject with code `bad_hash`."""
    if _ID.fullmatch(job) is None:
        raise Reject(
            f"{job[:80]!r} is not a hash: give 64 hexadecimal digits in lower case.", code="bad_hash"
        )
    return job


def raw(job: str) -> str:
    return f"{RAW}/{check_hash(job)}.pdf"


def out(job: str) -> str:
    return f"{OUT}/{check_hash(job)}.zip"


def state(job: str) -> str:
    return f"{STATE}/{check_hash(job)}"


def todo(tier: str, job: str) -> str:
    if tier not in TIERS:
        raise Reject(
            f"Unknown priority {tier[:40]!r}; choose one of {', '.join(TIERS)}.", code="unknown_tier"
        )
    return f"{TODO}/{tier}/{check_hash(job)}"


def todos(job: str) -> tuple[str, ...]:
    return tuple(todo(tier, job) for tier in TIERS)


def processing(job: str) -> str:
    return f"{PROCESSING}/{check_hash(job)}"


def failed(job: str) -> str:
    return f"{FAILED}/{check_hash(job)}"


def dead(job: str) -> str:
    return f"{DEAD}/{check_hash(job)}"


def logs(job: str) -> str:
    """The folder of a job's logs."""
    return f"{LOGS}/{check_hash(job)}"


def parse_job(key: str) -> str | None:
    """The job that a key names; None for keys that name none."""
    name = key.rpartition("/")[2].partition(".")[0]
    return name if _ID.fullmatch(name) else None
