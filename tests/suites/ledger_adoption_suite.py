"""What every ledger does with batches that an earlier version has begun, in the midst of each stage: they go
on as batches that flow, with the same files in the end.
"""

# ruff: noqa: S608 - the statements are made of numbers and words of this module alone

import json
from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs

from quire.batches.remote.attempts import find_task
from quire.batches.remote.context import RemoteContext
from quire.engine import adoption
from quire.engine.adoption import Adoption
from quire.engine.flow import follow, pass_on
from quire.ledger.flow_values import Admission, Effects, first_number
from quire.ledger.port import TaskSelection
from quire.model.batch import Batch, Stage
from quire.model.errors import Misconfigured, Retry, Stale
from quire.model.plan import Plan, digest_of, encode_plan
from quire.testing.factories import file
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock
from tests.suites.flow_situations import (
    PLAN,
    Select,
    check_counters,
    claimed,
    done,
    failed,
    finished,
    outcomes,
    states_of,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act, finalized

Execute = Callable[[str], Awaitable[None]]  # runs a statement without values

FILES = 6
PATHS = [f"d/f{number}.tif" for number in range(1, FILES + 1)]
FORMER = json.dumps(
    {"name": "plain", "phases": [{"name": phase.name} for phase in PLAN.phases], "version": 1}
)
TO_FLOWING = structs.replace(PLAN, name="plain")
# In the second of three phases; by file: how its task stands there.
STATES = {
    Stage.GATHERING: {},
    Stage.DISCOVERING: {1: "ready", 2: "ready"},
    Stage.WORKING: {1: "done", 2: "failed", 3: "ready", 4: "waiting", 6: "running"},
    Stage.TRANSFORMING: {1: "done", 2: "failed", 3: "done", 4: "done"},
}
EVERY_STAGE = pytest.mark.parametrize("stage", list(STATES))


async def written(ledger: LedgerAdapter, execute: Execute, stage: Stage) -> Batch:
    """As earlier versions left it, in its second phase: the first is over for all files."""
    batch = await finalized(ledger, PATHS, plan=FORMER)
    no, states = batch.no, STATES.get(stage, {})
    cursor = FILES + 1 if stage is Stage.TRANSFORMING else 2 if stage is Stage.DISCOVERING else 0
    last_task = FILES + len(states)
    left = sum(state not in {"done", "failed"} for state in states.values())
    bad = sum(state == "failed" for state in states.values())
    good = len(states) - left - bad
    statements = [
        f"UPDATE batches SET stage = '{stage}', phase = 2, cursor = {cursor}, status = 'TWO' WHERE no = {no}",
        f"UPDATE batches SET last_file = {FILES}, last_task = {last_task} WHERE no = {no}",
        _round(no, 1, "ONE", 1, (FILES, FILES, 0)),
        _round(no, 2, "TWO", FILES + 1, (len(states), good, bad)),
        *(_file(no, number, path) for number, path in enumerate(PATHS, start=1)),
        *(_task(no, number, 1, number, "done") for number in range(1, FILES + 1)),
        *(
            _task(no, FILES + place, 2, number, state)
            for place, (number, state) in enumerate(states.items(), start=1)
        ),
    ]
    if bad:
        statements.append(f"INSERT INTO failures (batch_no, error_class, tasks) VALUES ({no}, 'torn', {bad})")
    if stage is Stage.TRANSFORMING:
        # The first task of the phase was folded: what it has made is in the list.
        statements.append(_file(no, FILES + 1, "d/f1.page", root=1, born=2))
        statements.append(f"UPDATE batches SET last_file = {FILES + 1} WHERE no = {no}")
    for statement in statements:
        await execute(statement)
    return await ledger.get_batch(batch.id)


def _round(batch_no: int, phase: int, name: str, first_task: int, counts: tuple[int, int, int]) -> str:
    return (
        "INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed) VALUES "
        f"({batch_no}, 1, {phase}, '{name}', {first_task}, {', '.join(map(str, counts))})"
    )


def _file(batch_no: int, no: int, path: str, root: int = 0, born: int = 0) -> str:
    outcome = "NULL" if born else "'done'"
    role = "page" if born else "input"
    return (
        "INSERT INTO files (batch_no, file_no, root_no, parent_no, born, listed, role, path, folded, name, "
        "key, size, content_type, outcome, attempts) VALUES "
        f"({batch_no}, {no}, {root or no}, {root or 'NULL'}, {born}, true, '{role}', '{path}', '{path}', "
        f"'n', 'k{no}', 10, 'image/tiff', {outcome}, 1)"
    )


def _task(batch_no: int, no: int, phase: int, file_no: int, state: str) -> str:
    attempt = 0 if state == "ready" else 1
    outcome = {"done": "'done'", "failed": "'rejected'", "waiting": "'erred'"}.get(state, "NULL")
    error = "'torn'" if state == "failed" else "NULL"
    due_at = "5" if state == "waiting" else "NULL"
    return (
        "INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, due_at, outcome, "
        "error_class, error) VALUES "
        f"({batch_no}, {no}, {phase}, {file_no}, '{state}', {attempt}, 1, {due_at}, {outcome}, "
        f"{error}, {error})"
    )


async def adopted(ledger: LedgerAdapter, batch: Batch, plan: Plan = TO_FLOWING) -> Batch:
    moves = Adoption(ledger, FakeClock())
    begun = await moves.begin(batch, plan)
    assert begun is not None
    while begun.flow is not None and begun.flow.adopts_to is not None:
        begun = await moves.move(begun, plan)
    return begun


async def worked(ledger: LedgerAdapter, batch: Batch) -> Batch:
    """All that is left of it succeeds."""
    busy = True
    while busy:
        busy = False
        for phase in (3, 2, 1):
            claims = await claimed(ledger, batch, phase, now=100.0)
            told = []
            for claim in claims:
                assert claim.place is not None
                effects = pass_on(TO_FLOWING, claim.place, claim.order.file, claim.order.attempt)
                told.append(done(claim, effects))
            await ledger.settle_flow(batch.no, told, now=101.0)
            busy = busy or bool(claims)
    return await ledger.get_batch(batch.id)


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
        batch = await worked(ledger, batch)
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
            await execute(_file(batch.no, number, PATHS[number - 1]).replace("'done', 1)", "NULL, 0)"))
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
        batch = await worked(ledger, batch)
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
        await execute(f"DELETE FROM crew WHERE no = {member.no}")
        assert await moves.begin(batch, TO_FLOWING) is not None
        with pytest.raises(Stale):
            await moves.begin(batch, TO_FLOWING)

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
        later = await worked(ledger, batch)
        assert later.position.stage is Stage.ENDING

    async def test_a_callback_is_asked_to_come_again_until_its_batch_is_adopted(
        self, ledger: LedgerAdapter, execute: Execute
    ) -> None:
        batch = await written(ledger, execute, Stage.WORKING)
        context = RemoteContext(
            **dict.fromkeys(("batches", "files", "tasks", "flow", "records", "members"), ledger),
            blobs=MemoryBlobs(),
            clock=FakeClock(),
            ids=CountingIds(),
            pipelines={"plain": TO_FLOWING},
        )
        with pytest.raises(Retry) as told:
            await find_task(context, batch, FILES + 5)
        assert told.value.code == "too_early"
        batch = await adopted(ledger, batch)
        found = await find_task(context, batch, FILES + 5)
        assert found.claim.order.file.path == PATHS[5]

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
        batch = await worked(ledger, batch)
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
