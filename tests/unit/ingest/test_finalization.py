"""Two processes close or hand back one batch at once: the slower one leaves what the faster one decided."""

import asyncio
import json

import pytest
from msgspec.structs import replace
from tests.servers.postgres import fresh_schema

from quire.assembly.components import open_components
from quire.batches import submission
from quire.batches.submission import build_file
from quire.engine.handover import hand_over
from quire.ingest.context import IngestLimits, build_ingest_context
from quire.ingest.finalization import finalize
from quire.ingest.new_batch import Submitter, open_batch
from quire.ingest.processed_batch import accept_processed
from quire.ledger.port import OutboxMessage, Upload
from quire.ledger.submissions import AWAITED, TAKEN
from quire.model.errors import Reject
from quire.model.manifest import ManifestWriter
from quire.settings import PostgresSettings, Secret, Settings

OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 3}
CONFIG = {"ocr": True, "describe": False, "pinax": True}


class Interrupted:
    """A ledger or store before one of whose methods something else happens, once."""

    def __init__(self, inner, method, happens):
        self._inner, self._method, self._happens = inner, method, happens

    def __getattr__(self, name):
        method = getattr(self._inner, name)
        if name != self._method or self._happens is None:
            return method

        async def interrupted(*arguments, **named):
            happens, self._happens = self._happens, None
            if happens is not None:
                await happens()
            return await method(*arguments, **named)

        return interrupted


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
async def front(request, tmp_path):
    changes = {}
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        changes = {"ledger": "postgres", "postgres": PostgresSettings(dsn=Secret(fresh_schema(server)))}
    async with open_components(Settings(home=tmp_path, **changes)) as office:
        yield front_of(office)


def front_of(office, hands_over_to="arke-batch-jobs"):
    return build_ingest_context(
        office, None, IngestLimits(), pipeline="preprocess", hands_over_to=hands_over_to
    )


async def unsent(front):
    return await front.batches.list_unsent(10)  # one object keeps every port of the ledger


def slower(front, part, method, happens):
    """The same context, with something that happens just before a call of one port."""
    return replace(front, **{part: Interrupted(getattr(front, part), method, happens)})


async def uploaded(front):
    batch = (await open_batch(front, OPENING, Submitter())).batch
    await arrive(front, batch, "/a.txt")
    return batch


async def arrive(front, batch, path):
    key = f"staging/{batch.id}{path}"
    upload = Upload(
        path=path, state=AWAITED, size=3, stamp=path, key=key, content_type="text/plain", config=CONFIG
    )
    await front.submissions.announce_upload(batch.no, upload, now=1.0)
    await front.blobs.put(key, b"abc")
    await front.submissions.record_received(batch.no, upload, now=2.0)


def entry(batch, name, size=5):
    return {
        "r2_key": f"staging/{batch.id}/{name}",
        "logical_path": f"/{name}",
        "file_name": name,
        "file_size": size,
        "content_type": "text/plain",
        "cid": "bafkreiabc",
        "processing_config": CONFIG,
        "source_file": "a.txt",
        "preprocessor_tags": ["ImageProcessor"],
    }


async def manifest(front, batch, name="_manifest.json"):
    return json.loads(await front.blobs.get(f"staging/{batch.id}/{name}"))


async def test_a_file_that_comes_while_the_manifest_is_written_is_in_it(front):
    batch = await uploaded(front)
    other = slower(front, "uploads", "close_batch", lambda: arrive(front, batch, "/b.txt"))
    closed = await finalize(other, batch.id)
    assert (closed.files, closed.size) == (2, 6)
    assert (await manifest(front, batch))["total_files"] == 2
    (message,) = await unsent(front)
    assert json.loads(message.body)["total_files"] == 2


async def test_who_closes_second_changes_nothing(front):
    batch = await uploaded(front)

    async def faster():
        await finalize(front, batch.id)

    closed = await finalize(slower(front, "uploads", "close_batch", faster), batch.id)
    assert (closed.files, closed.size) == (1, 3)
    assert len(await unsent(front)) == 1
    assert (await manifest(front, batch))["total_files"] == 1


async def test_of_many_that_close_at_once_one_does_and_all_say_the_same(front):
    batch = await uploaded(front)
    closed = await asyncio.gather(*(finalize(front, batch.id) for _ in range(8)))
    assert {(one.files, one.size) for one in closed} == {(1, 3)}
    assert len(await unsent(front)) == 1
    assert (await manifest(front, batch))["total_files"] == 1


async def test_who_closes_second_leaves_the_manifest_that_was_handed_over(front):
    """The slower one has seen the batch open, and looks at the manifest when the batch is long done."""
    batch = await uploaded(front)

    async def faster():
        closed = await finalize(front, batch.id)
        at = closed.submission.batch
        await hand_over(front.batches, front.flow, front.blobs, at, phases=1, alive=report_alive)

    closed = await finalize(slower(front, "blobs", "head", faster), batch.id)
    assert (closed.files, closed.size) == (1, 3)
    assert (await manifest(front, batch))["total_files"] == 0
    assert (await manifest(front, batch, "_manifest.original.json"))["total_files"] == 1


async def test_a_manifest_too_large_for_a_condition_does_not_replace_that_of_a_faster_one(front, monkeypatch):
    monkeypatch.setattr(submission, "CONDITIONAL_BYTES", 0)
    batch = await uploaded(front)

    async def faster():
        await arrive(front, batch, "/b.txt")
        await finalize(front, batch.id)

    closed = await finalize(slower(front, "blobs", "put", faster), batch.id)
    assert (closed.files, closed.size) == (2, 6)
    assert (await manifest(front, batch))["total_files"] == 2


