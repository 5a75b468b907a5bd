"""`quire upload`: a folder goes to an ingest service as one batch.

The same request again goes on with its batch: the server is asked what it has, and only what is missing or
has changed is sent. Only the published protocol is relied on. An original server cannot close a batch in
which a file was announced twice (a lost answer, a killed run): such a batch is left for a new one.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from quire.client.answers import (
    BatchStatus,
    Finalized,
    IncompleteUpload,
    StoredFile,
    clean_text,
)
from quire.client.file_upload import FileSender, gather_all
from quire.client.http import IngestClient
from quire.client.memory import UploadState, UploadStateFile, compute_digest
from quire.client.plan import ExcludedFile, UploadPlan, plan_upload
from quire.client.senders import FileObserver, SenderPool, is_same_size
from quire.model.clock import Clock
from quire.model.errors import Missing, Reject
from quire.model.ids import Ids

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
    """What an upload works with. `claiming`: the same upload is for one process at a time."""

    client: IngestClient
    memory: UploadStateFile
    clock: Clock
    ids: Ids
    sleep: Callable[[float], Awaitable[None]]
    claiming: Callable[[], AbstractContextManager[None]]


class UploadObserver(FileObserver, Protocol):
    """Told what happens, for showing it; must return quickly."""

    def planned(self, plan: UploadPlan) -> None: ...

    def noted(self, words: str) -> None: ...

    def opened(self, batch_id: str, *, resumed: bool) -> None: ...

    def sent(self, count: int) -> None: ...

    def finalized(self, batch_id: str, answer: Finalized) -> None: ...

    def looked(self, status: str) -> None: ...


class UploadResult(Struct, frozen=True, kw_only=True):
    """How it ended. `status` is the last that is known of the batch."""

    plan: UploadPlan
    batch_id: str | None = None
    sent: int = 0
    sent_bytes: int = 0
    there: int = 0
    failures: tuple[ExcludedFile, ...] = ()
    finalized: bool = False
    status: str = ""
    stopped: bool = False
    failed_there: tuple[ExcludedFile, ...] = ()  # uploaded, but the server could not work on them


class _UnclosableError(Exception):
    """The batch cannot be closed although everything is in it."""


def plan_request(request: UploadRequest) -> UploadPlan:
    return plan_upload(
        request.folder,
        root_path=request.root_path,
        config=request.config,
        leave_out=request.own_folders,
    )


async def upload_folder(
    request: UploadRequest, context: ClientContext, watcher: UploadObserver, stop: asyncio.Event
) -> UploadResult:
    """Raises Reject for a bad request, Misconfigured and Retry when the server cannot be used."""
    plan = await asyncio.to_thread(plan_request, request)
    watcher.planned(plan)
    if not plan.files:
        return UploadResult(plan=plan, failures=plan.refused)
    with context.claiming():
        upload = _Upload(request, plan, context, watcher, stop)
        try:
            return await upload.run(begin_anew=request.begin_anew)
        except _UnclosableError:
            watcher.noted("The server counts a file of this batch twice and cannot close it; beginning anew.")
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
        watcher: UploadObserver,
        stop: asyncio.Event,
    ) -> None:
        self._request = request
        self._plan = plan
        self._desk = context
        self._watcher = watcher
        self._stop = stop

    async def run(self, *, begin_anew: bool) -> UploadResult:
        memory, known = await self._batch(begin_anew=begin_anew)
        batch_id = memory.batch_id or ""
        if known is not None and known.status != OPEN:
            # Closed by a run that did not live to tell.
            done = UploadResult(plan=self._plan, batch_id=batch_id, there=len(self._plan.files))
            return await self._ending(memory, done, _build_finalized(known))
        self._watcher.opened(batch_id, resumed=known is not None)
        stored = {file.logical_path: file for file in known.files} if known is not None else {}
        done = await self._send_all(memory, batch_id, stored)
        if done.stopped or (done.failures and not self._request.allow_failed) or not (done.sent + done.there):
            return done
        try:
            answer = await self._finalize(batch_id)
        except IncompleteUpload as error:
            if done.failures:
                raise
            raise _UnclosableError from error
        return await self._ending(memory, done, answer)

    async def _ending(self, memory: UploadState, done: UploadResult, answer: Finalized) -> UploadResult:
        batch_id = done.batch_id or ""
        self._watcher.finalized(batch_id, answer)
        # After it was told: killed in between, the next run tells it again and uploads nothing twice.
        self._desk.memory.write(replace(memory, told=True))
        status, stopped = answer.status, False
        if self._request.wait:
            status = await self._follow(batch_id, status)
            stopped = status not in ENDED
            done = replace(done, failed_there=await self._failed_there(batch_id))
        failures = done.failures or self._plan.refused
        return replace(done, finalized=True, status=status, failures=failures, stopped=stopped)

    async def _batch(self, *, begin_anew: bool) -> tuple[UploadState, BatchStatus | None]:
        """The batch of this request, and what the server knows of it when it was there before."""
        memory = self._desk.memory
        fresh = self._fresh()
        earlier = None if begin_anew else memory.read()
        if earlier is not None and (reason := self._is_other(earlier, fresh)) is not None:
            self._watcher.noted(reason)
            earlier = None
        if earlier is not None and earlier.batch_id is not None:
            known = await self._known(earlier.batch_id)
            if known is not None:
                return earlier, known
        elif earlier is not None and earlier.body == fresh.body:
            fresh = replace(fresh, idempotency_key=earlier.idempotency_key)
        memory.write(fresh)
        opened = await self._open(fresh)
        fresh = replace(fresh, batch_id=opened)
        memory.write(fresh)
        return fresh, None

    def _fresh(self) -> UploadState:
        request, context = self._request, self._desk
        return UploadState(
            url=request.url,
            folder=os.fsencode(request.folder.resolve()).decode("utf-8", "backslashreplace"),
            asked=compute_digest(self._asked()),
            body=compute_digest(self._body()),
            idempotency_key=context.ids.ulid(),
            opened_at=context.clock.now(),
        )

    @staticmethod
    def _is_other(earlier: UploadState, fresh: UploadState) -> str | None:
        if earlier.told:
            return f"Batch {earlier.batch_id} of an earlier run is finished; beginning anew."
        if earlier.asked != fresh.asked:
            return f"What was asked for has changed since batch {earlier.batch_id}; beginning anew."
        return None

    async def _known(self, batch_id: str) -> BatchStatus | None:
        """What the server has; None when the batch is of no use any more."""
        try:
            known = await self._desk.client.status(batch_id)
        except Missing:
            self._watcher.noted(f"The server does not know batch {batch_id} any more; beginning anew.")
            return None
        if known.status == OPEN:
            return known
        has = {file.logical_path: file for file in known.files if file.status == "completed"}
        if all(is_same_size(file, has.get(file.logical_path)) for file in self._plan.files):
            return known
        words = f"Batch {batch_id} is closed ({known.status}) without files that are there now"
        self._watcher.noted(f"{words}; beginning anew.")
        return None

    async def _open(self, memory: UploadState) -> str:
        keys = (memory.idempotency_key, self._desk.ids.ulid(), None)
        for key in keys:
            try:
                return (await self._desk.client.init(self._body(), key)).batch_id
            except Reject as error:
                # It was used for another request, or is not liked at all: no reason not to upload.
                if key is None or "idempotency" not in str(error).lower():
                    raise
        raise AssertionError  # pragma: no cover - the last key is None

    def _asked(self) -> dict[str, Any]:
        request = self._request
        asked: dict[str, Any] = {
            "uploader": request.uploader,
            "root_path": request.root_path,
            "parent_pi": request.parent,
            "metadata": request.metadata,
        }
        return asked | ({"custom_prompts": request.prompts} if request.prompts else {})

    def _body(self) -> dict[str, Any]:
        return self._asked() | {"file_count": len(self._plan.files), "total_size": self._plan.total_bytes}

    async def _send_all(
        self, memory: UploadState, batch_id: str, stored: Mapping[str, StoredFile]
    ) -> UploadResult:
        sender = FileSender(
            self._desk.client,
            batch_id,
            parts_at_once=self._request.parts_at_once,
            sent=self._watcher.sent,
        )
        crew = SenderPool(sender, self._watcher, self._stop, memory.opened_at, stored)
        waiting = iter(self._plan.files)
        await gather_all([crew.work(waiting) for _ in range(self._request.files_at_once)])
        failures = (*self._plan.refused, *crew.failures)
        settled = crew.sent + crew.there + len(crew.failures)
        return UploadResult(
            plan=self._plan,
            batch_id=batch_id,
            sent=crew.sent,
            sent_bytes=crew.sent_bytes,
            there=crew.there,
            failures=failures,
            status=OPEN,
            stopped=settled < len(self._plan.files),
        )

    async def _finalize(self, batch_id: str) -> Finalized:
        try:
            return await self._desk.client.finalize(batch_id, skip_incomplete=self._request.allow_failed)
        except IncompleteUpload:
            raise
        except Reject:
            # Original servers refuse what a lost answer had already done.
            known = await self._desk.client.status(batch_id)
            if known.status == OPEN:
                raise
            return _build_finalized(known)

    async def _failed_there(self, batch_id: str) -> tuple[ExcludedFile, ...]:
        return tuple(
            ExcludedFile(
                path=clean_text(one.path),
                state="failed",
                error_class=clean_text(one.error_class or "unknown"),
                reason=clean_text(one.reason or "the server gave no reason"),
            )
            for one in await self._desk.client.failed(batch_id, limit=SHOWN_FAILURES)
        )

    async def _follow(self, batch_id: str, status: str) -> str:
        """Until the batch has ended, or we are to stop."""
        delay = FIRST_LOOK_SECONDS
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while status not in ENDED and not self._stop.is_set():
                pause = asyncio.ensure_future(self._desk.sleep(delay))
                await asyncio.wait({pause, stopped}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                status = (await self._desk.client.status(batch_id)).status
                self._watcher.looked(status)
                delay = min(delay * 1.5, LONGEST_LOOK_SECONDS)
        finally:
            stopped.cancel()
        return status


def _build_finalized(known: BatchStatus) -> Finalized:
    has = [file for file in known.files if file.status == "completed"]
    total = sum(file.file_size for file in has)
    return Finalized(batch_id=known.batch_id, status=known.status, files_uploaded=len(has), total_bytes=total)
