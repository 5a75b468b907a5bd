"""What every ledger does when tasks of a batch that flows are settled: effects, failures, strays, late
successes, answers from outside, and the end of the batch.
"""

from msgspec import structs

from quire.ledger.flow_values import ClaimRequest, Follower, PhaseLimit
from quire.ledger.port import Claim, Settlement, StrayKind
from quire.model.batch import Budget, Hold, Stage, TaskState
from quire.model.cost import Cost
from quire.model.work import ExternalRequest, Outcome, StepResult
from tests.suites.flow_situations import (
    Select,
    admitted,
    check_counters,
    claimed,
    done,
    effects_of,
    ends,
    failed,
    fails,
    finished,
    follows,
    kinds_of,
    made,
    outcomes,
    parts,
    states_of,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, act


class FlowSettleSuite:
    async def test_a_task_begets_the_next_one_in_its_own_transaction(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0)
        assert (settled.applied, settled.strays, settled.created) == (1, 0, True)
        assert await states_of(select, batch) == {(1, 1, 0): "done", (1, 2, 0): "running", (2, 1, 0): "ready"}
        (next_one,) = await claimed(ledger, batch, 2)
        assert next_one.place is not None
        assert (next_one.place.tries, next_one.order.file.path) == (1, "d/f1.tif")
        await ledger.settle_flow(batch.no, [done(next_one), done(two)], now=12.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 2), "d/f2.tif": ("done", 1)}
        await check_counters(select, batch)

    async def test_who_settles_is_given_the_next_tasks_the_highest_phase_first(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 4)
        one, two = await claimed(ledger, batch, limit=2)
        wanted = ClaimRequest(ME, 3, (PhaseLimit(3, 9), PhaseLimit(2, 9), PhaseLimit(1, 9)))
        told = [done(one, follows(one)), done(two, follows(two))]
        settled = await ledger.settle_flow(batch.no, told, now=11.0, claim=wanted)
        assert [
            (claim.place.phase, claim.order.file.path, claim.order.attempt, claim.started_at)
            for claim in settled.claims
            if claim.place is not None
        ] == [(2, "d/f1.tif", 1, 11.0), (2, "d/f2.tif", 1, 11.0), (1, "d/f3.tif", 1, 11.0)]
        assert await claimed(ledger, batch, 2) == []
        running = {claim.order.task_no for claim in settled.claims}
        assert {claim.order.task_no for claim in await ledger.list_running(ME)} == running
        await check_counters(select, batch)

    async def test_no_more_is_claimed_with_a_settlement_than_a_phase_allows(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await admitted(ledger, 5)
        (one,) = await claimed(ledger, batch, limit=1)
        wanted = ClaimRequest(ME, 9, (PhaseLimit(2, 0), PhaseLimit(1, 2)))
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0, claim=wanted)
        assert [claim.place.file_no for claim in settled.claims if claim.place is not None] == [2, 3]
        assert len(await claimed(ledger, batch, 2)) == 1

    async def test_nothing_is_claimed_with_a_settlement_of_a_batch_that_rests_or_has_ended(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await admitted(ledger, 3)
        one, two = await claimed(ledger, batch, limit=2)
        wanted = ClaimRequest(ME, 9, (PhaseLimit(2, 9), PhaseLimit(1, 9)))
        await ledger.pause(batch.no, act())
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0, claim=wanted)
        assert (settled.applied, settled.claims) == (1, ())
        await ledger.cancel(batch.no, act())
        settled = await ledger.settle_flow(batch.no, [done(two, follows(two))], now=12.0, claim=wanted)
        assert (settled.applied, settled.claims) == (0, ())

    async def test_who_was_removed_is_given_no_tasks_with_a_settlement(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        await ledger.add_member("me", "house", "here", now=1.0)
        gone = await ledger.add_member("gone", "house", "here", now=1.0)
        (one,) = await claimed(ledger, batch, limit=1)
        await ledger.remove_member(gone.no)
        wanted = ClaimRequest(gone.no, 9, (PhaseLimit(1, 9),))
        settled = await ledger.settle_flow(batch.no, [done(one)], now=11.0, claim=wanted)
        assert (settled.applied, settled.claims) == (1, ())

    async def test_a_report_counts_once(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        told = [done(one, follows(one)), done(one, follows(one)), done(two)]
        settled = await ledger.settle_flow(batch.no, told, now=11.0)
        assert (settled.applied, settled.strays) == (2, 1)
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0)
        assert (settled.applied, settled.strays, settled.created) == (0, 1, False)
        assert len(await claimed(ledger, batch, 2)) == 1
        await check_counters(select, batch)

    async def test_new_files_walk_on_and_the_old_one_leaves_the_list(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        pages = (made("d/f1-1.png"), made("d/f1-2.png"), made("d/f1.txt", role="text", listed=False))
        followers = (Follower(2, (0,), -1, 1), Follower(2, (0,), -2, 0))
        effects = effects_of(claim, new_files=pages, leaves=True, followers=followers, walking=2)
        await ledger.settle_flow(batch.no, [done(claim, effects)], now=11.0)
        seen = await ledger.list_seen(batch.no, 2, after=0, limit=9)
        assert [one.file.path for one in seen] == ["d/f1-1.png", "d/f1-2.png"]
        assert [one.root_no for one in seen] == [1, 1]
        seen = await ledger.list_seen(batch.no, 1, after=0, limit=9)
        assert [one.file.path for one in seen] == ["d/f1.tif"]
        one, two = await claimed(ledger, batch, 2)
        assert one.place is not None
        assert (one.place.lineage, one.place.root_no, one.place.tries) == ("made", 1, 1)
        await ledger.settle_flow(batch.no, [done(one)], now=12.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("pending", 2)}
        await ledger.settle_flow(batch.no, [done(two)], now=13.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 3)}
        made_of = (await ledger.list_inputs(batch.no, limit=9))[0]
        assert made_of.path == "d/f1.tif"
        await check_counters(select, batch)

    async def test_new_tags_make_a_new_row(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        tagged = (made("d/f1.tif", tags=("dark",)),)
        effects = effects_of(
            claim, new_files=tagged, leaves=True, followers=(Follower(2, (0,), -1, 1),), walking=1
        )
        await ledger.settle_flow(batch.no, [done(claim, effects)], now=11.0)
        (again,) = await claimed(ledger, batch, 2)
        assert again.order.file.tags == ("dark",)
        assert claim.order.file.tags == ()
        found = await ledger.find_listed(batch.no, ["d/f1.tif"])
        assert [(one.born, one.file.tags) for one in found["d/f1.tif"]] == [(0, ()), (1, ("dark",))]

    async def test_of_several_failures_the_first_in_the_pipeline_is_told(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        pages = tuple(made(f"d/f1-{number}.png") for number in (1, 2, 3))
        followers = tuple(Follower(2, (0,), -number, 1) for number in (1, 2, 3))
        effects = effects_of(claim, new_files=pages, leaves=True, followers=followers, walking=3)
        await ledger.settle_flow(batch.no, [done(claim, effects)], now=11.0)
        one, two, three = await claimed(ledger, batch, 2)
        told = failed(two, ends(two, failure=fails(two, error_class="dark")), error_class="dark")
        await ledger.settle_flow(batch.no, [told], now=12.0)
        told = failed(three, ends(three, failure=fails(three, error_class="torn")), error_class="torn")
        await ledger.settle_flow(batch.no, [told], now=13.0)
        (document,) = await ledger.list_inputs(batch.no, limit=9)
        assert (document.outcome.value, document.error_class) == ("failed", "dark")
        await ledger.settle_flow(batch.no, [failed(one, error_class="bent")], now=14.0)
        (document,) = await ledger.list_inputs(batch.no, limit=9)
        assert document.error_class == "bent"
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING
        await check_counters(select, batch)

    async def test_a_failed_document_that_passes_stays_failed(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        passes = structs.replace(follows(claim), failure=fails(claim))
        await ledger.settle_flow(batch.no, [failed(claim, passes)], now=11.0)
        (later,) = await claimed(ledger, batch, 2)
        await ledger.settle_flow(batch.no, [done(later)], now=12.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("failed", 2)}

    async def test_tries_are_counted_over_all_phases(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=20.0)], now=11.0)
        (claim,) = await claimed(ledger, batch, now=20.0)
        await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=21.0)
        (claim,) = await claimed(ledger, batch, 2, now=21.0)
        await ledger.settle_flow(batch.no, [done(claim)], now=22.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 3)}
        _, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "erred"),
            ("ONE", 2, "done"),
            ("TWO", 1, "done"),
        ]
        await check_counters(select, batch)

    async def test_phases_start_once_and_status_never_goes_back(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        statuses = []
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0)
        statuses.append((await ledger.get_batch(batch.id)).status)
        (later,) = await claimed(ledger, batch, 2)
        await ledger.settle_flow(batch.no, [done(later, follows(later))], now=12.0)
        statuses.append((await ledger.get_batch(batch.id)).status)
        await ledger.settle_flow(batch.no, [done(two, follows(two, 3))], now=13.0)
        statuses.append((await ledger.get_batch(batch.id)).status)
        assert statuses == ["ONE", "ONE", "THREE"]
        assert (await kinds_of(ledger, batch)).count("phase_started") == 3

    async def test_the_last_task_ends_the_batch_once(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 3)
        one, two, three = await claimed(ledger, batch)
        settled = await ledger.settle_flow(batch.no, [done(one), done(two)], now=11.0)
        assert not settled.phase_ended
        assert (await ledger.settle_flow(batch.no, [done(three)], now=12.0)).phase_ended
        assert not (await ledger.settle_flow(batch.no, [done(three)], now=12.0)).phase_ended
        batch = await finished(ledger, batch)
        assert (batch.position.stage, batch.status) == (Stage.DONE, "DONE")
        kinds = await kinds_of(ledger, batch)
        assert (kinds.count("batch_done"), kinds.count("phase_started")) == (1, 3)
        await check_counters(select, batch)

    async def test_costs_are_counted_by_phase_and_a_budget_holds(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2, budget=Budget(tokens=10))
        one, _ = await claimed(ledger, batch, limit=2)
        cost = Cost(tokens_in=7, tokens_out=4)
        await ledger.settle_flow(batch.no, [done(one, follows(one), cost=cost)], now=11.0)
        counts = await ledger.count_tasks(batch.no)
        assert [(each.spent.tokens_in, each.spent.tokens_out) for each in counts] == [(7, 4), (0, 0), (0, 0)]
        assert (await ledger.get_batch(batch.id)).hold is Hold.BUDGET
        assert await claimed(ledger, batch, 2) == []

    async def test_results_and_those_of_strays_are_remembered(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        result = StepResult(facts={"n": 1})
        await ledger.settle_flow(batch.no, [done(one, cache_key="k1", result=result)], now=11.0)
        await ledger.cancel(batch.no, act())
        settled = await ledger.settle_flow(batch.no, [done(two, cache_key="k2", result=result)], now=12.0)
        assert (settled.applied, settled.strays) == (0, 1)
        assert await ledger.load_cached(["k1", "k2", "k3"]) == {"k1": result, "k2": result}
        assert [one.kind for one in await ledger.list_stray_reports(batch.no, limit=9)] == [StrayKind.LATE]

    async def test_what_is_answered_from_the_cache_is_counted(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        told = done(claim, ends(claim, tries=0), cached=True, result=StepResult(facts={"n": 1}))
        await ledger.settle_flow(batch.no, [told], now=11.0)
        counts = await ledger.count_tasks(batch.no)
        assert (counts[0].done, counts[0].cached) == (1, 1)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 0)}
        await check_counters(select, batch)

    async def test_a_report_of_another_attempt_is_a_stray(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=20.0)], now=11.0)
        (again,) = await claimed(ledger, batch, now=20.0)
        settled = await ledger.settle_flow(batch.no, [done(claim), done(again)], now=21.0)
        assert (settled.applied, settled.strays) == (1, 1)
        await check_counters(select, batch)


