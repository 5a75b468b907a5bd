"""What a new round takes back: tasks are superseded, what they made leaves the list. Nothing is deleted."""

from quire.database.postgres import Connection
from quire.ledger.postgres.rows import change, numbers


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
