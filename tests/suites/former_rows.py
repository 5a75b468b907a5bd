"""Batches of the former form, which went from phase to phase with all documents together, as earlier releases
left them: rows that are written by SQL, on either database, for nothing in the product writes them any more.
And how such a batch is adopted and goes on.
"""

# ruff: noqa: S608 - the statements are made of numbers and words of this module alone

import json
from collections.abc import Awaitable, Callable

from msgspec import structs

from quire.engine.adoption import Adoption
from quire.engine.flow import pass_on
from quire.model.batch import Batch, Stage
from quire.model.plan import Plan
from quire.testing.time import FakeClock
from tests.suites.flow_situations import PLAN, claimed, done
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import finalized

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


async def written(
    ledger: LedgerAdapter, execute: Execute, stage: Stage, *, member: int | None = None
) -> Batch:
    """As earlier versions left it, in its second phase: the first is over for all files. Attempts that run
    are those of `member`.
    """
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
        round_row(no, 1, "ONE", 1, (FILES, FILES, 0)),
        round_row(no, 2, "TWO", FILES + 1, (len(states), good, bad)),
        *(file_row(no, number, path) for number, path in enumerate(PATHS, start=1)),
        *(task_row(no, number, 1, number, "done") for number in range(1, FILES + 1)),
        *(
            task_row(no, FILES + place, 2, number, state, member)
            for place, (number, state) in enumerate(states.items(), start=1)
        ),
    ]
    if bad:
        statements.append(f"INSERT INTO failures (batch_no, error_class, tasks) VALUES ({no}, 'torn', {bad})")
    if stage is Stage.TRANSFORMING:
        # The first task of the phase was folded: what it has made is in the list.
        statements.append(file_row(no, FILES + 1, "d/f1.page", root=1, born=2))
        statements.append(f"UPDATE batches SET last_file = {FILES + 1} WHERE no = {no}")
    for statement in statements:
        await execute(statement)
    return await ledger.get_batch(batch.id)


def round_row(batch_no: int, phase: int, name: str, first_task: int, counts: tuple[int, int, int]) -> str:
    return (
        "INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed) VALUES "
        f"({batch_no}, 1, {phase}, '{name}', {first_task}, {', '.join(map(str, counts))})"
    )


def file_row(batch_no: int, no: int, path: str, root: int = 0, born: int = 0) -> str:
    outcome = "NULL" if born else "'done'"
    role = "page" if born else "input"
    return (
        "INSERT INTO files (batch_no, file_no, root_no, parent_no, born, listed, role, path, folded, name, "
        "key, size, content_type, outcome, attempts) VALUES "
        f"({batch_no}, {no}, {root or no}, {root or 'NULL'}, {born}, true, '{role}', '{path}', '{path}', "
        f"'n', 'k{no}', 10, 'image/tiff', {outcome}, 1)"
    )


def task_row(batch_no: int, no: int, phase: int, file_no: int, state: str, member: int | None = None) -> str:
    attempt = 0 if state == "ready" else 1
    outcome = {"done": "'done'", "failed": "'rejected'", "waiting": "'erred'"}.get(state, "NULL")
    error = "'torn'" if state == "failed" else "NULL"
    due_at = "5" if state == "waiting" else "NULL"
    holder = member if member is not None and state == "running" else "NULL"
    return (
        "INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, started_at, due_at, outcome, "
        "error_class, error, member) VALUES "
        f"({batch_no}, {no}, {phase}, {file_no}, '{state}', {attempt}, 1, {due_at}, {outcome}, "
        f"{error}, {error}, {holder})"
    )


async def adopted(ledger: LedgerAdapter, batch: Batch, plan: Plan = TO_FLOWING) -> Batch:
    moves = Adoption(ledger, FakeClock())
    begun = await moves.begin(batch, plan)
    assert begun is not None
    while begun.flow is not None and begun.flow.adopts_to is not None:
        begun = await moves.move(begun, plan)
    return begun


async def walked_on(ledger: LedgerAdapter, batch: Batch, plan: Plan = TO_FLOWING) -> Batch:
    """All that is left of it succeeds."""
    busy = True
    while busy:
        busy = False
        for phase in range(len(plan.phases), 0, -1):
            claims = await claimed(ledger, batch, phase, now=100.0)
            told = []
            for claim in claims:
                assert claim.place is not None
                effects = pass_on(plan, claim.place, claim.order.file, claim.order.attempt)
                told.append(done(claim, effects))
            await ledger.settle_flow(batch.no, told, now=101.0)
            busy = busy or bool(claims)
    return await ledger.get_batch(batch.id)
