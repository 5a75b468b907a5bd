"""Conditional writes to S3: one writer wins and knows it.

Promise: a refusal by the server means Stale, unless it is caused by this writer's own success whose answer
was lost, or by no writer (409, or a blob deleted meanwhile): then it is retried. Must not know: prefixes,
streams.
"""

import asyncio
import secrets
from typing import TYPE_CHECKING

from quire.blobs.labels import NONCE
from quire.blobs.port import Condition, IfAbsent
from quire.blobs.s3.errors import UNAVAILABLE, status_of, translate, translate_errors
from quire.model.errors import Misconfigured, Missing, Retry, Stale

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult
    from obstore.store import S3Store

_ATTEMPTS = 5
_ATTEMPTS_UNANSWERED = 2  # each of them has been repeated by the client already, up to its timeout


class ConditionalWriter:
    def __init__(self, store: "S3Store", bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    async def put(
        self, path: str, key: str, body: bytes, attributes: dict[str, str], condition: Condition
    ) -> str:
        """The new version. Raises Stale when the condition does not hold, Retry when the outcome is unknown.

        The mark in the metadata distinguishes this writer's success whose answer was lost (the client or a
        proxy repeated the request and then found its own blob) from another writer's.
        """
        mark = secrets.token_hex(16)
        marked = {**attributes, NONCE: mark}
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._attempt(path, key, body, marked, condition)
            if isinstance(outcome, str):
                return outcome
            present = await self._find(path, key)
            if present is not None and present[1].get(NONCE) == mark:
                return version_of(key, present[0])
            refused = isinstance(outcome, Stale) and not _is_met(present, condition)
            if refused or attempt >= (_ATTEMPTS_UNANSWERED if outcome.code == UNAVAILABLE else _ATTEMPTS):
                raise outcome
            # No writer won yet, or the outcome is unknown. The random pause separates concurrent writers.
            await asyncio.sleep(0.05 * 2**attempt * (0.5 + secrets.randbelow(1000) / 1000))

    async def _attempt(
        self, path: str, key: str, body: bytes, attributes: dict[str, str], condition: Condition
    ) -> str | Stale | Retry:
        """The new version, or Stale when the server refuses, or Retry when the outcome is open."""
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        mode: PutMode = "create" if isinstance(condition, IfAbsent) else {"e_tag": condition.version}
        try:
            return version_of(key, await self._store.put_async(path, body, attributes=attributes, mode=mode))
        except (BaseError, FileNotFoundError) as error:
            fault = translate(error, "store", key, self._bucket)
            # If-Match on a missing key is 412 on some servers and 404 on others.
            refusals = AlreadyExistsError | PreconditionError
            refused = isinstance(error, refusals) or isinstance(fault, Missing)
            if status_of(error) == 409:
                fault = Retry(f"Blob {key!r} is being written by another process.", code="contended")
            elif refused:
                fault = Stale(
                    f"Blob {key!r} is not as expected: another writer was faster. Read it again, then decide."
                )
            fault.__cause__ = error
            if not isinstance(fault, Stale | Retry):
                raise fault from error
            return fault

    async def _find(self, path: str, key: str) -> "tuple[ObjectMeta, dict[str, str]] | None":
        try:
            with translate_errors("look at", key, self._bucket):
                found = await self._store.get_async(path, options={"head": True})
        except Missing:
            return None
        return found.meta, dict(found.attributes)


def version_of(key: str, result: "PutResult | ObjectMeta") -> str:
    if not result["e_tag"]:
        raise Misconfigured(
            f"The store gave no ETag for {key!r}, so versions cannot be compared: use another store.",
            code="broken_store",
        )
    return result["e_tag"]


def _is_met(present: "tuple[ObjectMeta, dict[str, str]] | None", condition: Condition) -> bool:
    if isinstance(condition, IfAbsent):
        return present is None
    return present is not None and present[0]["e_tag"] == condition.version