class FlowLateSuite:
    async def test_a_late_success_counts_while_the_task_waits(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        given_up = failed(claim, due_at=20.0, outcome=Outcome.TIMED_OUT, error_class="timeout")
        await ledger.settle_flow(batch.no, [given_up], now=11.0)
        settled = await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=12.0)
        assert (settled.applied, settled.strays) == (1, 0)
        assert await states_of(select, batch) == {(1, 1, 0): "done", (2, 1, 0): "ready"}
        _, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [one.outcome for one in attempts] == ["timed_out", "done"]
        await check_counters(select, batch)

    async def test_a_late_success_takes_a_failure_back(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        passes = structs.replace(follows(one), failure=fails(one, error_class="timeout"))
        given_up = failed(one, passes, outcome=Outcome.TIMED_OUT, error_class="timeout")
        stopped = failed(two, outcome=Outcome.TIMED_OUT, error_class="timeout")
        await ledger.settle_flow(batch.no, [given_up], now=11.0)
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one))], now=12.0)
        assert settled.applied == 1
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("pending", 0), "d/f2.tif": ("pending", 0)}
        await check_counters(select, batch)
        await ledger.settle_flow(batch.no, [stopped], now=13.0)
        await ledger.settle_flow(batch.no, [done(two)], now=14.0)
        (later,) = await claimed(ledger, batch, 2)
        await ledger.settle_flow(batch.no, [done(later)], now=15.0)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 2), "d/f2.tif": ("done", 1)}
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING
        await check_counters(select, batch)

    async def test_it_is_kept_as_late_when_what_followed_has_started(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        passes = structs.replace(follows(claim), failure=fails(claim, error_class="timeout"))
        given_up = failed(claim, passes, outcome=Outcome.TIMED_OUT, error_class="timeout")
        await ledger.settle_flow(batch.no, [given_up], now=11.0)
        await claimed(ledger, batch, 2)
        settled = await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=12.0)
        assert (settled.applied, settled.strays) == (0, 1)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("failed", 0)}
        await check_counters(select, batch)

    async def test_beside_others_a_late_success_counts_until_all_have_settled(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1))
        zero, one = await claimed(ledger, batch)
        given_up = failed(zero, parts(zero), outcome=Outcome.TIMED_OUT, error_class="timeout")
        await ledger.settle_flow(batch.no, [given_up], now=11.0)
        settled = await ledger.settle_flow(batch.no, [done(zero, parts(zero))], now=12.0)
        assert (settled.applied, settled.strays) == (1, 0)
        assert await states_of(select, batch) == {(1, 1, 0): "done", (1, 1, 1): "running"}
        assert await ledger.count_failures(batch.no) == {}
        await check_counters(select, batch)
        given_up = failed(one, parts(one), outcome=Outcome.TIMED_OUT, error_class="timeout")
        await ledger.settle_flow(batch.no, [given_up], now=13.0)
        settled = await ledger.settle_flow(batch.no, [done(one, parts(one))], now=14.0)
        assert (settled.applied, settled.strays) == (0, 1)  # what follows may have been decided by now
        (join,) = await ledger.list_complete_joins(batch.no, limit=9)
        assert [branch.state for branch in join.branches] == [TaskState.DONE, TaskState.FAILED]
        await check_counters(select, batch)

    async def test_what_failed_by_itself_stays_failed(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 2)
        one, _ = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(one)], now=11.0)
        settled = await ledger.settle_flow(batch.no, [done(one)], now=12.0)
        assert (settled.applied, settled.strays) == (0, 1)
        await check_counters(select, batch)


