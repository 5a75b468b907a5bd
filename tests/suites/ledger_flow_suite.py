"""What every ledger keeps for batches whose documents move on by themselves: the intake, offers, claims."""

import pytest

from quire.engine import moves
from quire.ledger.flow_values import Admission, FlowOffer, first_number
from quire.model.batch import FlowState, Hold, Stage
from quire.model.errors import Missing, Stale
from quire.model.work import Outcome
from quire.testing.factories import file
from tests.suites.flow_situations import (
    Select,
    admitted,
    begun,
    check_counters,
    claimed,
    done,
    failed,
    first,
    follows,
    kinds_of,
    paths_of,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, act, finalized


class FlowIntakeSuite:
    async def test_a_batch_is_begun_once(self, ledger: LedgerAdapter) -> None:
        batch = await finalized(ledger, paths_of(2))
        filling = await ledger.apply_move(moves.begin(batch, now=3.0))
        batch = await ledger.begin_flow(filling, phases=["ONE", "TWO"], waits_at=2, now=4.0)
        assert (batch.position.stage, batch.position.phase) == (Stage.FLOWING, 1)
        assert batch.flow == FlowState(sources=1, waits_at=2)
        assert [(one.phase, one.name) for one in await ledger.count_tasks(batch.no)] == [
            (1, "ONE"),
            (2, "TWO"),
        ]
        with pytest.raises(Stale):
            await ledger.begin_flow(filling, phases=["ONE"], waits_at=None, now=4.0)
        assert (await kinds_of(ledger, batch)).count("phase_started") == 1

    async def test_the_plan_is_kept(self, ledger: LedgerAdapter) -> None:
        batch = await begun(ledger, plan='{"a": 1}')
        assert await ledger.get_plan(batch.no) == '{"a": 1}'
        with pytest.raises(Missing):
            await ledger.get_plan(99)

    async def test_files_are_listed_first_and_given_their_tasks_later(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await begun(ledger, 4)
        listing = [Admission(no, file(f"d/f{no}.tif"), None) for no in (1, 2)]
        batch = await ledger.admit_files(
            batch, listing, cursor=2, admitted=0, admissible=0, complete=False, now=5.0
        )
        assert batch.flow == FlowState(sources=1)
        assert await ledger.list_flowing(limit=9, now=9.0) == []
        more = [Admission(no, file(f"d/f{no}.tif"), None) for no in (3, 4)]
        batch = await ledger.admit_files(
            batch, more, cursor=4, admitted=0, admissible=4, complete=False, now=5.0
        )
        listed = await ledger.list_seen(batch.no, 1, after=1, limit=2)
        assert [one.file.path for one in listed] == ["d/f2.tif", "d/f3.tif"]
        tasks = [Admission(no, None, first(no)) for no in (1, 2, 3)]
        batch = await ledger.admit_files(
            batch, tasks, cursor=4, admitted=3, admissible=4, complete=False, now=5.0
        )
        assert batch.flow == FlowState(sources=1, open_tasks=3, admitted=3, admissible=4)
        last = [Admission(4, None, None)]
        batch = await ledger.admit_files(
            batch, last, cursor=4, admitted=4, admissible=4, complete=True, now=5.0
        )
        assert batch.flow == FlowState(open_tasks=3, admitted=4, admissible=4)
        await check_counters(select, batch)

    async def test_two_who_admit_do_not_admit_twice(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await begun(ledger, 1)
        entries = [Admission(1, file("a"), first(1))]
        await ledger.admit_files(batch, entries, cursor=1, admitted=1, admissible=1, complete=True, now=5.0)
        with pytest.raises(Stale):
            await ledger.admit_files(
                batch, entries, cursor=1, admitted=1, admissible=1, complete=True, now=5.0
            )
        await check_counters(select, batch)

    async def test_what_is_made_meanwhile_takes_no_number_of_an_input(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await begun(ledger, 3)
        batch = await ledger.admit_files(
            batch,
            [Admission(1, file("d/f1.tif"), first(1))],
            cursor=1,
            admitted=1,
            admissible=1,
            complete=False,
            now=5.0,
        )
        (claim,) = await claimed(ledger, batch)
        assert claim.place is not None
        await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=11.0)
        batch = await ledger.get_batch(batch.id)
        assert batch.position.stage is Stage.FLOWING
        rest = [Admission(no, file(f"d/f{no}.tif"), first(no)) for no in (2, 3)]
        batch = await ledger.admit_files(
            batch, rest, cursor=3, admitted=3, admissible=3, complete=True, now=12.0
        )
        assert batch.last_file == 3
        await check_counters(select, batch)

    async def test_a_batch_without_tasks_ends(self, ledger: LedgerAdapter) -> None:
        batch = await begun(ledger, 1)
        batch = await ledger.admit_files(
            batch, [Admission(1, file("a"), None)], cursor=1, admitted=1, admissible=1, complete=True, now=5.0
        )
        assert batch.position.stage is Stage.ENDING
        assert (await kinds_of(ledger, batch)).count("phase_started") == 3

    async def test_listed_files_and_folders_are_found_by_folded_path(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, paths=["Dir/A.tif", "dir/a.TIF", "dir/b.tif"])
        found = await ledger.find_listed(batch.no, ["dir/a.tif", "dir/c.tif", "dir/", "di/", "twins:Dir"])
        assert sorted(found) == ["dir/", "dir/a.tif", "twins:Dir"]
        assert [(one.no, one.file.path, one.born) for one in found["dir/a.tif"]] == [
            (1, "Dir/A.tif", 0),
            (2, "dir/a.TIF", 0),
        ]

    async def test_who_moves_it_lets_go_of_it(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        await ledger.take_batches(ME, limit=9, now=6.0)
        await ledger.rest_batch(batch.no, ME, now=7.0)
        assert await ledger.take_batches(2, limit=9, now=8.0) == []  # nothing to do
        claims = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(claim) for claim in claims], now=11.0)
        (taken,) = await ledger.take_batches(2, limit=9, now=12.0)
        assert taken.position.stage is Stage.ENDING


class FlowClaimSuite:
    async def test_claims_of_a_phase_are_disjoint_and_numbered(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 5)
        one = await claimed(ledger, batch, limit=2)
        two = await claimed(ledger, batch, limit=9)
        numbers = [claim.order.task_no - first_number(1) for claim in (*one, *two)]
        assert numbers == [1, 2, 3, 4, 5]
        assert {claim.order.attempt for claim in (*one, *two)} == {1}
        assert [claim.place.file_no for claim in one if claim.place] == [1, 2]
        assert await claimed(ledger, batch) == []
        assert await claimed(ledger, batch, 2) == []
        assert one[0].order.file == file("d/f1.tif")

    async def test_offers_name_phases_the_highest_first(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 4)
        one, two, *_ = await claimed(ledger, batch, limit=3)
        await ledger.settle_flow(batch.no, [done(one, follows(one)), failed(two, due_at=20.0)], now=11.0)
        (found,) = await ledger.list_flowing(limit=9, now=12.0)
        assert found.offers == (FlowOffer(2, 1, due=False), FlowOffer(1, 1, due=False))
        (found,) = await ledger.list_flowing(limit=9, now=20.0)
        assert found.offers == (FlowOffer(2, 1, due=False), FlowOffer(1, 1, due=True))
        again = await claimed(ledger, batch, limit=1, now=20.0)
        assert [(claim.order.task_no, claim.order.attempt, claim.failures) for claim in again] == [
            (two.order.task_no, 2, 1)
        ]

    async def test_only_certain_batches_and_known_pipelines(self, ledger: LedgerAdapter) -> None:
        one = await admitted(ledger, batch_id="01A", plan_digest="x")
        two = await admitted(ledger, batch_id="01C", plan_digest="y")
        found = await ledger.list_flowing(limit=9, now=9.0, only=[two.no])
        assert [each.batch.no for each in found] == [two.no]
        found = await ledger.list_flowing(limit=9, now=9.0, known=[("plain", 1, "x")])
        assert [each.batch.no for each in found] == [one.no]
        assert await ledger.list_flowing(limit=9, now=9.0, known=[("plain", 2, "x"), ("other", 1, "x")]) == []
        assert await ledger.list_flowing(limit=9, now=9.0, known=[]) == []
        assert len(await ledger.list_flowing(limit=9, now=9.0, known=[("plain", 1, "")])) == 2

    async def test_of_a_paused_batch_nothing_starts(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        held = await ledger.pause(batch.no, act())
        assert held.hold is Hold.PAUSED
        assert await claimed(ledger, batch) == []
        assert await ledger.list_flowing(limit=9, now=9.0) == []
        await ledger.resume(batch.no, act())
        assert len(await claimed(ledger, batch)) == 3

    async def test_a_pace_is_kept_for_each_phase(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 3)
        (claim,) = await ledger.claim_phase(batch.no, 1, member=ME, limit=1, now=10.0, pace_seconds=5.0)
        assert await claimed(ledger, batch, now=14.0) == []
        assert await ledger.next_alarm(now=11.0) == 15.0
        await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=12.0)
        (found,) = await ledger.list_flowing(limit=9, now=14.0)
        assert found.offers == (FlowOffer(2, 1, due=False),)
        assert len(await claimed(ledger, batch, 2, now=14.0)) == 1
        assert len(await claimed(ledger, batch, now=15.0)) == 2

    async def test_a_removed_member_claims_nothing(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        member = await ledger.add_member("gone", "house", "here", now=1.0)
        other = await ledger.add_member("here", "house", "here", now=1.0)
        await ledger.remove_member(member.no)
        assert await ledger.claim_phase(batch.no, 1, member=member.no, limit=9, now=10.0) == []
        assert len(await ledger.claim_phase(batch.no, 1, member=other.no, limit=9, now=10.0)) == 3

    async def test_a_member_with_attempts_is_not_removed(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        member = await ledger.add_member("busy", "house", "here", now=1.0)
        claims = await ledger.claim_phase(batch.no, 1, member=member.no, limit=9, now=10.0)
        await ledger.remove_member(member.no)
        assert [one.no for one in await ledger.list_members()] == [member.no]
        assert await ledger.list_running(member.no) == claims

    async def test_what_never_started_is_due_at_once_and_no_try(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(two)], now=11.0)
        await ledger.release_flow_claims(batch.no, [(claim.order.task_no, 1) for claim in (one, two)])
        (again,) = await claimed(ledger, batch, now=11.0)
        assert (again.order.task_no, again.order.attempt) == (one.order.task_no, 2)
        assert again.place is not None
        assert again.place.tries == -1
        await check_counters(select, batch)

    async def test_claims_can_be_loaded_again(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        numbers = [one.order.task_no, two.order.task_no, 99]
        assert await ledger.load_claims(batch.no, numbers) == {numbers[0]: one, numbers[1]: two}

    async def test_the_alarm_is_that_of_the_next_task(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        claims = await claimed(ledger, batch)
        told = [failed(claim, due_at=20.0 + 10 * place) for place, claim in enumerate(claims)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        assert await ledger.next_alarm(now=12.0) == 20.0
        (one,) = await claimed(ledger, batch, limit=1, now=21.0)
        assert await ledger.next_alarm(now=21.0) == 30.0
        await ledger.settle_flow(batch.no, [done(one)], now=22.0)
        await ledger.reset_alarm(batch.no)
        assert await ledger.next_alarm(now=22.0) == 30.0

    async def test_superseded_tasks_are_passed_over(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 3)
        late, *others = await claimed(ledger, batch)
        # It was given up and let pass; its success comes after all, and what it let pass is superseded.
        given_up = failed(late, follows(late), outcome=Outcome.TIMED_OUT)
        told = [given_up, *(done(claim, follows(claim)) for claim in others)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        settled = await ledger.settle_flow(batch.no, [done(late, follows(late))], now=12.0)
        assert settled.applied == 1
        claims = await claimed(ledger, batch, 2, limit=1)
        claims += await claimed(ledger, batch, 2)
        assert sorted(claim.place.file_no for claim in claims if claim.place) == [1, 2, 3]
        await check_counters(select, batch)
