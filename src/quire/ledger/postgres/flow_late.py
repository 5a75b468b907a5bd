"""A success of an attempt that was given up for lost time still counts while the task waits, or has failed
and nothing that followed has started; beside other steps, while those have not all settled. Its failure is
kept in the history.
"""

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_text
from quire.ledger.flow_values import Effects, JoinPart
from quire.ledger.port import Settlement
from quire.ledger.postgres.rows import all_rows, change, one_row
from quire.ledger.rows import Row, encode_result
from quire.ledger.settlement_rows import encode_cost
from quire.model.batch import TaskState
from quire.model.work import Outcome


async def apply_late_success(connection: Connection, settlement: Settlement, task: Row) -> bool:
    """`task` is (attempt, state, error class) as they are."""
    report, effects = settlement.report, settlement.effects
    attempt, state, error_class = task
    if report.outcome is not Outcome.DONE or report.attempt != attempt:
        return False
    if state == TaskState.FAILED and isinstance(effects, JoinPart):
        return await _take_back_branch(connection, settlement, effects, error_class or "")
    if state == TaskState.FAILED:
        if not isinstance(effects, Effects) or effects.of_unit:
            return False  # the folder above may have begun
        followers = await _find_followers(connection, settlement, effects)
        if followers is None or not await _accept(connection, settlement, state):
            return False
        await _take_back_failure(connection, settlement, effects, followers, error_class or "")
        return True
    return state == TaskState.WAITING and await _accept(connection, settlement, state)


async def _take_back_branch(
    connection: Connection, settlement: Settlement, part: JoinPart, error_class: str
) -> bool:
    """The failure of a step beside others did not happen, unless all of them have settled: then what follows
    may have been decided.
    """
    batch_no = settlement.report.batch_no
    place = (batch_no, part.phase, part.file_no)
    if not await one_row(connection, "flow_awaits_branches", place):
        return False
    if not await _accept(connection, settlement, TaskState.FAILED):
        return False
    async with connection.pipeline():
        await change(connection, "flow_unsettle_branch", place)
        # The task itself will be counted as settled once more.
        await change(connection, "flow_count_open", (1, batch_no))
        failed = ([part.phase], [0], [-1], [0], [0.0], *([0] for _ in range(5)), batch_no)
        await change(connection, "flow_count_settled", failed)
        await change(connection, "count_failures", (batch_no, [error_class], [-1]))
    return True


async def _accept(connection: Connection, settlement: Settlement, state: str) -> bool:
    report = settlement.report
    values = {
        "no": report.batch_no,
        "task_no": report.task_no,
        "attempt": report.attempt,
        "state": state,
        "result": encode_result(report.result),
        "worker": clean_text(report.worker),
        "seconds": report.seconds,
        "cost": encode_cost(report.cost),
    }
    return bool(await change(connection, "flow_late_success", values))


async def _find_followers(
    connection: Connection, settlement: Settlement, effects: Effects
) -> list[tuple[int, int]] | None:
    """(task, phase) of what the failure let pass. None when somebody has begun with it, or when the input has
    failed elsewhere too.
    """
    no, task_no, phase = settlement.report.batch_no, settlement.report.task_no, effects.phase
    values = {"no": no, "root": effects.root_no, "task_no": task_no, "phase": phase}
    beside = await one_row(connection, "flow_failed_beside", values)
    found = await all_rows(connection, "flow_late_followers", (no, effects.parent_no, phase))
    if (beside is not None and beside[0]) or any(state != TaskState.READY for _, state, _ in found):
        return None
    return [(follower_no, at) for follower_no, _, at in found]


async def _take_back_failure(
    connection: Connection,
    settlement: Settlement,
    effects: Effects,
    followers: list[tuple[int, int]],
    error_class: str,
) -> None:
    """The failure did not happen: what it let pass is superseded, the input is on its way again."""
    batch_no = settlement.report.batch_no
    numbers = [follower_no for follower_no, _ in followers]
    phases = sorted({phase for _, phase in followers})
    joins = await change(connection, "flow_drop_joins", (batch_no, phases, effects.parent_no))
    # Its tries were counted when its walk ended with the failure, and will be when it ends.
    tries = effects.tries or sum(one.tries for one in effects.followers)
    again = (0, 0) if followers else (1, tries)
    failed = ([effects.phase], [0], [-1], [0], [0.0], *([0] for _ in range(5)), batch_no)
    async with connection.pipeline():
        await change(connection, "uncount_tasks", (batch_no, numbers))
        await change(connection, "supersede_tasks", (batch_no, numbers))
        # The task itself will be counted as settled once more.
        await change(connection, "flow_count_open", (1 - len(followers) - joins, batch_no))
        await change(connection, "flow_count_settled", failed)
        await change(connection, "count_failures", (batch_no, [error_class], [-1]))
        await change(connection, "flow_unfail_root", (*again, batch_no, effects.root_no))
