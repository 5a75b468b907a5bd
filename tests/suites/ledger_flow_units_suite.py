"""What every ledger keeps of phases about folders: units wait for their documents, their tasks for those of
the folders right below.
"""

import pytest

from quire.ledger.flow_values import UnitFolder, UnitTask, first_number
from quire.ledger.port import Claim
from quire.model.batch import Batch, Stage
from quire.model.errors import Stale
from quire.model.work import StepResult, Value
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
    follows,
    made,
    outcomes,
    states_of,
)
from tests.suites.ledger_adapter import LedgerAdapter

PATHS = ["a/b/1.tif", "a/b/2.tif", "a/c/3.tif", "4.tif"]
FOLDERS = ["", "a", "a/b", "a/c"]


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


async def worked(ledger: LedgerAdapter, paths: list[str] = PATHS, *, value: bool = False) -> Batch:
    """Its documents have done what comes before the folders."""
    batch = await admitted(ledger, paths=paths, phases=["ONE", "DIRS"], waits_at=2)
    result = StepResult(value=Value(data=b"1")) if value else None
    claims = await claimed(ledger, batch)
    await ledger.settle_flow(batch.no, [done(claim, result=result) for claim in claims], now=11.0)
    return await ledger.get_batch(batch.id)


async def gathered(ledger: LedgerAdapter, batch: Batch, folders: list[str] = FOLDERS) -> Batch:
    """Its folders are units."""
    begun = await ledger.begin_gather(batch, 2)
    assert begun is not None
    files = await ledger.list_seen(batch.no, 2, after=0, limit=99)
    members = [(folder_of(one.file.path), one.no) for one in files]
    return await ledger.add_units(begun, 2, members, folders, cursor=files[-1].no, complete=True, now=12.0)


async def given_tasks(ledger: LedgerAdapter, batch: Batch) -> Batch:
    """Its units have their tasks."""
    units = await ledger.list_flow_units(batch.no, 2, after=0, limit=99)
    numbers = {unit.path: unit.no for unit, _ in units}
    tasks = [
        UnitTask(
            *(unit.no, await ledger.find_nearest_root(batch.no, 2, unit.path) or 1),
            *(f"members/{unit.no}", 7, "f" * 64, below),
            numbers[folder_of(unit.path)] if unit.path else None,
        )
        for unit, below in units
    ]
    batch = await ledger.add_unit_tasks(batch, 2, tasks, cursor=units[-1][0].no, now=13.0)
    return await ledger.end_gather(batch, waits_at=None, now=14.0)


def path_of(claim: Claim) -> str:
    return claim.order.file.path


async def all_units(
    ledger: LedgerAdapter, batch: Batch, failing: dict[str, str] | None = None, *, now: float = 20.0
) -> list[str]:
    """Every folder's task is tried once; the paths in the order of claims."""
    seen = []
    while claims := await claimed(ledger, batch, 2, now=now):
        told = []
        for claim in claims:
            seen.append(path_of(claim))
            kind = (failing or {}).get(path_of(claim))
            if kind is None:
                result = StepResult(facts={"of": path_of(claim)})
                told.append(done(claim, ends(claim, of_unit=True), result=result))
            else:
                effects = ends(claim, of_unit=True, failure=fails(claim, error_class=kind))
                told.append(failed(claim, effects, error_class=kind))
        await ledger.settle_flow(batch.no, told, now=now + 1)
    return seen


def ancestors(paths: list[str]) -> list[str]:
    """All folders above these paths."""
    found = {""}
    for path in paths:
        parts = path.split("/")[:-1]
        found |= {"/".join(parts[:number]) for number in range(1, len(parts) + 1)}
    return sorted(found)


