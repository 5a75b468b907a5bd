"""What every ledger keeps for people to read: lists, ends, stories, events."""

from typing import Any

import pytest
from msgspec import structs

from quire.engine import moves
from quire.ledger.flow_values import Admission, first_number
from quire.ledger.port import BatchFilter, Upload
from quire.model.batch import Batch, BatchState, Budget, FileOutcome, Stage
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.testing.factories import draft, file, outbox_message
from tests.suites.flow_situations import (
    PLAN,
    admit_all,
    admitted,
    begun,
    claimed,
    done,
    failed,
    finished,
    first,
    follows,
    walked,
    worked,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act, finalized

ONE = ("ONE",)
# Of each file ONE makes another one, which walks on; TWO makes an asset of all of them.
TWO: dict[str, Any] = {"phases": ("ONE", "TWO"), "makes": {"ONE": (".one", True), "TWO": (".two", False)}}


async def half_way(ledger: LedgerAdapter) -> Batch:
    """One input came in broken, one was skipped, one has failed in the first phase, one is done in it."""
    batch = await ledger.open_batch(draft())
    uploads = [
        Upload(path="d/f1.tif", state="taken", size=10),
        Upload(path="d/f2.tif", state="taken", size=10),
        Upload(path="broken", state="failed", error_class="unreadable", reason="torn"),
        Upload(path="left", state="skipped", error_class="hidden", reason="hidden"),
    ]
    await ledger.record_uploads(batch.no, uploads)
    batch = await ledger.close_batch(
        batch.no, manifest_key="m", total_files=2, message=outbox_message(), now=2.0
    )
    batch = await ledger.apply_move(moves.begin(batch, now=3.0))
    batch = await ledger.begin_flow(batch, phases=TWO["phases"], waits_at=None, now=4.0)
    batch = await admit_all(ledger, batch, ["d/f1.tif", "d/f2.tif"])
    return await worked(ledger, batch, {("ONE", "d/f1.tif"): "busy"}, only=ONE, **TWO)


async def untouched(ledger: LedgerAdapter, paths: list[str]) -> Batch:
    """The first input is done; no step takes the others."""
    batch = await begun(ledger, paths=paths, phases=ONE)
    batch = await ledger.admit_files(
        batch,
        [Admission(no, file(path), None if no > 1 else first(no)) for no, path in enumerate(paths, start=1)],
        cursor=len(paths),
        admitted=len(paths),
        admissible=len(paths),
        complete=True,
        now=5.0,
    )
    return await worked(ledger, batch, phases=ONE)


class RecordsSuite:
    async def test_batches_are_listed_newest_first_in_pages(self, ledger: LedgerAdapter) -> None:
        for name in ("01A", "01C", "01D", "01E"):
            await ledger.open_batch(draft(name))
        first = await ledger.list_batches(BatchFilter(limit=3))
        assert [one.id for one in first] == ["01E", "01D", "01C"]
        assert [one.id for one in await ledger.list_batches(BatchFilter(before=first[-1].no))] == ["01A"]

    async def test_files_with_the_same_bytes_are_found_once_for_each_key(self, ledger: LedgerAdapter) -> None:
        for batch_id, key in (("01A", "staging/01A/x"), ("01C", "cas/x"), ("01D", "cas/x")):
            batch = await begun(ledger, paths=["d/f1.tif"], phases=ONE, batch_id=batch_id)
            same = file("d/f1.tif", key=key, digest="5" * 64)
            await ledger.admit_files(
                batch, [Admission(1, same, None)], cursor=1, admitted=1, admissible=1, complete=True, now=5.0
            )
        found = await ledger.find_uses(["5" * 64, "6" * 64], limit=10)
        assert [(one.key, one.batch_id, one.path, one.is_input, one.size) for one in found] == [
            ("cas/x", "01D", "d/f1.tif", True, 10),
            ("staging/01A/x", "01A", "d/f1.tif", True, 10),
        ]
        assert len(await ledger.find_uses(["5" * 64], limit=1)) == 1
        assert await ledger.find_uses([], limit=10) == []

    async def test_batches_are_listed_by_what_is_wanted(self, ledger: LedgerAdapter) -> None:
        ended = await walked(ledger, await admitted(ledger, batch_id="01A", tenant="t1"))
        await admitted(ledger, batch_id="01C", tenant="t2")
        gone = await admitted(ledger, batch_id="01D", tenant="t1")
        await ledger.cancel(gone.no, act())

        async def listed(**wanted: object) -> list[str]:
            return [one.id for one in await ledger.list_batches(BatchFilter(**wanted))]  # type: ignore[arg-type]

        assert await listed(ended=True) == ["01D", "01A"]
        assert await listed(ended=False) == ["01C"]
        assert await listed(state=BatchState.DONE) == [ended.id]
        assert await listed(tenant="t1") == ["01D", "01A"]
        assert await listed(tenant="t1", ended=True, state=BatchState.CANCELLED) == ["01D"]
        assert await listed(tenant="t3") == []

    async def test_batches_are_listed_by_their_state(self, ledger: LedgerAdapter) -> None:
        await ledger.open_batch(draft("01A"))
        await finalized(ledger, batch_id="01C")
        at_work = await admitted(ledger, batch_id="01D")
        paused = await admitted(ledger, batch_id="01E")
        await ledger.pause(paused.no, act())
        held = await admitted(ledger, batch_id="01F", budget=Budget(tokens=1))
        (claim,) = await claimed(ledger, held, limit=1)
        await ledger.settle_flow(held.no, [done(claim, cost=Cost(tokens_in=1))], now=5.0)
        await walked(ledger, await admitted(ledger, batch_id="01G"))
        gone = await admitted(ledger, batch_id="01H")
        await ledger.pause(gone.no, act())
        await ledger.cancel(gone.no, act())
        failed = await admitted(ledger, batch_id="01J")
        await ledger.reset(failed.no, act())
        listed = {
            state: [(one.id, one.state) for one in await ledger.list_batches(BatchFilter(state=state))]
            for state in BatchState
        }
        names = ("01A", "01C", "01D", "01E", "01F", "01G", "01J", "01H")
        assert listed == {state: [(name, state)] for state, name in zip(BatchState, names, strict=True)}
        in_phase = await ledger.list_batches(BatchFilter(phase=at_work.status))
        assert [one.id for one in in_phase] == ["01F", "01E", "01D"]
        assert await ledger.list_batches(BatchFilter(phase="DONE")) == []
        assert await ledger.list_batches(BatchFilter(phase="OPEN")) == []

    async def test_the_message_is_kept_untouched(self, ledger: LedgerAdapter) -> None:
        batch = await finalized(ledger)
        assert await ledger.get_start_message(batch.no) == outbox_message().body.decode()
        assert await ledger.get_start_message(batch.no + 1) is None
        assert await ledger.get_start_message((await ledger.open_batch(draft("01C"))).no) is None

    async def test_a_file_is_pending_until_its_batch_is_done(self, ledger: LedgerAdapter) -> None:
        batch = await half_way(ledger)
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.path, one.outcome, one.error_class) for one in ends] == [
            ("broken", FileOutcome.FAILED, "unreadable"),
            ("d/f1.tif", FileOutcome.FAILED, "busy"),
            ("d/f2.tif", FileOutcome.PENDING, ""),
            ("left", FileOutcome.SKIPPED, "hidden"),
        ]
        batch = await walked(ledger, batch, **TWO)
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [one.outcome for one in ends[1:3]] == [FileOutcome.FAILED, FileOutcome.DONE]

    async def test_a_file_of_a_cancelled_batch_is_cancelled_unless_it_failed(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await half_way(ledger)
        await ledger.cancel(batch.no, act())
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.outcome, one.error_class) for one in ends[1:]] == [
            (FileOutcome.FAILED, "busy"),
            (FileOutcome.CANCELLED, "batch_cancelled"),
            (FileOutcome.SKIPPED, "hidden"),
        ]
        assert "because" in ends[2].reason
        assert [
            one.path for one in await ledger.list_inputs(batch.no, limit=9, outcome=FileOutcome.CANCELLED)
        ] == ["d/f2.tif"]

    async def test_a_file_of_a_batch_in_error_has_failed(self, ledger: LedgerAdapter) -> None:
        batch = await half_way(ledger)
        await ledger.apply_move(moves.fail(batch, "no way", now=20.0))
        failed = await ledger.list_inputs(batch.no, limit=9, outcome=FileOutcome.FAILED)
        assert [(one.path, one.error_class) for one in failed] == [
            ("broken", "unreadable"),
            ("d/f1.tif", "busy"),
            ("d/f2.tif", "batch_error"),
        ]
        assert "no way" in failed[2].reason
        (found,) = await ledger.list_inputs(batch.no, limit=9, error_class="batch_error")
        assert found.path == "d/f2.tif"

    async def test_inputs_are_filtered_and_come_in_pages(self, ledger: LedgerAdapter) -> None:
        paths = [f"d/f{number}.tif" for number in range(8)]
        failing = {("ONE", path): "odd" if number % 4 else "even" for number, path in enumerate(paths[::2])}
        batch = await walked(ledger, await admitted(ledger, paths=paths, phases=ONE), failing, phases=ONE)

        async def pages(**wanted: object) -> list[str]:
            found: list[str] = []
            while page := await ledger.list_inputs(
                batch.no,
                after=found[-1] if found else "",
                limit=2,
                **wanted,  # type: ignore[arg-type]
            ):
                assert len(page) <= 2
                found += [one.path for one in page]
            return found

        assert await pages() == paths
        assert await pages(outcome=FileOutcome.FAILED) == paths[::2]
        assert await pages(outcome=FileOutcome.DONE) == paths[1::2]
        assert await pages(outcome=FileOutcome.FAILED, error_class="even") == paths[:1]
        assert await pages(error_class="odd") == paths[2::2]
        assert await pages(outcome=FileOutcome.DONE, error_class="odd") == []
        with pytest.raises(Missing):
            await ledger.list_inputs(batch.no + 1, limit=9)

    async def test_a_type_that_no_phase_handles_is_skipped(self, ledger: LedgerAdapter) -> None:
        batch = await finished(ledger, await untouched(ledger, ["d/f1.tif", "d/f2.txt"]))
        end = (await ledger.list_inputs(batch.no, limit=9))[1]
        assert (end.outcome, end.error_class) == (FileOutcome.SKIPPED, "not_handled")
        assert "image/tiff" in end.reason

    async def test_a_type_that_is_left_alone_is_told_why(self, ledger: LedgerAdapter) -> None:
        plan = structs.replace(PLAN, left_alone={"image/tiff": "TIFFs are for tomorrow", "x/y": "no"})
        batch = await finished(ledger, await untouched(ledger, ["d/f1.tif", "d/f2.txt"]), plan)
        end = (await ledger.list_inputs(batch.no, limit=9))[1]
        assert (end.outcome, end.error_class) == (FileOutcome.SKIPPED, "not_handled")
        assert end.reason == "TIFFs are for tomorrow"

    async def test_failed_tasks_are_listed_and_counted(self, ledger: LedgerAdapter) -> None:
        paths = [f"d/f{number}.tif" for number in range(4)]
        failing = {("ONE", paths[0]): "busy", ("ONE", paths[2]): "odd", ("ONE", paths[3]): "busy"}
        batch = await walked(ledger, await admitted(ledger, paths=paths, phases=ONE), failing, phases=ONE)
        failed = await ledger.list_failed_tasks(batch.no, limit=2)
        failed += await ledger.list_failed_tasks(batch.no, after=failed[-1].task_no, limit=2)
        assert [
            (one.task_no - first_number(1), one.phase, one.path, one.error_class, one.error) for one in failed
        ] == [
            (1, "ONE", paths[0], "busy", "busy!"),
            (3, "ONE", paths[2], "odd", "odd!"),
            (4, "ONE", paths[3], "busy", "busy!"),
        ]
        assert failed[0].key == f"cas/{paths[0]}"
        assert list((await ledger.count_failures(batch.no)).items()) == [("busy", 2), ("odd", 1)]

    async def test_failed_tasks_are_shown_by_phase_and_path_whatever_failed_first(
        self, ledger: LedgerAdapter
    ) -> None:
        paths = ["d/b.tif", "d/a.tif", "d/C.tif"]
        batch = await admitted(ledger, paths=paths, phases=TWO["phases"])
        one, two, three = await claimed(ledger, batch)
        told = [done(one, follows(one)), done(two, follows(two)), failed(three)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        later = await claimed(ledger, batch, 2, now=12.0)
        await ledger.settle_flow(batch.no, [failed(claim) for claim in later], now=13.0)
        shown = await ledger.list_first_failed(batch.no, limit=9)
        assert [(task.phase, task.path) for task in shown] == [
            ("ONE", "d/C.tif"),
            ("TWO", "d/a.tif"),
            ("TWO", "d/b.tif"),
        ]
        assert await ledger.list_first_failed(batch.no, limit=2) == shown[:2]

    async def test_the_story_of_a_file_has_every_attempt(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2, phases=TWO["phases"])
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(one, due_at=10.0), done(two)], now=11.0)
        (again,) = await claimed(ledger, batch, now=12.0)
        files, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.attempt, one.outcome, one.error_class, one.worker) for one in attempts] == [
            (1, "erred", "busy", "w"),
            (2, "", "", ""),
        ]
        assert (attempts[0].seconds, attempts[1].started_at) == (0.1, 12.0)
        await ledger.release_flow_claims(batch.no, [(again.order.task_no, 2)])
        batch = await walked(ledger, batch, now=13.0, **TWO)
        files, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.path, one.role, one.born, one.gone, one.listed) for one in files] == [
            ("d/f1.tif", "input", 0, None, True),
            ("d/f1.tif.one", "one", 1, None, True),
            ("d/f1.tif.one.two", "two", 2, None, False),
            ("d/f1.tif.two", "two", 2, None, False),
        ]
        assert [(one.phase, one.path, one.attempt) for one in attempts] == [
            ("ONE", "d/f1.tif", 1),
            ("ONE", "d/f1.tif", 3),
            ("TWO", "d/f1.tif", 1),
            ("TWO", "d/f1.tif.one", 1),
        ]
        assert await ledger.get_file_history(batch.no, "d/none") == ([], [])

    async def test_names_are_found_however_their_characters_are_composed(self, ledger: LedgerAdapter) -> None:
        paths = ["d/Cafe\u0301.tif", "d/Caf\u00e9.tif", "d/cafe.tif"]
        batch = await walked(ledger, await admitted(ledger, paths=paths, phases=ONE), phases=ONE)
        found = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.path, one.outcome) for one in found] == [
            (path, FileOutcome.DONE) for path in sorted(paths)
        ]
        for path in paths:
            files, attempts = await ledger.get_file_history(batch.no, path)
            assert [(one.path, len(attempts)) for one in files] == [(path, 1)]

    async def test_events_tell_the_story_from_any_point_on(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        await admitted(ledger, batch_id="01C")
        events = await ledger.list_events(batch.no, limit=100)
        kinds = [kind for _, _, kind, _ in events]
        assert kinds == ["batch_opened", "batch_finalized", "batch_started", "phase_started"]
        assert events[3][1:] == (4.0, "phase_started", {"phase": "ONE", "round": 1})
        assert await ledger.list_events(batch.no, after=events[1][0], limit=1) == events[2:3]

    async def test_counts_are_there_for_every_phase(self, ledger: LedgerAdapter) -> None:
        batch = await half_way(ledger)
        assert batch.position.stage is Stage.FLOWING
        one, two = await ledger.count_tasks(batch.no)
        assert (one.phase, one.name, one.total, one.done, one.failed, one.settled) == (1, "ONE", 2, 1, 1, 2)
        assert (two.phase, two.name, two.total, two.settled) == (2, "TWO", 3, 0)
