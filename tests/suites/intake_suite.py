"""What every ledger promises of batches whose files come in while they flow."""

import asyncio

import pytest

from quire.ledger.flow_values import Effects, Follower, NewDocument
from quire.ledger.intake import FolderNames, TakenFile
from quire.ledger.port import Settlement, Upload
from quire.model.batch import Stage, TaskState
from quire.model.errors import Stale
from quire.model.files import File
from quire.model.work import Outcome, Report, StepResult
from quire.testing.factories import draft

NAMES = ["a.txt", "b.txt", "c.bin"]


def upload(path, state="taken", **changes):
    return Upload(path=path, state=state, size=1, stamp="1-2-3", key=f"cas/{path}", digest=path, **changes)


def taken(no, path, *, phase=1):
    file = File(key=f"cas/{path}", path=path, name=path, size=1, content_type="text/plain", digest=path)
    first = Follower(phase, (0,), no, 0) if phase else None
    return TakenFile(no, upload(path), file, first)


async def begun(ledger, waits_at=None):
    batch = await ledger.open_batch(draft("0" * 26, run_key="key"))
    return await ledger.begin_intake(batch, phases=["ONE", "TWO"], waits_at=waits_at, now=2.0)


async def close(ledger, batch, total=2):
    return await ledger.close_intake(
        batch.no, manifest_key="m", total_files=total, message=b"{}", refused=0, passed_over=0, now=5.0
    )


def finish(claim):
    """Done, with one result that hangs on its document."""
    order, place = claim.order, claim.place
    made = NewDocument(
        File(key="k", path=f"{order.file.path}.out", name="out", size=1, content_type="text/plain"),
        "out",
        False,
        f"{order.file.path}\nstep/0",
    )
    effects = Effects(
        phase=1, root_no=place.root_no, parent_no=place.file_no, new_files=(made,), walking=0, tries=1
    )
    report = Report(
        order.batch_no, order.task_no, order.attempt, Outcome.DONE, 1.0, 0.0, "worker", StepResult()
    )
    return Settlement(report=report, state=TaskState.DONE, effects=effects)


