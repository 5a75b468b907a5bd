"""The step cache's keys: same step, version, options and bytes, same result.

Only what a step declares (`cache_by`) of a file's record beyond its bytes is part of the key; a step that
looks at anything else of the record would be wrong, not merely uncached.
"""

import hashlib
from typing import Any

import msgspec

from quire.model.files import File
from quire.model.plan import PlanStep
from quire.model.work import Order

_encoder = msgspec.json.Encoder(order="deterministic")


def cache_key_prefix(step: PlanStep) -> "hashlib._Hash":
    """What all tasks of a step share; copied for each file."""
    return hashlib.sha256(_encoder.encode([step.step, step.version, step.options]) + b"\0")


def cache_key_of(prefix: "hashlib._Hash", step: PlanStep, order: Order) -> str | None:
    """None when the file's bytes are not known by digest."""
    file = order.file
    if not step.cached or not file.digest:
        return None
    digest = prefix.copy()
    digest.update(_encoder.encode([file.digest, *(_said(file, name) for name in step.cache_by)]))
    if order.earlier:
        digest.update(_encoder.encode(order.earlier))
    if order.values:
        digest.update(_encoder.encode({name: value.digest or value for name, value in order.values.items()}))
    return digest.hexdigest()


def _said(file: File, name: str) -> Any:
    """A field of the record, or one key of a field that is a table: `processing_config.pdf_pages`."""
    field, dot, key_within = name.partition(".")
    value = getattr(file, field)
    return value.get(key_within) if dot else value
