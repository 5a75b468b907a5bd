"""A person intervenes: each act is one transaction, with who did it and why among the batch's events."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import NO_BATCH, OperatorAction, RetrySelection, TaskSelection
from quire.ledger.sqlite.flow_retry import retry
from quire.ledger.sqlite.rows import SQL, hold_over_budget, load_batch, record_event
from quire.model.batch import RESET, Batch, Budget, Stage
from quire.model.errors import Stale


class SqliteControlStore:
    _database: SqliteDatabase

    async def pause(self, batch_no: int, action: OperatorAction) -> Batch:
        return await self._apply_action(
            "batch_paused", batch_no, action, [("pause", (action.reason, action.now, batch_no))]
        )

    async def resume(self, batch_no: int, action: OperatorAction, *, budget: Budget | None = None) -> Batch:
        steps: list[tuple[str, tuple[Any, ...]]] = [("resume", (action.now, batch_no))]
        if budget is not None:
            steps.append(("set_budget", (budget.seconds, budget.tokens, budget.money_micros, batch_no)))
        return await self._apply_action("batch_resumed", batch_no, action, steps)

    async def cancel(self, batch_no: int, action: OperatorAction) -> Batch:
        values = ("cancelled", "CANCELLED", action.reason, action.now, batch_no)
        return await self._apply_action("batch_cancelled", batch_no, action, _end_batch(values))

    async def reset(self, batch_no: int, action: OperatorAction) -> Batch:
        values = ("error", "ERROR", RESET, action.now, batch_no)
        return await self._apply_action("batch_reset", batch_no, action, _end_batch(values))

    async def set_priority(self, batch_no: int, tier: int, action: OperatorAction) -> Batch:
        steps = [("prioritise", (tier, action.now, batch_no))]
        return await self._apply_action("batch_prioritised", batch_no, action, steps, {"tier": tier})

    async def preview_retry(self, batch_no: int, selection: TaskSelection) -> RetrySelection:
        def work(connection: sqlite3.Connection) -> RetrySelection:
            values = (batch_no, selection.error_class, selection.path)
            failed = connection.execute(SQL["chosen_failed"], values).fetchall()
            row = connection.execute(SQL["unsettled"], (batch_no,)).fetchone()
            row = row or connection.execute(SQL["flow_unsettled"], (batch_no,)).fetchone()
            return RetrySelection(failed=failed, unsettled=0 if row is None else row[0])

        return await self._database.read(work)

    async def retry_flow(
        self,
        batch: Batch,
        selection: TaskSelection,
        action: OperatorAction,
        *,
        waiting: Sequence[int],
        names: Sequence[str],
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            tasks = retry(connection, batch, selection, waiting, names, action.now)
            data: dict[str, object] = {"round": batch.position.round + 1, "tasks": tasks}
            _record_action(connection, batch.no, "batch_retried", action, data)
            hold_over_budget(connection, batch.no, action.now)
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def record_action(self, action: OperatorAction, kind: str, data: dict[str, object]) -> None:
        await self._database.write(
            lambda connection: _record_action(connection, NO_BATCH, kind, action, data)
        )

    async def reopen(self, batch_no: int, action: OperatorAction, *, status: str) -> Batch:
        return await self._database.write(lambda connection: _reopen(connection, batch_no, action, status))

    async def _apply_action(
        self,
        kind: str,
        batch_no: int,
        action: OperatorAction,
        steps: list[tuple[str, tuple[Any, ...]]],
        data: dict[str, object] | None = None,
    ) -> Batch:
        """The first step decides whether the act makes sense."""

        def work(connection: sqlite3.Connection) -> Batch:
            for number, (query, values) in enumerate(steps):
                changed = connection.execute(SQL[query], values).rowcount
                if not changed and not number:
                    raise Stale(f"{kind}: not in a state for it", code="wrong_state")
            _record_action(connection, batch_no, kind, action, data)
            return load_batch(connection, batch_no)

        return await self._database.write(work)


def _end_batch(values: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
    return [("end_batch", values), ("clear_alarm", values[-1:])]


def _record_action(
    connection: sqlite3.Connection,
    batch_no: int,
    kind: str,
    action: OperatorAction,
    data: dict[str, object] | None = None,
) -> None:
    record_event(
        connection,
        batch_no,
        action.now,
        kind,
        {"actor": action.actor, "reason": action.reason, **(data or {})},
    )


def _reopen(connection: sqlite3.Connection, batch_no: int, action: OperatorAction, status: str) -> Batch:
    starts = connection.execute(SQL["awaits_start"], (batch_no,)).fetchone() is not None
    if not connection.execute(SQL["reopen"], (status, action.now, batch_no)).rowcount:
        raise Stale("only a batch that was cancelled or ended in error can be reopened", code="wrong_state")
    batch = load_batch(connection, batch_no)
    if batch.position.stage is Stage.FLOWING:
        connection.execute(SQL["flow_reopen_tasks"], (batch_no,))
        connection.execute(SQL["flow_reopen"], (batch_no,))
        connection.execute(SQL["set_alarm"], (0, batch_no))
        hold_over_budget(connection, batch_no, action.now)
    _record_action(connection, batch_no, "batch_reopened", action)
    if starts:
        record_event(connection, batch_no, action.now, "batch_started", {})
    return load_batch(connection, batch_no)