class IntakeSuite:
    """Needs the fixture `ledger`."""

    async def test_a_batch_flows_before_its_files_are_there(self, ledger):
        batch = await begun(ledger)
        assert (batch.position.stage, batch.position.phase, batch.status) == (Stage.FLOWING, 1, "ONE")
        assert batch.flow.sources == 1
        assert batch.manifest_key is None
        with pytest.raises(Stale):
            await ledger.begin_intake(batch, phases=["ONE"], waits_at=None, now=2.0)

    async def test_nobody_else_has_a_move_to_make_while_files_come_in(self, ledger):
        batch = await begun(ledger)
        listed = await ledger.list_folder(batch.no, FolderNames(awaited=NAMES), now=3.0)
        await ledger.take_files(batch.no, [taken(listed[0].no, "a.txt")], now=4.0)
        assert await ledger.take_batches(1, limit=9, now=5.0) == []
        assert (await close(ledger, batch, 1)).manifest_key == "m"

    async def test_names_are_listed_before_bytes_are_there(self, ledger):
        batch = await begun(ledger)
        folder = FolderNames(
            awaited=NAMES, names=["z.txt", "sub/"], refusals=[upload("e.txt", "failed", error_class="empty")]
        )
        listed = await ledger.list_folder(batch.no, folder, now=3.0)
        assert [(one.path, one.role) for one in listed] == [
            *((name, "awaited") for name in NAMES),
            ("z.txt", "name"),
        ]
        found = await ledger.find_listed(batch.no, {"a.txt", "sub/", "z.txt", "y.txt"})
        assert set(found) == {"a.txt", "sub/", "z.txt"}
        assert [one.path for one in await ledger.list_uploads(batch.no, limit=9)] == ["e.txt"]
        assert [one.path for one in await ledger.list_names(batch.no, after=0, limit=9)] == [
            *NAMES,
            "z.txt",
            "sub/",
        ]
        assert await ledger.list_seen(batch.no, 2, after=0, limit=9) == []

    async def test_listing_again_gives_the_same_numbers(self, ledger):
        batch = await begun(ledger)
        folder = FolderNames(awaited=NAMES, names=["sub/"])
        listed = await ledger.list_folder(batch.no, folder, now=3.0)
        assert await ledger.list_folder(batch.no, folder, now=3.0) == listed
        with pytest.raises(Stale):
            await ledger.list_folder(batch.no, FolderNames(awaited=[*NAMES, "d.txt"]), now=3.0)

    async def test_taken_files_have_their_first_tasks_at_once(self, ledger):
        batch = await begun(ledger)
        one, two, three = await ledger.list_folder(batch.no, FolderNames(awaited=NAMES), now=3.0)
        files = [taken(one.no, "a.txt"), taken(two.no, "b.txt"), taken(three.no, "c.bin", phase=0)]
        await ledger.take_files(batch.no, files, now=4.0)
        await ledger.take_files(batch.no, files, now=4.0)  # the answer was lost
        batch = await ledger.get_batch(batch.id)
        assert (batch.total_files, batch.flow.open_tasks) == (3, 2)
        claims = await ledger.claim_phase(batch.no, 1, member=0, limit=9, now=5.0)
        assert [claim.order.file.path for claim in claims] == ["a.txt", "b.txt"]
        assert [claim.order.file.key for claim in claims] == ["cas/a.txt", "cas/b.txt"]
        assert [one.file.path for one in await ledger.list_seen(batch.no, 2, after=0, limit=9)] == NAMES

    async def test_a_refused_file_keeps_its_name_and_may_be_taken_later(self, ledger):
        batch = await begun(ledger)
        one, *_ = await ledger.list_folder(batch.no, FolderNames(awaited=["a.txt", "b.txt"]), now=3.0)
        refused = TakenFile(one.no, upload("a.txt", "failed", error_class="changed"), None)
        await ledger.take_files(batch.no, [refused], now=4.0)
        assert "a.txt" in await ledger.find_listed(batch.no, {"a.txt"})
        listed = await ledger.list_names(batch.no, after=0, limit=9)
        assert [one.role for one in listed] == ["name", "awaited"]
        await ledger.take_files(batch.no, [taken(one.no, "a.txt")], now=4.0)
        listed = await ledger.list_names(batch.no, after=0, limit=9)
        assert [one.role for one in listed] == ["input", "awaited"]
        assert [one.state for one in await ledger.list_uploads(batch.no, limit=9)] == ["taken"]

    async def test_a_batch_does_not_end_before_its_intake_is_closed(self, ledger):
        batch = await begun(ledger)
        (one,) = await ledger.list_folder(batch.no, FolderNames(awaited=["c.bin"]), now=3.0)
        await ledger.take_files(batch.no, [taken(one.no, "c.bin", phase=0)], now=4.0)
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.FLOWING
        closed = await close(ledger, batch, 1)
        assert (closed.position.stage, closed.manifest_key, closed.total_files) == (Stage.ENDING, "m", 1)
        with pytest.raises(Stale):
            await close(ledger, batch)
        for late in (
            ledger.take_files(batch.no, [taken(one.no, "c.bin")], now=6.0),
            ledger.list_folder(batch.no, FolderNames(awaited=["late.txt"]), now=6.0),
        ):
            with pytest.raises(Stale):
                await late
        assert [one.id for one in await ledger.list_runs("key")] == [batch.id]
        assert await ledger.list_runs("other") == []

    async def test_phases_about_folders_wait_for_the_intake(self, ledger):
        batch = await begun(ledger, waits_at=2)
        await ledger.list_folder(batch.no, FolderNames(awaited=NAMES), now=3.0)
        assert await ledger.begin_gather(batch, 2) is None
        closed = await close(ledger, batch, 0)
        assert closed.position.stage is Stage.FLOWING
        assert await ledger.begin_gather(closed, 2) is not None

    async def test_an_ended_batch_takes_no_more_files(self, ledger):
        batch = await begun(ledger)
        await ledger.abandon_batch(batch.no, reason="changed", now=3.0)
        with pytest.raises(Stale):
            await ledger.list_folder(batch.no, FolderNames(awaited=NAMES), now=4.0)
        with pytest.raises(Stale):
            await close(ledger, batch)

    async def test_inputs_are_looked_at_until_they_have_finished(self, ledger):
        batch = await begun(ledger)
        one, _, three = await ledger.list_folder(batch.no, FolderNames(awaited=NAMES), now=3.0)
        files = [taken(one.no, "a.txt"), taken(three.no, "c.bin", phase=0)]
        await ledger.take_files(batch.no, files, now=4.0)
        found, to = await ledger.list_finished(batch.no, after=0, numbers=[], limit=2)
        assert ([(one.path, one.finished) for one in found], to) == ([("a.txt", False), ("b.txt", False)], 2)
        found, to = await ledger.list_finished(batch.no, after=2, numbers=[one.no], limit=10)
        assert (sorted((one.path, one.finished) for one in found), to) == (
            [("a.txt", False), ("c.bin", True)],
            3,
        )
        assert await ledger.list_finished(batch.no, after=3, numbers=[], limit=10) == ([], 3)

    async def test_files_come_in_while_others_are_settled(self, ledger):
        batch = await begun(ledger)

        async def bring(folder):
            names = [f"{folder}/{name}" for name in NAMES]
            listed = await ledger.list_folder(batch.no, FolderNames(awaited=names), now=3.0)
            await ledger.take_files(batch.no, [taken(one.no, one.path) for one in listed], now=4.0)

        async def work():
            settled = 0
            while settled < 3 * 20:
                claims = await ledger.claim_phase(batch.no, 1, member=0, limit=4, now=5.0)
                reports = [finish(claim) for claim in claims]
                if reports:
                    settled += (await ledger.settle_flow(batch.no, reports, now=6.0)).applied

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work())
            for folder in range(20):
                tasks.create_task(bring(folder))
        closed = await close(ledger, batch, 60)
        assert (closed.position.stage, closed.flow.open_tasks) == (Stage.ENDING, 0)
        listed = await ledger.list_names(batch.no, after=0, limit=1000)
        assert len({one.path for one in listed}) == len(listed) == 60
        found, _ = await ledger.list_finished(batch.no, after=0, numbers=[], limit=1000)
        assert [len(one.made) for one in found if one.finished] == [1] * 60
