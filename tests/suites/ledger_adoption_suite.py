"""What every ledger does with batches that an earlier version has begun, in the midst of each stage: they go
on as batches that flow, with the same files in the end.
"""

# ruff: noqa: S608 - the statements are made of numbers and words of this module alone

import pytest
from msgspec import structs

from quire.batches.remote.attempts import find_task, settle
from quire.batches.remote.context import RemoteContext
from quire.engine import adoption
from quire.engine.adoption import Adoption
from quire.engine.flow import follow
from quire.engine.retry import RetryPolicy
from quire.ledger.flow_values import Admission, Effects, first_number
from quire.ledger.port import Settlement, TaskSelection
from quire.model.batch import Stage, TaskState
from quire.model.errors import Misconfigured, Retry, Stale
from quire.model.plan import digest_of, encode_plan
from quire.testing.factories import file, report
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock
from tests.suites.flow_situations import (
    Select,
    check_counters,
    claimed,
    failed,
    finished,
    outcomes,
    states_of,
)
from tests.suites.former_rows import (
    FILES,
    FORMER,
    PATHS,
    STATES,
    TO_FLOWING,
    Execute,
    adopted,
    file_row,
    walked_on,
    written,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act, finalized

EVERY_STAGE = pytest.mark.parametrize("stage", list(STATES))


def remote_context(ledger: LedgerAdapter) -> RemoteContext:
    return RemoteContext(
        **dict.fromkeys(("batches", "tasks", "flow", "records", "members"), ledger),
        blobs=MemoryBlobs(),
        clock=FakeClock(),
        ids=CountingIds(),
        pipelines={"plain": TO_FLOWING},
    )


class AdoptionSuite:
    """Needs the fixture `execute` beside `ledger` and `select`."""

    @EVERY_STAGE
    async def test_a_batch_goes_on_from_every_stage(
        self,
        ledger: LedgerAdapter,
        select: Select,
        execute: Execute,
        monkeypatch: pytest.MonkeyPatch,
        stage: Stage,
    ) -> None:
        monkeypatch.setattr(adoption, "ROWS_AT_ONCE", 2)
        batch = await written(ledger, execute, stage)
        (taken,) = await ledger.take_former(1, pipelines=["plain"], limit=9, now=10.0)
        assert taken.no == batch.no
        batch = await adopted(ledger, batch)
        assert (batch.position.stage, batch.position.phase, batch.status) == (Stage.FLOWING, 2, "TWO")
        await check_counters(select, batch)
        batch = await walked_on(ledger, batch)
        assert batch.position.stage is Stage.ENDING
        await check_counters(select, batch)
        states = await states_of(select, batch)
        bad = {no for no, state in STATES[stage].items() if state == "failed"}
        assert {no for (phase, no, _), state in states.items() if phase == 3 and state == "done"} == {
            *range(1, FILES + 1),
            *({FILES + 1} if stage is Stage.TRANSFORMING else ()),
        }
        expected = {path: "failed" if no in bad else "done" for no, path in enumerate(PATHS, start=1)}
        found = await outcomes(ledger, await finished(ledger, batch, TO_FLOWING))
        assert {path: outcome for path, (outcome, _) in found.items()} == expected
        # Every file had one try in each phase, and further ones where an attempt was lost or failed.
        again = {no for no, state in STATES[stage].items() if state in {"waiting", "running"}}
        more = 1 if stage is Stage.TRANSFORMING else 0  # what was made of it has walked on, too
        tries = {path: tried for path, (_, tried) in found.items()}
        assert tries == {
            path: (2 if no == 1 and more else 3) + (no in again) + (more if no == 1 else 0)
            for no, path in enumerate(PATHS, start=1)
        }

    async def test_the_intake_goes_on_where_it_was(
        self, ledger: LedgerAdapter, select: Select, execute: Execute
    ) -> None:
        batch = await finalized(ledger, PATHS, plan=FORMER)
        for number in (1, 2, 3):
            await execute(file_row(batch.no, number, PATHS[number - 1]).replace("'done', 1)", "NULL, 0)"))
        await execute(
            f"UPDATE batches SET stage = 'filling', cursor = 3, last_file = 3 WHERE no = {batch.no}"
        )
        batch = await adopted(ledger, await ledger.get_batch(batch.id))
        assert batch.flow is not None
        assert (batch.flow.sources, batch.position.cursor, batch.last_file) == (1, 3, FILES)
        rest = [Admission(no, file(PATHS[no - 1]), None) for no in (4, 5, 6)]
        batch = await ledger.admit_files(
            batch, rest, cursor=6, admitted=0, admissible=6, complete=False, now=11.0
        )
        tasks = [
            Admission(no, None, follow(TO_FLOWING, file(path), no, 0))
            for no, path in enumerate(PATHS, start=1)
        ]
        batch = await ledger.admit_files(
            batch, tasks, cursor=6, admitted=6, admissible=6, complete=True, now=12.0
        )
        batch = await walked_on(ledger, batch)
        assert batch.position.stage is Stage.ENDING
        assert set((await outcomes(ledger, batch)).values()) == {("done", 3)}
        await check_counters(select, batch)

    async def test_it_is_left_alone_while_members_of_an_earlier_version_are_at_work(
        self, ledger: LedgerAdapter, execute: Execute
    ) -> None:
        batch = await written(ledger, execute, Stage.WORKING)
        member = await ledger.add_member("old", "run", "here", now=1.0)
        await execute(f"UPDATE crew SET format = NULL WHERE no = {member.no}")
        moves = Adoption(ledger, FakeClock())
        assert await moves.begin(batch, TO_FLOWING) is None
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.WORKING
        assert await ledger.list_older_members() == ["old"]
        await execute(f"DELETE FROM crew WHERE no = {member.no}")
        assert await ledger.list_older_members() == []
        assert await moves.begin(batch, TO_FLOWING) is not None
        with pytest.raises(Stale):
            await moves.begin(batch, TO_FLOWING)

    async def test_a_dead_member_of_an_earlier_version_is_removed_and_its_attempts_are_tried_again(
        self, ledger: LedgerAdapter, select: Select, execute: Execute
    ) -> None:
        me = await ledger.add_member("me", "run", "here", now=1.0)
        member = await ledger.add_member("old", "run", "here", now=1.0)
        await execute(f"UPDATE crew SET format = NULL WHERE no = {member.no}")
        batch = await written(ledger, execute, Stage.WORKING, member=member.no)
        moves = Adoption(ledger, FakeClock())
        assert await moves.begin(batch, TO_FLOWING) is None
        assert await ledger.list_running(member.no) == []  # they are the concern of who adopts the batch
        await ledger.remove_member(member.no)
        assert await ledger.list_members() == [me]
        begun = await moves.begin(batch, TO_FLOWING)
        assert begun is not None
        # It was only slow. By its numbers nothing is settled any more, also before documents are adopted.
        number = FILES + 5
        late = Settlement(report=report(number, 1, batch_no=batch.no), state=TaskState.DONE)
        assert (await ledger.settle_flow(batch.no, [late], now=20.0)).strays == 1
        assert (await ledger.get_task(batch.no, number)).state is TaskState.WAITING
        while begun.flow is not None and begun.flow.adopts_to is not None:
            begun = await moves.move(begun, TO_FLOWING)
        await check_counters(select, begun)
        assert (await walked_on(ledger, begun)).position.stage is Stage.ENDING
        _, attempts = await ledger.get_file_history(batch.no, PATHS[5])
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "done"),
            ("TWO", 1, "interrupted"),
            ("TWO", 2, "done"),
            ("THREE", 1, "done"),
        ]

    async def test_other_phases_are_refused(self, ledger: LedgerAdapter, execute: Execute) -> None:
        batch = await written(ledger, execute, Stage.WORKING)
        fewer = structs.replace(TO_FLOWING, phases=TO_FLOWING.phases[:2])
        with pytest.raises(Misconfigured, match="ONE, TWO, THREE"):
            await Adoption(ledger, FakeClock()).begin(batch, fewer)

    async def test_former_numbers_and_attempts_find_their_tasks(
        self, ledger: LedgerAdapter, execute: Execute
    ) -> None:
        batch = await written(ledger, execute, Stage.WORKING)
        await execute(
            "INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds) VALUES "
            f"({batch.no}, 10, 0, 'erred', 'w', 1, 1)"
        )
        batch = await adopted(ledger, batch)
        assert await ledger.find_adopted(batch.no, 10) == first_number(2) + 10
        assert await ledger.find_adopted(batch.no, 7) is None  # it was settled and keeps its number
        assert (await ledger.get_task(batch.no, 7)).state.value == "done"
        _, attempts = await ledger.get_file_history(batch.no, "d/f4.tif")
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "done"),
            ("TWO", 0, "erred"),
            ("TWO", 1, "erred"),
        ]
        later = await walked_on(ledger, batch)
        assert later.position.stage is Stage.ENDING

    async def test_a_callback_is_asked_to_come_again_until_its_batch_is_adopted(
        self, ledger: LedgerAdapter, execute: Execute, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adoption, "ROWS_AT_ONCE", 2)
        batch = await written(ledger, execute, Stage.WORKING)
        context = remote_context(ledger)
        with pytest.raises(Retry) as told:
            await find_task(context, batch, FILES + 5)
        assert told.value.code == "too_early"
        moves = Adoption(ledger, FakeClock())
        begun = await moves.begin(batch, TO_FLOWING)
        assert begun is not None
        begun = await moves.move(begun, TO_FLOWING)  # not as far as the document of this task
        with pytest.raises(Retry) as told:
            await find_task(context, begun, FILES + 5)
        assert told.value.code == "too_early"
        while begun.flow is not None and begun.flow.adopts_to is not None:
            begun = await moves.move(begun, TO_FLOWING)
        found = await find_task(context, begun, FILES + 5)
        assert found.claim.order.file.path == PATHS[5]

    @pytest.mark.parametrize(("task_no", "state"), [(FILES + 1, "done"), (FILES + 2, "failed")])
    async def test_a_callback_to_what_was_settled_before_the_adoption_changes_nothing(
        self, ledger: LedgerAdapter, select: Select, execute: Execute, task_no: int, state: str
    ) -> None:
        batch = await adopted(ledger, await written(ledger, execute, Stage.WORKING))
        context = remote_context(ledger)
        found = await find_task(context, batch, task_no)
        late = report(task_no, batch_no=batch.no)
        answer = await settle(context, found, late, RetryPolicy())
        assert (answer.ok, answer.duplicate) == (True, True)
        assert (await ledger.get_task(batch.no, task_no)).state.value == state
        assert [one.task_no for one in await ledger.list_stray_reports(batch.no, limit=9)] == [task_no]
        await check_counters(select, batch)

    async def test_one_that_was_cancelled_goes_on_when_it_is_reopened(
        self, ledger: LedgerAdapter, select: Select, execute: Execute
    ) -> None:
        batch = await written(ledger, execute, Stage.WORKING)
        await ledger.cancel(batch.no, act())
        preview = await ledger.preview_retry(batch.no, TaskSelection())
        assert (preview.failed, preview.unsettled) == ([], 3)
        batch = await ledger.reopen(batch.no, act(), status="TWO")
        assert (batch.position.stage, batch.status) == (Stage.WORKING, "TWO")
        batch = await walked_on(ledger, await adopted(ledger, batch))
        assert batch.position.stage is Stage.ENDING
        found = {path: outcome for path, (outcome, _) in (await outcomes(ledger, batch)).items()}
        assert found == {path: "failed" if path == PATHS[1] else "done" for path in PATHS}
        await check_counters(select, batch)

    async def test_one_that_has_ended_is_retried(
        self, ledger: LedgerAdapter, select: Select, execute: Execute
    ) -> None:
        batch = await written(ledger, execute, Stage.TRANSFORMING)
        await execute(f"UPDATE batches SET stage = 'done', phase = 3, cursor = 0 WHERE no = {batch.no}")
        await execute("UPDATE files SET outcome = 'failed', error_class = 'torn' WHERE file_no = 2")
        batch = await ledger.get_batch(batch.id)
        names = [phase.name for phase in TO_FLOWING.phases]
        batch = await ledger.adopt_ended(
            batch, plan=encode_plan(TO_FLOWING), digest=digest_of(TO_FLOWING), phases=names
        )
        assert batch.position.stage is Stage.DONE
        batch = await ledger.retry_flow(batch, TaskSelection(), act(50.0), waiting=[], names=names)
        await check_counters(select, batch)
        (claim,) = await claimed(ledger, batch, 2, now=60.0)
        assert (claim.order.file.path, claim.order.attempt) == ("d/f2.tif", 2)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=70.0)], now=61.0)
        batch = await walked_on(ledger, batch)
        assert batch.position.stage is Stage.ENDING
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)

    async def test_two_who_adopt_meet_on_each_chunk(self, ledger: LedgerAdapter, execute: Execute) -> None:
        batch = await written(ledger, execute, Stage.GATHERING)
        begun = await Adoption(ledger, FakeClock()).begin(batch, TO_FLOWING)
        assert begun is not None
        assert await ledger.list_former(begun, limit=2)
        one = adoption.AdoptedDocument(1, Effects(phase=2, root_no=1, parent_no=1))
        await ledger.adopt_documents(begun, [one], cursor=2, complete=False, now=11.0)
        with pytest.raises(Stale):
            await ledger.adopt_documents(begun, [one], cursor=2, complete=False, now=11.0)
