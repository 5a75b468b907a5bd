"""A person intervenes: each act is one transaction, with who did it and why among the batch's events."""

from collections.abc import Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import Values, clean_text
from quire.ledger.port import NO_BATCH, OperatorAction, RetrySelection, TaskSelection
from quire.ledger.postgres.flow_retry import retry
from quire.ledger.postgres.rows import (
    all_rows,
    change,
    hold_over_budget,
    load_batch,
    notify_listeners,
    one_row,
    record_event,
)
from quire.model.batch import RESET, Batch, Budget, Stage
from quire.model.errors import Stale


class PostgresControlStore:
    _database: PostgresDatabase

    async def pause(self, batch_no: int, action: OperatorAction) -> Batch:
        return await self._apply_action(
            "batch_paused", batch_no, action, [("pause", (clean_text(action.reason), action.now, batch_no))]
        )

    async def resume(self, batch_no: int, action: OperatorAction, *, budget: Budget | None = None) -> Batch:
        steps: list[tuple[str, Values]] = [("resume", (action.now, batch_no))]
        if budget is not None:
            steps.append(("set_budget", (budget.seconds, budget.tokens, budget.money_micros, batch_no)))
        return await self._apply_action("batch_resumed", batch_no, action, steps)

    async def cancel(self, batch_no: int, action: OperatorAction) -> Batch:
        values = {
            "stage": "cancelled",
            "status": "CANCELLED",
            "error": clean_text(action.reason),
            "now": action.now,
            "no": batch_no,
        }
        return await self._apply_action("batch_cancelled", batch_no, action, _end_batch(values))

    async def reset(self, batch_no: int, action: OperatorAction) -> Batch:
        values = {"stage": "error", "status": "ERROR", "error": RESET, "now": action.now, "no": batch_no}
        return await self._apply_action("batch_reset", batch_no, action, _end_batch(values))

    async def set_priority(self, batch_no: int, tier: int, action: OperatorAction) -> Batch:
        steps: list[tuple[str, Values]] = [("prioritise", (tier, action.now, batch_no))]
        return await self._apply_action("batch_prioritised", batch_no, action, steps, {"tier": tier})

    async def preview_retry(self, batch_no: int, selection: TaskSelection) -> RetrySelection:
        async def work(connection: Connection) -> RetrySelection:
            failed = await all_rows(connection, "chosen_failed", _wanted(batch_no, selection))
            row = await one_row(connection, "unsettled", (batch_no,))
            row = row or await one_row(connection, "flow_unsettled", (batch_no,))
            return RetrySelection(
                failed=[(phase, kind, tasks) for phase, kind, tasks in failed],
                unsettled=0 if row is None else row[0],
            )

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
        async def work(connection: Connection) -> Batch:
            tasks = await retry(connection, batch, selection, waiting, names, action.now)
            data: dict[str, object] = {"round": batch.position.round + 1, "tasks": tasks}
            await _record_action(connection, batch.no, "batch_retried", action, data)
            await hold_over_budget(connection, batch.no, action.now)
            return await load_batch(connection, batch.no)

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
        steps: list[tuple[str, Values]],
        data: dict[str, object] | None = None,
    ) -> Batch:
        """The first step decides whether the act makes sense."""

        async def work(connection: Connection) -> Batch:
            for number, (query, values) in enumerate(steps):
                changed = await change(connection, query, values)
                if not changed and not number:
                    raise Stale(f"{kind}: not in a state for it", code="wrong_state")
            await _record_action(connection, batch_no, kind, action, data)
            return await load_batch(connection, batch_no)

        return await self._database.write(work)


def _end_batch(values: dict[str, Any]) -> list[tuple[str, Values]]:
    return [("end_batch", values), ("clear_alarm", (values["no"],))]


def _wanted(batch_no: int, selection: TaskSelection) -> Values:
    return {"no": batch_no, "error_class": selection.error_class, "path": selection.path}


async def _record_action(
    connection: Connection,
    batch_no: int,
    kind: str,
    action: OperatorAction,
    data: dict[str, object] | None = None,
) -> None:
    told = {"actor": action.actor, "reason": action.reason, **(data or {})}
    await record_event(connection, batch_no, action.now, kind, told)
    await notify_listeners(connection)


async def _reopen(connection: Connection, batch_no: int, action: OperatorAction, status: str) -> Batch:
    starts = await one_row(connection, "awaits_start", (batch_no,)) is not None
    if not await change(connection, "reopen", {"status": status, "now": action.now, "no": batch_no}):
        raise Stale("only a batch that was cancelled or ended in error can be reopened", code="wrong_state")
    batch = await load_batch(connection, batch_no)
    if batch.position.stage is Stage.FLOWING:
        async with connection.pipeline():
            await change(connection, "flow_reopen_tasks", (batch_no,))
            await change(connection, "flow_reopen", (batch_no,))
            await change(connection, "set_alarm", (0.0, batch_no))
            await hold_over_budget(connection, batch_no, action.now)
    await _record_action(connection, batch_no, "batch_reopened", action)
    if starts:
        await record_event(connection, batch_no, action.now, "batch_started", {})
    return await load_batch(connection, batch_no)
