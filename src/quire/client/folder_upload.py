"""`quire upload`: sends a folder to an ingest service as one batch.

The same command again continues the batch: it asks the server what it has and sends only what is missing or
has changed. It relies on the published protocol alone. An original server cannot close a batch in which a
file was announced twice (after a lost answer or a killed run): such a batch is left, and a new one opened.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from quire.client.answers import BatchStatus, Finalized, IncompleteUpload, StoredFile, clean_text
from quire.client.file_upload import FileSender, gather_all
from quire.client.http import IngestClient
from quire.client.plan import ExcludedFile, UploadPlan, plan_upload
from quire.client.sender_pool import FileObserver, SenderPool, is_same_size
from quire.client.upload_state import UploadState, UploadStateFile, compute_digest
from quire.model.clock import Clock
from quire.model.errors import Missing, Reject
from quire.model.ids import Ids
from quire.tools.shares import this_machine

OPEN, FAILED = "uploading", "failed"
SHOWN_FAILURES = 100
ENDED = {"enqueued", "completed", FAILED}  # handed over to what comes after, or finished
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 30.0


class UploadRequest(Struct, frozen=True, kw_only=True):
    folder: Path
    url: str
    uploader: str
    config: Mapping[str, Any]
    root_path: str = "/"
    parent: str = ""
    metadata: Mapping[str, Any] = {}
    prompts: Mapping[str, str] = {}
    files_at_once: int = 5
    parts_at_once: int = 3
    begin_anew: bool = False
    allow_failed: bool = False
    wait: bool = False
    own_folders: tuple[Path, ...] = ()  # never uploaded, even when they lie inside the folder


class ClientContext(Struct, frozen=True, kw_only=True):
    """The components of an upload. `claim_upload` keeps the same upload to one process at a time."""

    client: IngestClient
    state: UploadStateFile
    clock: Clock
    ids: Ids
    sleep: Callable[[float], Awaitable[None]]
    claim_upload: Callable[[], AbstractContextManager[None]]


class UploadObserver(FileObserver, Protocol):
    """Called for everything that is worth showing; must return quickly."""

    def planned(self, plan: UploadPlan) -> None: ...

    def noted(self, words: str) -> None: ...

    def opened(self, batch_id: str, *, resumed: bool) -> None: ...

    def sent(self, count: int) -> None: ...

    def finalized(self, batch_id: str, answer: Finalized) -> None: ...

    def looked(self, status: str) -> None: ...


class UploadResult(Struct, frozen=True, kw_only=True):
    """The result of an upload. `status` is the last known status of the batch."""

    plan: UploadPlan
    batch_id: str | None = None
    sent: int = 0
    sent_bytes: int = 0
    there: int = 0
    failures: tuple[ExcludedFile, ...] = ()
    finalized: bool = False
    status: str = ""
    stopped: bool = False
    failed_there: tuple[ExcludedFile, ...] = ()  # uploaded, but failed on the server


class _UnclosableError(Exception):
    """The server refuses to close the batch although every file was sent."""


def plan_request(request: UploadRequest) -> UploadPlan:
    return plan_upload(
        request.folder, root_path=request.root_path, config=request.config, leave_out=request.own_folders
    )


async def upload_folder(
    request: UploadRequest, context: ClientContext, observer: UploadObserver, stop: asyncio.Event
) -> UploadResult:
    """Raises Reject for a bad request, Misconfigured and Retry when the server cannot be used."""
    plan = await asyncio.to_thread(plan_request, request)
    observer.planned(plan)
    if not plan.files:
        return UploadResult(plan=plan, failures=plan.refused)
    with context.claim_upload():
        upload = _Upload(request, plan, context, observer, stop)
        try:
            return await upload.run(begin_anew=request.begin_anew)
        except _UnclosableError:
            observer.noted(
                "The server counts a file of this batch twice and cannot close it; starting a new batch."
            )
        try:
            return await upload.run(begin_anew=True)
        except _UnclosableError as error:
            message = "the server misses files that were confirmed; look at its log, then run with --new"
            raise Reject(message, code="not_all_uploaded") from error.__cause__


class _Upload:
    def __init__(
        self,
        request: UploadRequest,
        plan: UploadPlan,
        context: ClientContext,
        observer: UploadObserver,
        stop: asyncio.Event,
    ) -> None:
        self._request = request
        self._plan = plan
        self._context = context
        self._observer = observer
        self._stop = stop

    async def run(self, *, begin_anew: bool) -> UploadResult:
        state, known = await self._find_or_open_batch(begin_anew=begin_anew)
        batch_id = state.batch_id or ""
        if known is not None and known.status != OPEN:
            # Closed by a run that was killed before it could report that.
            done = UploadResult(plan=self._plan, batch_id=batch_id, there=len(self._plan.files))
            return await self._finish(state, done, _build_finalized(known))
        self._observer.opened(batch_id, resumed=known is not None)
        stored = {file.logical_path: file for file in known.files} if known is not None else {}
        done = await self._send_all(state, batch_id, stored)
        if done.stopped or (done.failures and not self._request.allow_failed) or not (done.sent + done.there):
            return done
        try:
            answer = await self._finalize(batch_id)
        except IncompleteUpload as error:
            if done.failures:
                raise
            raise _UnclosableError from error
        return await self._finish(state, done, answer)

    async def _finish(self, state: UploadState, done: UploadResult, answer: Finalized) -> UploadResult:
        batch_id = done.batch_id or ""
        self._observer.finalized(batch_id, answer)
        # After the report: killed in between, the next run reports again and uploads nothing twice.
        self._context.state.write(replace(state, told=True))
        status, stopped = answer.status, False
        if self._request.wait:
            status = await self._follow(batch_id, status)
            stopped = status not in ENDED
            done = replace(done, failed_there=await self._list_failed_files(batch_id))
        failures = done.failures or self._plan.refused
        return replace(done, finalized=True, status=status, failures=failures, stopped=stopped)

    async def _find_or_open_batch(self, *, begin_anew: bool) -> tuple[UploadState, BatchStatus | None]:
        """The batch of this request, and its status on the server unless it is new."""
        stored_state = self._context.state
        fresh = self._new_state()
        earlier = None if begin_anew else stored_state.read()
        if earlier is not None and (reason := self._explain_new_batch(earlier, fresh)) is not None:
            self._observer.noted(reason)
            earlier = None
        if earlier is not None and earlier.batch_id is not None:
            known = await self._check_batch(earlier.batch_id)
            if known is not None:
                return earlier, known
        elif earlier is not None and earlier.body == fresh.body:
            fresh = replace(fresh, idempotency_key=earlier.idempotency_key)
        stored_state.write(fresh)
        opened = await self._open_batch(fresh)
        fresh = replace(fresh, batch_id=opened)
        stored_state.write(fresh)
        return fresh, None

    def _new_state(self) -> UploadState:
        request, context = self._request, self._context
        return UploadState(
            url=request.url,
            folder=os.fsencode(this_machine().resolve(request.folder)).decode("utf-8", "backslashreplace"),
            asked=compute_digest(self._describe_batch()),
            body=compute_digest(self._build_body()),
            idempotency_key=context.ids.ulid(),
            opened_at=context.clock.now(),
        )

    @staticmethod
    def _explain_new_batch(earlier: UploadState, fresh: UploadState) -> str | None:
        if earlier.told:
            return f"Batch {earlier.batch_id} of an earlier run is finished; starting a new batch."
        if earlier.asked != fresh.asked:
            return f"What was asked for has changed since batch {earlier.batch_id}; starting a new one."
        return None

    async def _check_batch(self, batch_id: str) -> BatchStatus | None:
        """The status of an earlier batch; None when it cannot be continued."""
        try:
            known = await self._context.client.status(batch_id)
        except Missing:
            self._observer.noted(f"The server does not know batch {batch_id} any more; starting a new one.")
            return None
        if known.status == OPEN:
            return known
        has = {file.logical_path: file for file in known.files if file.status == "completed"}
        if all(is_same_size(file, has.get(file.logical_path)) for file in self._plan.files):
            return known
        words = f"Batch {batch_id} is closed ({known.status}) without files that are there now"
        self._observer.noted(f"{words}; starting a new one.")
        return None

    async def _open_batch(self, state: UploadState) -> str:
        keys = (state.idempotency_key, self._context.ids.ulid(), None)
        for key in keys:
            try:
                return (await self._context.client.init(self._build_body(), key)).batch_id
            except Reject as error:
                # The key was used for another request, or the server refuses keys: upload without it.
                if key is None or "idempotency" not in str(error).lower():
                    raise
        raise AssertionError  # pragma: no cover - the last key is None

    def _describe_batch(self) -> dict[str, Any]:
        request = self._request
        asked: dict[str, Any] = {
            "uploader": request.uploader,
            "root_path": request.root_path,
            "parent_pi": request.parent,
            "metadata": request.metadata,
        }
        return asked | ({"custom_prompts": request.prompts} if request.prompts else {})

    def _build_body(self) -> dict[str, Any]:
        return self._describe_batch() | {
            "file_count": len(self._plan.files),
            "total_size": self._plan.total_bytes,
        }

    async def _send_all(
        self, state: UploadState, batch_id: str, stored: Mapping[str, StoredFile]
    ) -> UploadResult:
        sender = FileSender(
            self._context.client,
            batch_id,
            parts_at_once=self._request.parts_at_once,
            sent=self._observer.sent,
        )
        pool = SenderPool(sender, self._observer, self._stop, state.opened_at, stored)
        waiting = iter(self._plan.files)
        await gather_all([pool.work(waiting) for _ in range(self._request.files_at_once)])
        failures = (*self._plan.refused, *pool.failures)
        settled = pool.sent + pool.there + len(pool.failures)
        return UploadResult(
            plan=self._plan,
            batch_id=batch_id,
            sent=pool.sent,
            sent_bytes=pool.sent_bytes,
            there=pool.there,
            failures=failures,
            status=OPEN,
            stopped=settled < len(self._plan.files),
        )

    async def _finalize(self, batch_id: str) -> Finalized:
        try:
            return await self._context.client.finalize(batch_id, skip_incomplete=self._request.allow_failed)
        except IncompleteUpload:
            raise
        except Reject:
            # Original servers refuse to close a batch again after a lost answer.
            known = await self._context.client.status(batch_id)
            if known.status == OPEN:
                raise
            return _build_finalized(known)

    async def _list_failed_files(self, batch_id: str) -> tuple[ExcludedFile, ...]:
        return tuple(
            ExcludedFile(
                path=clean_text(one.path),
                state="failed",
                error_class=clean_text(one.error_class or "unknown"),
                reason=clean_text(one.reason or "the server gave no reason"),
            )
            for one in await self._context.client.failed(batch_id, limit=SHOWN_FAILURES)
        )

    async def _follow(self, batch_id: str, status: str) -> str:
        """Poll until the batch has ended, or a stop is requested."""
        delay = FIRST_LOOK_SECONDS
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while status not in ENDED and not self._stop.is_set():
                pause = asyncio.ensure_future(self._context.sleep(delay))
                await asyncio.wait({pause, stopped}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                status = (await self._context.client.status(batch_id)).status
                self._observer.looked(status)
                delay = min(delay * 1.5, LONGEST_LOOK_SECONDS)
        finally:
            stopped.cancel()
        return status


def _build_finalized(known: BatchStatus) -> Finalized:
    has = [file for file in known.files if file.status == "completed"]
    total = sum(file.file_size for file in has)
    return Finalized(batch_id=known.batch_id, status=known.status, files_uploaded=len(has), total_bytes=total)
