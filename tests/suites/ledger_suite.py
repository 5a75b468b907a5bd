"""What every ledger adapter must keep. Subclass it and give a fixture `ledger`.

The promises of each door are beside this in `ledger_…_suite`; together they are `LedgerSuite`. Here: files
arrive, a batch moves, letters and the crew.
"""

import pytest

from quire.engine import moves
from quire.ledger.flow_values import Admission
from quire.ledger.port import Upload
from quire.model.batch import FileOutcome, Position, Stage
from quire.model.errors import Missing, Stale
from quire.model.work import StepResult
from quire.testing.factories import draft, file, outbox_message
from tests.suites.flow_situations import admitted, begun, claimed, done, ends, failed, finished, first, made
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_control_suite import ControlSuite
from tests.suites.ledger_records_suite import RecordsSuite
from tests.suites.ledger_rounds_suite import RoundsSuite
from tests.suites.ledger_situations import ME, act, finalized
from tests.suites.ledger_submissions_suite import ReceptionSuite
from tests.suites.ledger_tasks_suite import TaskSuite


class WalkSuite:
    async def test_an_unknown_batch_is_missing(self, ledger: LedgerAdapter) -> None:
        with pytest.raises(Missing):
            await ledger.get_batch("nobody")

    async def test_uploads_are_kept_by_path_and_the_last_note_counts(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.open_batch(draft())
        await ledger.record_uploads(batch.no, [Upload(path=path, state="taken") for path in ("b", "a", "c")])
        await ledger.record_uploads(batch.no, [Upload(path="a", state="failed", reason="gone")])
        noted = await ledger.list_uploads(batch.no, limit=10)
        assert [(one.path, one.state) for one in noted] == [("a", "failed"), ("b", "taken"), ("c", "taken")]
        assert [one.path for one in await ledger.list_uploads(batch.no, after="a", limit=10)] == ["b", "c"]

    async def test_paths_are_ordered_by_their_bytes(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.open_batch(draft())
        paths = ["a", "Z", "é", "z", "A", "a b", "a/b", "É"]
        await ledger.record_uploads(batch.no, [Upload(path=path, state="taken") for path in paths])
        noted = [one.path for one in await ledger.list_uploads(batch.no, limit=10)]
        assert noted == sorted(paths, key=str.encode)
        found: list[str] = []
        while page := await ledger.list_uploads(batch.no, after=found[-1] if found else "", limit=3):
            found += [one.path for one in page]
        assert found == noted

    async def test_finalize_closes_the_batch_and_posts_its_letter_together(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await ledger.open_batch(draft())
        await ledger.close_batch(batch.no, manifest_key="m", total_files=0, message=outbox_message(), now=2.0)
        (waiting,) = await ledger.list_unsent(10)
        assert waiting.message_id == "start-01B"
        with pytest.raises(Stale):
            await ledger.close_batch(
                batch.no, manifest_key="m", total_files=0, message=outbox_message(), now=2.0
            )
        assert len(await ledger.list_unsent(10)) == 1
        await ledger.mark_sent([waiting.no])
        assert await ledger.list_unsent(10) == []

    async def test_what_was_refused_at_the_door_is_told(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.open_batch(draft())
        assert (batch.refused, batch.passed_over) == (0, 0)
        batch = await ledger.close_batch(
            batch.no,
            manifest_key="m",
            total_files=4,
            message=outbox_message(),
            now=2.0,
            refused=2,
            passed_over=3,
        )
        assert (batch.total_files, batch.refused, batch.passed_over) == (4, 2, 3)
        assert await ledger.get_batch(batch.id) == batch

    async def test_the_newest_run_of_a_key_is_found(self, ledger: LedgerAdapter) -> None:
        assert await ledger.find_run("k") is None
        await ledger.open_batch(draft("01A", run_key="k"))
        await ledger.open_batch(draft("01C", run_key="k"))
        await ledger.open_batch(draft("01D", run_key="other"))
        found = await ledger.find_run("k")
        assert found is not None
        assert found.id == "01C"

    async def test_delivery_is_noted_once(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        await ledger.mark_delivered(batch.no, now=20.0)
        await ledger.mark_delivered(batch.no, now=21.0)
        assert (await ledger.get_batch(batch.id)).delivered_at == 20.0

    async def test_a_move_happens_once(self, ledger: LedgerAdapter) -> None:
        batch = await finalized(ledger)
        begun = await ledger.apply_move(moves.begin(batch, now=3.0))
        assert begun.started_at == 3.0
        with pytest.raises(Stale):
            await ledger.apply_move(moves.begin(batch, now=3.0))

    async def test_a_stale_move_changes_nothing(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        move = moves.fail(batch, "no", now=9.0)
        await ledger.apply_move(move)
        with pytest.raises(Stale):
            await ledger.apply_move(moves.fail(batch, "again", now=9.5))
        assert (await ledger.get_batch(batch.id)).error == "no"

    async def test_results_reach_the_record(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        asset = made("d/f1.jpg", role="jpeg", listed=False)
        told = [done(one, ends(one, new_files=(asset,)), result=StepResult(facts={"pages": 1})), failed(two)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        batch = await finished(ledger, batch)
        assert (batch.status, batch.completed_at) == ("DONE", 40.0)
        first, second = await ledger.list_inputs(batch.no, limit=10)
        assert (first.outcome, first.made, first.attempts) == (FileOutcome.DONE, [("jpeg", asset.file)], 1)
        assert (second.outcome, second.error_class, second.reason) == (FileOutcome.FAILED, "busy", "why")

    async def test_rows_come_in_pages(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 5)
        first = await ledger.list_seen(batch.no, 1, after=0, limit=3)
        rest = await ledger.list_seen(batch.no, 1, after=first[-1].no, limit=3)
        assert [one.no for one in (*first, *rest)] == [1, 2, 3, 4, 5]

    async def test_where_batches_stand_is_known_by_number(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        found = await ledger.get_positions([batch.no, batch.no + 1])
        assert found == {batch.no: Position(Stage.FLOWING, 1, 3)}

    async def test_an_abandoned_batch_has_ended_with_its_reason(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        await ledger.abandon_batch(batch.no, reason="changed", now=9.0)
        await ledger.abandon_batch(batch.no, reason="once more", now=9.5)
        batch = await ledger.get_batch(batch.id)
        assert (batch.ended, batch.error, batch.completed_at) == (True, "changed", 9.0)
        assert await claimed(ledger, batch) == []

    async def test_a_batch_that_is_put_off_rests_until_then(self, ledger: LedgerAdapter) -> None:
        batch = await begun(ledger, 1)
        await ledger.postpone_move(batch.no, batch.position, retries=1, until=20.0, reason="no", now=10.0)
        rested = await ledger.get_batch(batch.id)
        assert (rested.phase_retries, rested.rests_until) == (1, 20.0)
        assert await ledger.take_batches(ME, limit=9, now=19.0) == []
        assert await ledger.next_alarm(now=19.0) == 20.0
        assert [one.no for one in await ledger.take_batches(ME, limit=9, now=20.0)] == [batch.no]
        batch = await ledger.admit_files(
            batch,
            [Admission(1, file("d/f1.tif"), first(1))],
            cursor=1,
            admitted=1,
            admissible=1,
            complete=True,
            now=20.0,
        )
        assert (batch.phase_retries, batch.rests_until) == (0, 0.0)
        with pytest.raises(Stale):
            await ledger.postpone_move(
                batch.no, rested.position, retries=2, until=30.0, reason="no", now=21.0
            )


class CrewSuite:
    async def test_what_one_takes_nobody_else_gets_until_it_is_left(self, ledger: LedgerAdapter) -> None:
        for name in ("01A", "01C", "01D"):
            await begun(ledger, 1, batch_id=name)
        await admitted(ledger, batch_id="01E")  # its tasks run: nothing to move
        first = await ledger.take_batches(1, limit=2, now=5.0)
        second = await ledger.take_batches(2, limit=9, now=5.0)
        assert ([one.id for one in first], [one.id for one in second]) == (["01A", "01C"], ["01D"])
        assert [one.id for one in await ledger.take_batches(1, limit=9, now=5.0)] == ["01A", "01C"]
        await ledger.release_batch(first[0].no, 2)  # not its own
        assert [one.id for one in await ledger.take_batches(2, limit=9, now=5.0)] == ["01D"]
        await ledger.release_batch(first[0].no, 1)
        assert [one.id for one in await ledger.take_batches(2, limit=9, now=5.0)] == ["01A", "01D"]
        assert [one.id for one in await ledger.take_batches(2, limit=9, now=5.0, only=[second[0].no])] == [
            "01D"
        ]

    async def test_the_more_important_is_taken_first(self, ledger: LedgerAdapter) -> None:
        await begun(ledger, 1, batch_id="01A", tier=4)
        await begun(ledger, 1, batch_id="01C", tier=2)
        assert [one.id for one in await ledger.take_batches(1, limit=1, now=5.0)] == ["01C"]

    async def test_pipelines_that_one_does_not_know_take_no_room(self, ledger: LedgerAdapter) -> None:
        for number in range(4):
            await begun(ledger, 1, batch_id=f"01S{number}", pipeline="strange", tier=1)
            await begun(ledger, 1, batch_id=f"01N{number}", pipeline_version=2, tier=1)
        await begun(ledger, 1, batch_id="01P")
        assert await ledger.take_batches(1, limit=2, now=5.0, known=[]) == []
        taken = await ledger.take_batches(1, limit=2, now=5.0, known=[("plain", 1, ""), ("strange", 2, "")])
        assert [one.id for one in taken] == ["01P"]
        assert (
            len(await ledger.take_batches(1, limit=99, now=5.0, known={("plain", 1, ""), ("plain", 2, "")}))
            == 5
        )
        assert len(await ledger.take_batches(1, limit=99, now=5.0)) == 9

    async def test_members_beat_until_they_are_dismissed(self, ledger: LedgerAdapter) -> None:
        one = await ledger.add_member("one", "foreman", "here", now=1.0)
        two = await ledger.add_member("two", "foreman", "there", now=2.0)
        assert await ledger.record_heartbeat(one.no, now=3.0)
        crew = await ledger.list_members()
        assert [(member.name, member.place, member.beat) for member in crew] == [
            ("one", "here", 1),
            ("two", "there", 0),
        ]
        await ledger.remove_member(one.no)
        assert not await ledger.record_heartbeat(one.no, now=4.0)
        assert [member.no for member in await ledger.list_members()] == [two.no]
        await ledger.remove_member(two.no)
        three = await ledger.add_member("three", "foreman", "here", now=5.0)
        assert three.no > two.no

    async def test_what_the_dismissed_had_taken_is_free(self, ledger: LedgerAdapter) -> None:
        member = await ledger.add_member("one", "conductor", "here", now=1.0)
        batch = await begun(ledger, 1)
        await ledger.take_batches(member.no, limit=9, now=5.0)
        assert await ledger.take_batches(member.no + 1, limit=9, now=5.0) == []
        await ledger.remove_member(member.no)
        assert [one.no for one in await ledger.take_batches(member.no + 1, limit=9, now=5.0)] == [batch.no]

    async def test_who_was_dismissed_gets_nothing_any_more(self, ledger: LedgerAdapter) -> None:
        gone, here = [await ledger.add_member(name, "house", "here", now=1.0) for name in ("gone", "here")]
        working = await admitted(ledger, batch_id="01A")
        moving = await begun(ledger, 1, batch_id="01C")
        await ledger.remove_member(gone.no)
        assert await ledger.claim_phase(working.no, 1, member=gone.no, limit=9, now=10.0) == []
        assert await ledger.take_batches(gone.no, limit=9, now=10.0) == []
        assert len(await ledger.claim_phase(working.no, 1, member=here.no, limit=9, now=10.0)) == 3
        assert [one.no for one in await ledger.take_batches(here.no, limit=9, now=10.0)] == [moving.no]

    async def test_who_has_attempts_out_stays_in_the_crew(self, ledger: LedgerAdapter) -> None:
        member = await ledger.add_member("one", "house", "here", now=1.0)
        batch = await admitted(ledger, 2)
        one, two = await ledger.claim_phase(batch.no, 1, member=member.no, limit=9, now=10.0)
        await ledger.settle_flow(batch.no, [done(one)], now=11.0)
        await ledger.remove_member(member.no)
        assert await ledger.record_heartbeat(member.no, now=12.0)
        assert await ledger.list_running(member.no) == [two]
        await ledger.settle_flow(batch.no, [failed(two, due_at=20.0, blame=False)], now=13.0)
        await ledger.remove_member(member.no)
        assert await ledger.list_members() == []

    async def test_attempts_of_a_batch_that_has_ended_keep_nobody(self, ledger: LedgerAdapter) -> None:
        member = await ledger.add_member("one", "house", "here", now=1.0)
        batch = await admitted(ledger)
        await ledger.claim_phase(batch.no, 1, member=member.no, limit=9, now=10.0)
        await ledger.cancel(batch.no, act())
        await ledger.remove_member(member.no)
        assert await ledger.list_members() == []


class LedgerSuite(WalkSuite, CrewSuite, TaskSuite, RoundsSuite, ControlSuite, RecordsSuite, ReceptionSuite):
    """All of it."""


__all__ = ["LedgerSuite"]
