"""What a new round takes back: tasks are superseded, what they made leaves the list. Nothing is deleted."""

from quire.database.postgres import Connection
from quire.ledger.postgres.rows import change, numbers
from quire.ledger.values import Unit
from quire.model.batch import Position


async def supersede_tasks(connection: Connection, batch_no: int, tasks: list[int]) -> None:
    """These tasks count no longer."""
    for query in ("uncount_tasks", "uncount_failures", "supersede_tasks"):
        await change(connection, query, (batch_no, tasks))


async def withdraw_files(connection: Connection, batch_no: int, files: list[int]) -> None:
    """These files, and all tasks on them."""
    await supersede_tasks(
        connection, batch_no, await numbers(connection, "tasks_of_files", (batch_no, files))
    )
    await change(connection, "withdraw_files", (batch_no, files))


async def reset_units(connection: Connection, batch_no: int, to: Position, unit: Unit) -> None:
    """Units of earlier rounds whose directories have changed, with all that was made of them."""
    values = {"no": batch_no, "phase": to.phase, "round": to.round, "unit": unit.value}
    old = await numbers(connection, "regathered_units", values)
    if not old:
        return
    made = await numbers(connection, "descendants_of", {"no": batch_no, "units": old})
    await withdraw_files(connection, batch_no, made)
    await recompute_outcomes(
        connection, batch_no, await numbers(connection, "roots_of_members", (batch_no, old))
    )


async def recompute_outcomes(connection: Connection, batch_no: int, roots: list[int]) -> None:
    """What is left of these inputs' tasks says how they stand."""
    await change(connection, "judge_anew", {"no": batch_no, "roots": roots})
