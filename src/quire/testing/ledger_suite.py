"""What every ledger adapter must keep. Subclass it and give a fixture `ledger`."""

from typing import Any

import pytest

from quire.engine import moves
from quire.ledger.port import Claim, Ledger, Settled, Settlement, Upload
from quire.model.batch import Batch, FileOutcome, Stage, TaskState
from quire.model.errors import Missing, Stale
from quire.model.pipeline import Added, Change, Kept
from quire.model.work import Outcome, StepResult
from quire.testing.factories import draft, file, letter, phase, pipeline, product, report

ONE = pipeline(phase("ONE"))


async def started(ledger: Ledger, files: int = 3, batch_id: str = "01B") -> Batch:
    """A batch in its first phase with one task per file."""
    batch = await ledger.open_batch(draft(batch_id))
    paths = [f"d/f{number}.tif" for number in range(files)]
    await ledger.record_uploads(batch.no, [Upload(path=path, state="taken", size=10) for path in paths])
    batch = await ledger.finalize(
        batch.no, manifest_key="m", total_files=files, letter=letter(batch_id), now=2.0
    )
    batch = await ledger.apply(moves.begin(batch, now=3.0))
    batch = await ledger.apply(moves.fill(batch, ONE, [file(path) for path in paths], complete=True, now=4.0))
    listed = await ledger.files(batch.no, after=0, limit=1000)
    return await ledger.apply(moves.discover(batch, ONE, listed, complete=True, now=5.0))


def done(claim: Claim, **changes: Any) -> Settlement:
    order = claim.order
    told = report(order.task_no, order.attempt, batch_no=order.batch_no, **changes)
    return Settlement(report=told, state=TaskState.DONE)


def erred(claim: Claim, *, due_at: float | None, blame: bool = True) -> Settlement:
    order = claim.order
    told = report(
        order.task_no,
        order.attempt,
        Outcome.ERRED if blame else Outcome.INTERRUPTED,
        batch_no=order.batch_no,
        error_class="busy",
        error="busy",
    )
    state = TaskState.FAILED if due_at is None else TaskState.WAITING
    return Settlement(report=told, state=state, due_at=due_at, blame=blame)