class FlowUnitSuite:
    async def test_units_wait_for_all_documents(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, paths=PATHS, phases=["ONE", "DIRS"], waits_at=2)
        assert await ledger.begin_gather(batch, 2) is None
        claims = await claimed(ledger, batch)
        settled = await ledger.settle_flow(batch.no, [done(claim) for claim in claims[:-1]], now=11.0)
        assert not settled.phase_ended
        assert await ledger.begin_gather(batch, 2) is None
        assert (await ledger.settle_flow(batch.no, [done(claims[-1])], now=11.0)).phase_ended
        batch = await ledger.get_batch(batch.id)
        assert (batch.position.stage, batch.status) == (Stage.FLOWING, "DIRS")
        begun = await ledger.begin_gather(batch, 2)
        assert begun is not None
        assert begun.flow is not None
        assert (begun.flow.sources, begun.flow.gathers) == (1, 1)
        assert await ledger.begin_gather(batch, 2) is None  # somebody else has begun

    async def test_units_are_found_in_chunks_and_made_once(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await worked(ledger)
        begun = await ledger.begin_gather(batch, 2)
        assert begun is not None
        one = await ledger.add_units(
            begun, 2, [("a/b", 1), ("a/b", 2)], ["", "a", "a/b"], cursor=2, complete=False, now=12.0
        )
        with pytest.raises(Stale):
            await ledger.add_units(begun, 2, [("a/b", 1)], ["a/b"], cursor=2, complete=False, now=12.0)
        two = await ledger.add_units(
            one, 2, [("a/c", 3), ("", 4)], FOLDERS, cursor=4, complete=True, now=12.0
        )
        assert two.flow is not None
        assert (two.flow.gathers, two.position.cursor) == (2, 0)
        units = await ledger.list_flow_units(batch.no, 2, after=0, limit=99)
        assert [(unit.path, below) for unit, below in units] == [("", 1), ("a", 2), ("a/b", 0), ("a/c", 0)]
        after = await ledger.list_flow_units(batch.no, 2, after=units[1][0].no, limit=1)
        assert after == [(UnitFolder(units[2][0].no, "a/b"), 0)]
        numbers = await ledger.find_unit_numbers(batch.no, 2, ["a/b", "x"])
        assert numbers == {"a/b": units[2][0].no}
        members = await ledger.list_unit_members(batch.no, numbers["a/b"])
        assert [each.file.path for each in members] == ["a/b/1.tif", "a/b/2.tif"]
        await check_counters(select, batch)

    async def test_folders_that_differ_in_case_are_two(self, ledger: LedgerAdapter) -> None:
        batch = await worked(ledger, ["A/1.tif", "a/x/2.tif"])
        batch = await gathered(ledger, batch, ["", "A", "a", "a/x"])
        units = await ledger.list_flow_units(batch.no, 2, after=0, limit=99)
        assert [(unit.path, below) for unit, below in units] == [("", 2), ("A", 0), ("a", 1), ("a/x", 0)]

    async def test_a_folder_without_members_stands_for_the_nearest_below(self, ledger: LedgerAdapter) -> None:
        batch = await gathered(ledger, await worked(ledger))
        roots = [await ledger.find_nearest_root(batch.no, 2, path) for path in ("a", "", "a/c", "x")]
        assert roots == [1, 1, 0, 0]

    async def test_a_folder_waits_for_the_folders_right_below(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        assert (batch.flow and batch.flow.sources, batch.flow and batch.flow.open_tasks) == (0, 4)
        await check_counters(select, batch)
        seen = []
        while claims := await claimed(ledger, batch, 2, limit=9, now=20.0):
            seen.append(sorted(path_of(claim) for claim in claims))
            for claim in claims:
                await ledger.settle_flow(batch.no, [done(claim, ends(claim, of_unit=True))], now=21.0)
        assert seen == [["a/b", "a/c"], ["a"], [""]]
        batch = await ledger.get_batch(batch.id)
        assert batch.position.stage is Stage.ENDING
        await check_counters(select, batch)

    async def test_a_folder_below_that_failed_is_settled_too(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        one, two = await claimed(ledger, batch, 2, now=20.0)
        effects = ends(one, of_unit=True, failure=fails(one, error_class="torn"))
        told = [failed(one, effects, error_class="torn"), done(two, ends(two, of_unit=True))]
        await ledger.settle_flow(batch.no, told, now=21.0)
        (above,) = await claimed(ledger, batch, 2, now=22.0)
        assert path_of(above) == "a"
        found = {path: outcome for path, (outcome, _) in (await outcomes(ledger, batch)).items()}
        assert found == {"a/b/1.tif": "failed", "a/b/2.tif": "failed", "a/c/3.tif": "done", "4.tif": "done"}
        await check_counters(select, batch)

    async def test_what_a_folder_makes_walks_on(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, paths=["a/1.tif"], phases=["ONE", "DIRS", "THREE"], waits_at=2)
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(claim, follows(claim, 3))], now=11.0)
        # The last phase is not waited for.
        (later,) = await claimed(ledger, batch, 3)
        batch = await given_tasks(ledger, await gathered(ledger, await ledger.get_batch(batch.id), ["", "a"]))
        (unit,) = await claimed(ledger, batch, 2, now=20.0)
        follower = follows(later, 3).followers[0]
        made_of = effects_of(
            unit,
            of_unit=True,
            new_files=(made("a/all.pdf"),),
            followers=(type(follower)(3, (0,), -1, 0),),
            walking=1,
        )
        await ledger.settle_flow(batch.no, [done(unit, made_of)], now=21.0)
        (sheet,) = await claimed(ledger, batch, 3, now=22.0)
        assert (path_of(sheet), sheet.place and sheet.place.root_no) == ("a/all.pdf", 1)
        await ledger.settle_flow(batch.no, [done(later), done(sheet)], now=23.0)
        (top,) = await claimed(ledger, batch, 2, now=24.0)
        await ledger.settle_flow(batch.no, [done(top, ends(top, of_unit=True))], now=25.0)
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)

    async def test_values_of_earlier_steps_are_found_along_the_line(self, ledger: LedgerAdapter) -> None:
        batch = await worked(ledger, ["a/1.tif", "a/2.tif"], value=True)
        found = await ledger.list_values(batch.no, 2, [1, 2])
        assert found == {1: [(1, 0, Value(data=b"1"))], 2: [(1, 0, Value(data=b"1"))]}
        assert await ledger.list_values(batch.no, 1, [1]) == {1: []}
        assert await ledger.list_values(batch.no, 2, []) == {}

    async def test_only_one_ends_the_gathering(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        with pytest.raises(Stale):
            await ledger.end_gather(batch, waits_at=None, now=15.0)
        tasks = [UnitTask(5, 1, "k", 1, "d", 0, None)]
        with pytest.raises(Stale):
            await ledger.add_unit_tasks(batch, 2, tasks, cursor=9, now=15.0)
        await check_counters(select, batch)

    async def test_numbers_of_unit_tasks_are_those_of_their_units(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        units = await ledger.list_flow_units(batch.no, 2, after=0, limit=99)
        states = await states_of(select, batch)
        assert [states[2, unit.no, 0] for unit, _ in units] == ["blocked", "blocked", "waiting", "waiting"]
        claims = await claimed(ledger, batch, 2, now=20.0)
        assert [claim.order.task_no - first_number(2) for claim in claims] == [
            unit.no for unit, _ in units[2:]
        ]
        earlier = await ledger.load_child_results(batch.no, [first_number(2) + units[1][0].no])
        assert list(earlier.values()) == [()]

    async def test_the_orders_of_units_name_the_list_of_their_members(self, ledger: LedgerAdapter) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        claims = await claimed(ledger, batch, 2, now=20.0)
        assert [path_of(claim) for claim in claims] == ["a/b", "a/c"]
        for claim in claims:
            unit = claim.order.file
            assert (unit.size, unit.digest, unit.key.startswith("members/")) == (7, "f" * 64, True)

    async def test_what_folders_have_tried_is_in_the_history_of_their_members(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        await all_units(ledger, batch, {"a/b": "torn"})
        _, attempts = await ledger.get_file_history(batch.no, "a/b/2.tif")
        assert [(one.phase, one.path, one.outcome) for one in attempts] == [
            ("ONE", "a/b/2.tif", "done"),
            ("DIRS", "a/b", "erred"),
        ]

    async def test_a_folder_is_told_what_those_right_below_it_gave(self, ledger: LedgerAdapter) -> None:
        paths = [
            *("a/x.tif", "a/b/x.tif", "a/b/c/x.tif", "a/d/x.tif"),
            *("A/e/x.tif", "a_b/x.tif", "axb/c/x.tif", "x.tif"),
        ]
        batch = await gathered(ledger, await worked(ledger, paths), ancestors(paths))
        batch = await given_tasks(ledger, batch)
        numbers = await ledger.find_unit_numbers(batch.no, 2, ancestors(paths))
        await all_units(ledger, batch, {"A/e": "torn"})
        told = {}
        for path, number in numbers.items():
            task_no = first_number(2) + number
            told[path] = (await ledger.load_child_results(batch.no, [task_no]))[task_no]
        assert {path: [one.path for one in below] for path, below in told.items()} == {
            "": ["A", "a", "a_b", "axb"],
            "A": [],  # what is below it has failed
            "A/e": [],
            "a": ["a/b", "a/d"],
            "a/b": ["a/b/c"],
            "a/b/c": [],
            "a/d": [],
            "a_b": [],
            "axb": ["axb/c"],
            "axb/c": [],
        }
        assert told["a"][0].result == StepResult(facts={"of": "a/b"})

    async def test_folders_of_uploaded_paths_are_told_as_well(self, ledger: LedgerAdapter) -> None:
        """Those begin with a slash."""
        paths = ["/x.tif", "/a/x.tif", "/a/b/x.tif", "/a/b/c/x.tif", "/d/x.tif"]
        folders = ["", "/a", "/a/b", "/a/b/c", "/d"]
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger, paths), folders))
        numbers = await ledger.find_unit_numbers(batch.no, 2, folders)
        assert await all_units(ledger, batch) == ["/a/b/c", "/d", "/a/b", "/a", ""]
        told = {}
        for path, number in numbers.items():
            task_no = first_number(2) + number
            found = await ledger.load_child_results(batch.no, [task_no])
            told[path] = [one.path for one in found[task_no]]
        assert told == {"/a/b/c": [], "/a/b": ["/a/b/c"], "/a": ["/a/b"], "/d": [], "": ["/a", "/d"]}
