"""What every ledger adapter must keep when files have arrived over HTTP: the batch is closed, or processed
elsewhere, and its staging swept. Part of `LedgerSuite`.
"""

import asyncio

import pytest

from quire.engine import moves
from quire.ledger.submissions import TAKEN, OwnerLoad
from quire.ledger.values import TaskSelection
from quire.model.batch import Batch, FileOutcome, Stage
from quire.model.errors import Stale
from quire.testing.factories import outbox_message
from tests.suites.flow_situations import admit_all, admitted, claimed, done, failed
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, act
from tests.suites.submission_situations import arrived, awaited, closed, counters, kinds, new


async def _close(
    ledger: LedgerAdapter,
    no: int,
    *,
    revision: int,
    batch_id: str = "01B",
    total_files: int = 1,
    now: float = 9.0,
) -> Batch:
    message = outbox_message(batch_id)
    return await ledger.close_batch(
        no, revision=revision, manifest_key="m", total_files=total_files, message=message, now=now
    )


class ClosingSuite:
    async def test_closing_puts_the_start_message_into_the_outbox_and_counts_the_files(
        self, ledger: LedgerAdapter
    ) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/a", "/b")
        await ledger.announce_upload(no, awaited("/c"), now=7.0)
        for revision in (4, 6):
            with pytest.raises(Stale):
                await _close(ledger, no, revision=revision, now=8.0)
        assert await ledger.list_unsent(9) == []
        await _close(ledger, no, revision=5, total_files=2)
        ended = await ledger.get_submission("01B")
        assert (ended.batch.position.stage, ended.batch.status) == (Stage.QUEUED, "QUEUED")
        assert (ended.batch.manifest_key, ended.batch.total_files, ended.finalized_at) == ("m", 2, 9.0)
        assert [one.message_id for one in await ledger.list_unsent(9)] == ["start-01B"]
        assert await ledger.get_start_message(no) == outbox_message().body.decode()
        assert await kinds(ledger, no) == ["batch_opened", "batch_finalized"]
        with pytest.raises(Stale):
            await _close(ledger, no, revision=5, total_files=2, now=10.0)
        assert len(await ledger.list_unsent(9)) == 1

    async def test_of_many_who_close_at_once_one_does(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/a")
        calls = [_close(ledger, no, revision=2) for _ in range(8)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(type(one).__name__ for one in answers) == ["Batch"] + ["Stale"] * 7
        assert len(await ledger.list_unsent(9)) == 1

    @pytest.mark.parametrize("end", ["close", "cancel", "finalize"])
    async def test_nothing_arrives_in_a_batch_that_is_not_open(self, ledger: LedgerAdapter, end: str) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/a")
        await ledger.announce_upload(no, awaited("/b"), now=7.0)
        match end:
            case "close":
                await _close(ledger, no, revision=3)
            case "cancel":
                await ledger.cancel(no, act())
            case _:
                await ledger.close_batch(
                    no, manifest_key="m", total_files=1, message=outbox_message(), now=9.0
                )
        for call in (
            ledger.announce_upload(no, awaited("/a", stamp="s2"), now=10.0),
            ledger.announce_upload(no, awaited("/n"), now=10.0),
            ledger.announce_upload(no, awaited("/a/b"), now=10.0),
            ledger.record_received(no, awaited("/b"), now=10.0),
            ledger.withdraw_upload(no, "/a", now=10.0),
            ledger.withdraw_upload(no, "/none", now=10.0),
        ):
            with pytest.raises(Stale):
                await call
        assert counters(await ledger.get_submission("01B")) == (2, 1, 10, 3)

    async def test_what_arrives_while_it_is_closed_is_in_or_refused(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/a")
        calls = [ledger.announce_upload(no, awaited(f"/b{number}"), now=8.0) for number in range(6)]
        closing = _close(ledger, no, revision=2)
        answers = await asyncio.gather(*calls[:3], closing, *calls[3:], return_exceptions=True)
        found = await ledger.get_submission("01B")
        added = sum(one is None for one in answers)
        assert counters(found) == (1 + added, 1, 10, 2 + added)
        assert (found.finalized_at == 9.0) is (added == 0)
        assert len(await ledger.list_uploads(no, limit=99)) == 1 + added

    async def test_a_batch_goes_its_way_after_it_is_closed(self, ledger: LedgerAdapter) -> None:
        batch = (await closed(ledger)).batch
        batch = await ledger.apply_move(moves.begin(batch, now=10.0))
        batch = await ledger.begin_flow(batch, phases=["ONE"], waits_at=None, now=11.0)
        batch = await admit_all(ledger, batch, ["/a", "/b"])
        claims = await claimed(ledger, batch)
        assert [claim.order.file.path for claim in claims] == ["/a", "/b"]


class ElsewhereSuite:
    async def test_files_of_a_foreign_orchestrator_take_the_place_of_those_uploaded(
        self, ledger: LedgerAdapter
    ) -> None:
        no = (await closed(ledger)).batch.no
        listed = [
            awaited("/a", cid="bafk", config={"ocr": True}, tags=("TiffConverter:source",)),
            awaited("/x/c.jpg.ref.json", size=7, source_file="c.jpg"),
        ]
        ended = await ledger.accept_processed(no, listed, message=outbox_message("01B2"), now=20.0)
        assert ended == await ledger.get_submission("01B")
        assert (ended.batch.status, ended.batch.position.stage) == ("DONE", Stage.DONE)
        assert (ended.batch.completed_at, ended.batch.total_files) == (20.0, 2)
        assert counters(ended)[:3] == (2, 2, 17)
        found = await ledger.list_arrivals(no, after=None, limit=9)
        assert [(one.path, one.state, one.taken_at) for one in found] == [
            ("/a", TAKEN, 20.0),
            ("/x/c.jpg.ref.json", TAKEN, 20.0),
        ]
        assert (found[0].tags, found[0].config, found[1].source_file) == (
            ("TiffConverter:source",),
            {"ocr": True},
            "c.jpg",
        )
        ends = await ledger.list_inputs(no, limit=9)
        assert [(one.path, one.outcome, one.size) for one in ends] == [
            ("/a", FileOutcome.DONE, 10),
            ("/x/c.jpg.ref.json", FileOutcome.DONE, 7),
        ]
        (one, two) = [one.file for one in await ledger.list_seen(no, 1, after=0, limit=9)]
        assert (one.name, one.cid, one.processing_config, one.tags) == (
            "a",
            "bafk",
            {"ocr": True},
            ("TiffConverter:source",),
        )
        assert (two.name, two.source_file) == ("c.jpg.ref.json", "c.jpg")
        unsent = await ledger.list_unsent(9)
        assert [one.message_id for one in unsent] == ["start-01B", "start-01B2"]
        assert await ledger.list_unsent(9, after=unsent[0].no) == unsent[1:]
        assert await ledger.list_unsent(9, after=unsent[1].no) == []
        assert (await kinds(ledger, no))[-1] == "batch_processed_elsewhere"
        with pytest.raises(Stale):
            await ledger.accept_processed(no, listed, message=outbox_message("01B3"), now=21.0)
        assert len(await ledger.list_unsent(9)) == 2

    async def test_what_our_own_engine_did_so_far_is_dropped(self, ledger: LedgerAdapter) -> None:
        batch = (await closed(ledger, paths=("/a", "/b", "/c"))).batch
        batch = await ledger.apply_move(moves.begin(batch, now=10.0))
        batch = await ledger.begin_flow(batch, phases=["ONE"], waits_at=None, now=11.0)
        batch = await admit_all(ledger, batch, ["/a", "/b", "/c"])
        one, two, three = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(one), failed(two)], now=13.0)
        ended = await ledger.accept_processed(
            batch.no, [awaited("/a")], message=outbox_message("02"), now=20.0
        )
        assert await claimed(ledger, batch, now=21.0) == []
        assert await ledger.list_running(ME) == []
        assert await ledger.list_flowing(limit=9, now=99.0) == []
        assert (await ledger.settle_flow(batch.no, [done(three)], now=22.0)).strays == 1
        seen = await ledger.list_seen(ended.batch.no, 2, after=0, limit=9)
        assert [listed.file.path for listed in seen] == ["/a"]
        (end,) = await ledger.list_inputs(batch.no, limit=9)
        assert (end.outcome, end.attempts, end.made) == (FileOutcome.DONE, 0, [])
        (counts,) = await ledger.count_tasks(batch.no)
        assert (counts.total, counts.done, counts.failed) == (1, 1, 0)
        assert await ledger.count_failures(batch.no) == {}
        assert await ledger.list_failed_tasks(batch.no, limit=9) == []
        assert (await ledger.preview_retry(batch.no, TaskSelection())).tasks == 0
        files_of, attempts = await ledger.get_file_history(batch.no, "/a")
        assert (len(files_of), attempts) == (1, [])  # not what was tried on the file that went
        with pytest.raises(Stale):
            await ledger.apply_move(moves.fail(batch, "no", now=23.0))

    @pytest.mark.parametrize("stands", ["open", "cancelled"])
    async def test_only_a_batch_on_its_way_is_processed_elsewhere(
        self, ledger: LedgerAdapter, stands: str
    ) -> None:
        if stands == "open":
            no = (await ledger.open_submission(new())).batch.no
        else:
            no = (await closed(ledger)).batch.no
            await ledger.cancel(no, act())
        before = await ledger.get_submission("01B")
        with pytest.raises(Stale):
            await ledger.accept_processed(no, [awaited("/z")], message=outbox_message("02"), now=20.0)
        assert await ledger.get_submission("01B") == before

    async def test_many_files_are_one_transaction(self, ledger: LedgerAdapter) -> None:
        no = (await closed(ledger)).batch.no
        listed = [awaited(f"/d{number % 50}/f{number}", size=1) for number in range(5000)]
        ended = await ledger.accept_processed(
            no, [*listed, listed[0]], message=outbox_message("02"), now=20.0
        )
        assert (ended.batch.total_files, ended.files_taken, ended.bytes_taken) == (5000, 5000, 5000)
        assert len(await ledger.list_inputs(no, limit=9999, outcome=FileOutcome.DONE)) == 5000

    async def test_an_empty_list_is_a_list(self, ledger: LedgerAdapter) -> None:
        no = (await closed(ledger)).batch.no
        ended = await ledger.accept_processed(no, [], message=outbox_message("02"), now=20.0)
        assert (ended.batch.total_files, await ledger.list_inputs(no, limit=9)) == (0, [])


class HousekeepingSuite:
    async def test_the_load_of_an_owner_is_what_has_not_ended(self, ledger: LedgerAdapter) -> None:
        for number, owner in enumerate(("key1", "key1", "key2", "key1")):
            await ledger.open_submission(new(f"01{number}", owner=owner, total_size=10**number))
        assert await ledger.measure_load("key1") == OwnerLoad(3, 1011, 9)
        await ledger.cancel((await ledger.get_batch("013")).no, act())
        assert await ledger.measure_load("key1") == OwnerLoad(2, 11, 6)
        one = await ledger.get_submission("010")
        await _close(ledger, one.batch.no, revision=0, batch_id="010", total_files=0)
        # Of a closed batch what was received counts: nothing.
        assert await ledger.measure_load("key1") == OwnerLoad(2, 10, 3)
        await ledger.accept_processed(one.batch.no, [], message=outbox_message("02"), now=20.0)
        assert await ledger.measure_load("key1") == OwnerLoad(1, 10, 3)
        await ledger.reopen((await ledger.get_batch("013")).no, act(), status="ONE")
        assert await ledger.measure_load("key1") == OwnerLoad(2, 1010, 6)
        assert await ledger.measure_load("nobody") == OwnerLoad(0, 0, 0)

    async def test_idle_are_open_ones_that_nothing_was_sent_to(self, ledger: LedgerAdapter) -> None:
        opened = [await ledger.open_submission(new(f"01{name}")) for name in "ABCD"]
        for submission, at in zip(opened, (40.0, 20.0, 30.0, 10.0), strict=True):
            await ledger.announce_upload(submission.batch.no, awaited("/a"), now=at)

        async def idle(before: float, limit: int = 9) -> list[str]:
            return [one.batch.id for one in await ledger.list_idle_submissions(before=before, limit=limit)]

        assert await idle(40.0) == ["01D", "01B", "01C"]
        assert await idle(40.0, limit=2) == ["01D", "01B"]
        assert await idle(10.0) == []
        await ledger.cancel(opened[1].batch.no, act())
        await ledger.withdraw_upload(opened[3].batch.no, "/a", now=50.0)
        assert await idle(50.0) == ["01C", "01A"]
        await _close(ledger, opened[2].batch.no, revision=1, batch_id="01C", now=51.0)
        assert await idle(99.0) == ["01A", "01D"]

    async def test_who_comes_back_is_not_given_up(self, ledger: LedgerAdapter) -> None:
        idle, back, closed = [(await ledger.open_submission(new(f"01{name}"))).batch.no for name in "ABC"]
        for no, at in ((idle, 20.0), (back, 30.0), (closed, 20.0)):
            await ledger.announce_upload(no, awaited("/a"), now=at)
        await _close(ledger, closed, revision=1, batch_id="01C", now=21.0)
        ended = [
            await ledger.abandon_batch(no, reason="idle", now=99.0, idle_before=30.0)
            for no in (idle, back, closed)
        ]
        assert ended == [True, False, False]
        assert await kinds(ledger, idle) == ["batch_opened", "batch_cancelled"]
        assert await kinds(ledger, back) == ["batch_opened"]
        assert await kinds(ledger, closed) == ["batch_opened", "batch_finalized"]
        assert not await ledger.abandon_batch(idle, reason="idle", now=99.0, idle_before=30.0)

    async def test_what_has_ended_is_swept_once(self, ledger: LedgerAdapter) -> None:
        await admitted(ledger, batch_id="01S")  # came in another way
        await ledger.cancel((await ledger.get_batch("01S")).no, act())
        opened = [await ledger.open_submission(new(f"01{name}")) for name in "ABC"]
        for submission, at in zip(opened, (60.0, 55.0, 70.0), strict=True):
            await ledger.abandon_batch(submission.batch.no, reason="idle", now=at)

        async def sweepable(before: float, limit: int = 9) -> list[str]:
            return [one.batch.id for one in await ledger.list_sweepable(before=before, limit=limit)]

        assert await sweepable(70.0) == ["01B", "01A"]
        assert await sweepable(99.0, limit=1) == ["01B"]
        assert await sweepable(55.0) == []
        for at in (80.0, 81.0):
            await ledger.mark_swept(opened[1].batch.no, now=at)
        assert (await ledger.get_submission("01B")).swept_at == 80.0
        assert await kinds(ledger, opened[1].batch.no) == ["batch_opened", "batch_cancelled", "staging_swept"]
        await ledger.reopen(opened[0].batch.no, act(), status="OPEN")
        assert await sweepable(99.0) == ["01C"]
