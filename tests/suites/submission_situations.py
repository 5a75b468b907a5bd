"""Submissions in a wanted state, for the suites of uploads over HTTP."""

from typing import Any

from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, NewSubmission, Submission
from quire.testing.factories import draft, outbox_message
from tests.suites.ledger_adapter import LedgerAdapter


def new(batch_id: str = "01B", **changes: Any) -> NewSubmission:
    known: dict[str, Any] = {
        "draft": draft(batch_id),
        "session_id": f"sess_{batch_id}",
        "uploader": "ana@example.org",
        "root_path": "/fonds",
        "parent_pi": "0" * 26,
        "file_count": 3,
        "total_size": 1000,
        "metadata": {"shelf": "B7", "nul": "\0"},
        "custom_prompts": {"general": "Letters in Català"},
        "owner": "key1",
    }
    return NewSubmission(**(known | changes))


def awaited(path: str, stamp: str = "s1", **changes: Any) -> Upload:
    known: dict[str, Any] = {"size": 10, "key": f"staging/01B{path}", "content_type": "image/tiff"}
    return Upload(path=path, state=AWAITED, stamp=stamp, **(known | changes))


async def arrived(ledger: LedgerAdapter, batch_no: int, *paths: str) -> None:
    for path in paths:
        await ledger.announce_upload(batch_no, awaited(path), now=5.0)
        await ledger.record_received(batch_no, awaited(path), now=6.0)


async def closed(
    ledger: LedgerAdapter, batch_id: str = "01B", paths: tuple[str, ...] = ("/a", "/b")
) -> Submission:
    opened = await ledger.open_submission(new(batch_id))
    await arrived(ledger, opened.batch.no, *paths)
    await ledger.close_batch(
        opened.batch.no,
        revision=2 * len(paths),
        manifest_key="m",
        total_files=len(paths),
        message=outbox_message(batch_id),
        now=9.0,
    )
    return await ledger.get_submission(batch_id)


def counters(submission: Submission) -> tuple[int, int, int, int]:
    return submission.files_announced, submission.files_taken, submission.bytes_taken, submission.revision


async def kinds(ledger: LedgerAdapter, batch_no: int) -> list[str]:
    return [kind for _, _, kind, _ in await ledger.list_events(batch_no, limit=100)]