class LedgerSuite:
    async def test_an_unknown_batch_is_missing(self, ledger: Ledger) -> None:
        with pytest.raises(Missing):
            await ledger.batch("nobody")

    async def test_uploads_are_kept_by_path_and_the_last_note_counts(self, ledger: Ledger) -> None:
        batch = await ledger.open_batch(draft())
        await ledger.record_uploads(batch.no, [Upload(path=path, state="taken") for path in ("b", "a", "c")])
        await ledger.record_uploads(batch.no, [Upload(path="a", state="failed", reason="gone")])
        await ledger.forget_uploads(batch.no, ["c"])
        noted = await ledger.uploads(batch.no, limit=10)
        assert [(one.path, one.state) for one in noted] == [("a", "failed"), ("b", "taken")]
        assert [one.path for one in await ledger.uploads(batch.no, after="a", limit=10)] == ["b"]

    async def test_finalize_closes_the_batch_and_posts_its_letter_together(self, ledger: Ledger) -> None:
        batch = await ledger.open_batch(draft())
        await ledger.finalize(batch.no, manifest_key="m", total_files=0, letter=letter(), now=2.0)
        (waiting,) = await ledger.outbox(10)
        assert waiting.message_id == "start-01B"
        with pytest.raises(Stale):
            await ledger.finalize(batch.no, manifest_key="m", total_files=0, letter=letter(), now=2.0)
        assert len(await ledger.outbox(10)) == 1
        await ledger.sent([waiting.no])
        assert await ledger.outbox(10) == []

    async def test_the_newest_run_of_a_key_is_found(self, ledger: Ledger) -> None:
        assert await ledger.find_run("k") is None
        await ledger.open_batch(draft("01A", run_key="k"))
        await ledger.open_batch(draft("01C", run_key="k"))
        await ledger.open_batch(draft("01D", run_key="other"))
        found = await ledger.find_run("k")
        assert found is not None
        assert found.id == "01C"

    async def test_a_move_happens_once(self, ledger: Ledger) -> None:
        batch = await ledger.open_batch(draft())
        batch = await ledger.finalize(batch.no, manifest_key="m", total_files=1, letter=letter(), now=2.0)
        await ledger.apply(moves.begin(batch, now=3.0))
        with pytest.raises(Stale):
            await ledger.apply(moves.begin(batch, now=3.0))

    async def test_a_stale_move_changes_nothing(self, ledger: Ledger) -> None:
        batch = await started(ledger)
        move = moves.fail(batch, "no", now=9.0)
        await ledger.apply(move)
        with pytest.raises(Stale):
            await ledger.apply(moves.fail(batch, "again", now=9.5))
        assert (await ledger.batch(batch.id)).error == "no"

    async def test_claims_are_disjoint_and_numbered(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=5)
        first = await ledger.claim(batch.no, limit=2, now=10.0)
        second = await ledger.claim(batch.no, limit=9, now=10.0)
        assert [claim.order.task_no for claim in (*first, *second)] == [1, 2, 3, 4, 5]
        assert {claim.order.attempt for claim in (*first, *second)} == {1}
        assert await ledger.claim(batch.no, limit=9, now=10.0) == []
        assert first[0].order.file == file("d/f0.tif")

    async def test_a_report_counts_once(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=3)
        one, two, three = await ledger.claim(batch.no, limit=9, now=10.0)
        assert await ledger.settle(batch.no, [done(one), done(one), done(two)], now=11.0) == Settled(
            2, 1, False
        )
        assert await ledger.settle(batch.no, [done(one)], now=11.0) == Settled(0, 1, False)
        (counts,) = await ledger.counts(batch.no)
        assert (counts.total, counts.done, counts.failed) == (3, 2, 0)
        assert (await ledger.settle(batch.no, [done(three)], now=12.0)).phase_ended

    async def test_a_phase_ends_exactly_once(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim(batch.no, limit=9, now=10.0)
        ends = [(await ledger.settle(batch.no, [done(claim)], now=11.0)).phase_ended for _ in range(3)]
        assert ends == [True, False, False]
        assert (await ledger.batch(batch.id)).position.stage is Stage.TRANSFORMING

    async def test_an_empty_phase_ends_when_asked(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=0)
        assert (await ledger.settle(batch.no, [], now=11.0)).phase_ended

    async def test_a_waiting_task_comes_back_when_due_with_its_history(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim(batch.no, limit=9, now=10.0)
        await ledger.settle(batch.no, [erred(claim, due_at=20.0)], now=11.0)
        assert await ledger.next_alarm(batch.no) == 20.0
        assert await ledger.claim(batch.no, limit=9, now=19.9) == []
        (again,) = await ledger.claim(batch.no, limit=9, now=20.0)
        assert (again.order.attempt, again.failures, again.interruptions) == (2, 1, 0)

    async def test_interruptions_are_counted_apart(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim(batch.no, limit=9, now=10.0)
        await ledger.settle(batch.no, [erred(claim, due_at=10.0, blame=False)], now=10.0)
        (again,) = await ledger.claim(batch.no, limit=9, now=10.0)
        assert (again.failures, again.interruptions) == (0, 1)

    async def test_a_zombie_cannot_commit(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=1)
        (old,) = await ledger.claim(batch.no, limit=9, now=10.0)
        await ledger.settle(batch.no, [erred(old, due_at=10.0)], now=10.0)
        (new,) = await ledger.claim(batch.no, limit=9, now=10.0)
        assert await ledger.settle(batch.no, [done(old)], now=11.0) == Settled(0, 1, False)
        assert await ledger.settle(batch.no, [done(new)], now=11.0) == Settled(1, 0, True)

    async def test_alarms_ring_until_cleared_and_then_wait_for_the_next_task(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim(batch.no, limit=9, now=10.0)
        await ledger.settle(batch.no, [erred(one, due_at=20.0), erred(two, due_at=30.0)], now=11.0)
        await ledger.clear_alarm(batch.no, now=15.0)
        assert await ledger.next_alarm(batch.no) == 20.0
        await ledger.claim(batch.no, limit=1, now=21.0)
        await ledger.clear_alarm(batch.no, now=21.0)
        assert await ledger.next_alarm(batch.no) == 30.0

    async def test_orders_given_back_are_as_if_never_claimed(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        claims = await ledger.claim(batch.no, limit=9, now=10.0)
        await ledger.give_back([claim.order for claim in claims])
        assert await ledger.running(batch.no) == []
        again = await ledger.claim(batch.no, limit=9, now=11.0)
        assert [(claim.order.task_no, claim.order.attempt) for claim in again] == [(1, 1), (2, 1)]

    async def test_running_attempts_are_found_after_a_restart(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=3)
        claims = await ledger.claim(batch.no, limit=2, now=10.0)
        await ledger.settle(batch.no, [done(claims[0])], now=11.0)
        (left,) = await ledger.running(batch.no)
        assert (left.order, left.started_at) == (claims[1].order, 10.0)

    async def test_results_reach_the_transformation_and_the_record(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim(batch.no, limit=9, now=10.0)
        result = StepResult(products=(product("jpeg"),), facts={"pages": 1})
        await ledger.settle(batch.no, [done(one, result=result), erred(two, due_at=None)], now=11.0)
        batch = await ledger.batch(batch.id)
        tasks = await ledger.settled_tasks(batch.no, phase=1, after=0, limit=10)
        assert [(task.state, task.result) for task in tasks] == [
            (TaskState.DONE, result),
            (TaskState.FAILED, StepResult()),
        ]
        made = Added(file("d/f0.jpg"), "jpeg")
        augmenting = pipeline(phase(becomes=lambda *_: Change(Kept(("seen",)), (made,))))
        move = moves.transform(batch, augmenting, tasks, {}, complete=True, now=12.0)
        assert (await ledger.apply(move)).status == "DONE"
        first, second = await ledger.inputs(batch.no, limit=10)
        assert (first.outcome, first.made, first.attempts) == (FileOutcome.DONE, [("jpeg", made.file)], 1)
        assert (second.outcome, second.error_class, second.reason) == (FileOutcome.FAILED, "busy", "busy")
        paths = [one.file.path for one in await ledger.files(batch.no, after=0, limit=10)]
        assert paths == ["d/f0.tif", "d/f1.tif", "d/f0.jpg"]

    async def test_names_in_use_are_counted_without_case(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        assert await ledger.taken(batch.no, ["d/f0.tif", "d/none"]) == {"d/f0.tif": 1}

    async def test_the_name_of_a_folder_is_in_use_too(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        assert await ledger.taken(batch.no, ["d", "d/f0", "e", "d/f0.tif/x"]) == {"d": 1}

    async def test_the_cache_remembers_and_forgets(self, ledger: Ledger) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim(batch.no, limit=9, now=10.0)
        result = StepResult(facts={"n": 1})
        kept = [
            Settlement(report=done(one, result=result).report, state=TaskState.DONE, cache_key="k1"),
            Settlement(report=done(two).report, state=TaskState.DONE, cache_key="k2"),
        ]
        await ledger.settle(batch.no, kept, now=11.0)
        assert await ledger.cached(["k1", "k2", "k3"]) == {"k1": result, "k2": StepResult()}
        await ledger.evict(["k1"])
        assert await ledger.cached(["k1"]) == {}

    async def test_an_abandoned_batch_has_ended_with_its_reason(self, ledger: Ledger) -> None:
        batch = await started(ledger)
        await ledger.abandon(batch.no, reason="changed", now=9.0)
        batch = await ledger.batch(batch.id)
        assert (batch.ended, batch.error) == (True, "changed")
        assert await ledger.claim(batch.no, limit=9, now=10.0) == []

    async def test_events_tell_the_story(self, ledger: Ledger) -> None:
        batch = await started(ledger)
        kinds = [kind for _, kind, _ in await ledger.events(batch.no, limit=100)]
        assert kinds == ["batch_opened", "batch_finalized", "batch_started", "phase_started"]

    async def test_batches_do_not_mix(self, ledger: Ledger) -> None:
        first = await started(ledger, files=2, batch_id="01A")
        second = await started(ledger, files=1, batch_id="01C")
        await ledger.claim(first.no, limit=1, now=10.0)
        (claim,) = await ledger.claim(second.no, limit=9, now=10.0)
        assert (await ledger.settle(second.no, [done(claim)], now=11.0)).phase_ended
        assert (await ledger.batch(first.id)).position.stage is Stage.WORKING