class FlowExternalSuite:
    async def test_a_request_goes_out_with_the_state_that_awaits_its_answer(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        sent = await ledger.list_unsent(99)
        await ledger.settle_flow(batch.no, [asked(one, 100.0, "people"), asked(two, 50.0)], now=11.0)
        assert await states_of(select, batch) == {(1, 1, 0): "external", (1, 2, 0): "external"}
        letters = [letter for letter in await ledger.list_unsent(99) if letter not in sent]
        assert [(letter.queue, letter.body) for letter in letters] == [("people", b"please")]
        assert await ledger.list_running(ME) == []
        assert await ledger.next_alarm(now=12.0) == 50.0
        await check_counters(select, batch)
        # The first answer counts, whoever gives it.
        settled = await ledger.settle_flow(batch.no, [done(one, follows(one)), failed(one)], now=13.0)
        assert (settled.applied, settled.strays) == (1, 1)
        await check_counters(select, batch)

    async def test_nobody_answers_in_time(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [asked(one, 20.0), asked(two, 90.0)], now=11.0)
        assert await ledger.list_overdue(now=19.0, limit=9) == []
        (found,) = await ledger.list_flowing(limit=9, now=20.0)
        assert found.offers == ()
        ((overdue, _),) = await ledger.list_overdue(now=20.0, limit=9, only=[batch.no])
        assert overdue.order == one.order
        told = failed(overdue, due_at=30.0, outcome=Outcome.TIMED_OUT, error_class="no_answer")
        await ledger.settle_flow(batch.no, [told], now=20.0)
        await ledger.reset_alarm(batch.no)
        assert await ledger.next_alarm(now=20.0) == 30.0
        (again,) = await claimed(ledger, batch, now=30.0)
        assert again.order.attempt == 2
        await check_counters(select, batch)

    async def test_the_same_request_is_not_sent_twice(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        before = len(await ledger.list_unsent(99))
        settled = await ledger.settle_flow(
            batch.no, [asked(claim, 20.0, "people"), asked(claim, 20.0, "people")], now=11.0
        )
        assert (settled.applied, settled.strays) == (1, 1)
        settled = await ledger.settle_flow(batch.no, [asked(claim, 20.0, "people")], now=11.0)
        assert (settled.applied, settled.strays) == (0, 1)
        assert len(await ledger.list_unsent(99)) == before + 1


def asked(claim: Claim, due_at: float, queue: str = "") -> Settlement:
    """The step has asked somebody outside."""
    told = failed(claim, due_at=due_at, outcome=Outcome.EXTERNAL, error_class="")
    request = ExternalRequest(queue=queue, body=b"please")
    return structs.replace(
        told,
        state=TaskState.EXTERNAL,
        blame=False,
        report=structs.replace(told.report, request=request, error=""),
    )