async def report_alive():
    """Nothing waits for a sign of life here."""


async def announce(front, batch, path):
    key = f"staging/{batch.id}{path}"
    upload = Upload(path=path, state=AWAITED, size=3, stamp=path, key=key, content_type="text/plain")
    await front.submissions.announce_upload(batch.no, upload, now=1.0)
    return upload


async def test_what_is_confirmed_while_the_incomplete_are_left_out_stays(front):
    batch = await uploaded(front)
    late = await announce(front, batch, "/late.txt")
    await announce(front, batch, "/never.txt")

    async def confirmed():
        await front.blobs.put(late.key, b"abc")
        await front.submissions.record_received(batch.no, late, now=3.0)

    closed = await finalize(
        slower(front, "submissions", "withdraw_upload", confirmed), batch.id, skip_incomplete=True
    )
    assert closed.files == 2
    assert (await front.submissions.get_upload(batch.no, "/late.txt")).state == TAKEN


async def test_nobody_is_told_of_incomplete_files_when_the_last_has_just_come(front):
    batch = await uploaded(front)
    late = await announce(front, batch, "/late.txt")

    async def confirmed():
        await front.blobs.put(late.key, b"abc")
        await front.submissions.record_received(batch.no, late, now=3.0)

    closed = await finalize(slower(front, "submissions", "list_awaited", confirmed), batch.id)
    assert closed.files == 2


async def test_two_that_leave_out_the_incomplete_close_once(front):
    batch = await uploaded(front)
    await announce(front, batch, "/never.txt")

    async def faster():
        await finalize(front, batch.id, skip_incomplete=True)

    other = slower(front, "submissions", "withdraw_upload", faster)
    assert (await finalize(other, batch.id, skip_incomplete=True)).files == 1
    assert len(await unsent(front)) == 1


async def handed_back_by_another_process(front, batch, files):
    """Without the lock, which is of one process: the manifest lay there already, now the ledger has it."""
    ledger = front.submissions
    uploads = [
        Upload(
            path=one["logical_path"],
            state=TAKEN,
            size=one["file_size"],
            key=one["r2_key"],
            content_type=one["content_type"],
            cid=one["cid"],
            config=one["processing_config"],
            source_file=one["source_file"],
            tags=tuple(one["preprocessor_tags"]),
        )
        for one in files
    ]
    message = OutboxMessage(queue="arke-batch-jobs", message_id=f"handover-{batch.id}", body=b"{}")
    await ledger.accept_processed(batch.no, uploads, message=message, now=9.0)
    writer = ManifestWriter(batch.id)
    return json.loads(writer.begin() + writer.add(map(build_file, uploads)) + writer.end())


async def test_who_hands_back_second_leaves_the_manifest_of_the_first(front):
    batch = await uploaded(front)
    await finalize(front, batch.id)
    original = await manifest(front, batch)
    theirs = []

    async def faster():
        files = [entry(batch, "x.json"), entry(batch, "y.json", 7)]
        theirs.append(await handed_back_by_another_process(front, batch, files))

    other = slower(front, "submissions", "accept_processed", faster)
    ours = {"files": [entry(batch, f"{place}.json") for place in range(5)]}
    assert await accept_processed(other, batch.id, ours) == 2
    assert [await manifest(front, batch)] == theirs
    assert await manifest(front, batch, "_manifest.original.json") == original
    assert [message.message_id for message in await unsent(front)] == [
        f"start-{batch.id}",
        f"handover-{batch.id}",
    ]


async def test_the_first_manifest_is_kept_though_another_has_just_written_it_anew(front):
    batch = await uploaded(front)
    await finalize(front, batch.id)
    original = await manifest(front, batch)
    blobs, key = front.blobs, f"staging/{batch.id}/_manifest.json"

    async def faster():
        await blobs.put(f"staging/{batch.id}/_manifest.original.json", await blobs.get(key))
        await blobs.put(key, b"{}")

    other = slower(front, "blobs", "put", faster)
    assert await accept_processed(other, batch.id, {"files": [entry(batch, "x.json")]}) == 1
    assert await manifest(front, batch, "_manifest.original.json") == original
    assert (await manifest(front, batch))["total_files"] == 1


async def test_handing_back_is_repeatable_where_nothing_follows(front):
    """Without a next queue the batch is completed and not enqueued; it is answered all the same."""
    front = replace(front, hands_over_to="")
    batch = await uploaded(front)
    await finalize(front, batch.id)
    said = {"files": [entry(batch, "x.json")]}
    assert await accept_processed(front, batch.id, said) == 1
    assert await accept_processed(front, batch.id, said) == 1
    assert len(await unsent(front)) == 2


async def test_closing_again_is_answered_as_the_first_time(front):
    batch = await uploaded(front)
    first = await finalize(front, batch.id)
    await accept_processed(front, batch.id, {"files": [entry(batch, "x.json"), entry(batch, "y.json")]})
    again = await finalize(front, batch.id)
    assert (again.files, again.size, again.warnings) == (first.files, first.size, []) == (1, 3, [])


async def test_an_open_batch_is_not_handed_back(front):
    batch = await uploaded(front)
    with pytest.raises(Reject, match="Invalid batch state: uploading, expected preprocessing"):
        await accept_processed(front, batch.id, {"files": [entry(batch, "x.json")]})
