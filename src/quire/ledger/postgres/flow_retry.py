"""A new round of a batch that flows: failed tasks run again in their own rows, and what was made of their
documents since is withdrawn. Nothing is deleted; branches that are done keep their results.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from quire.database.postgres import Connection
from quire.ledger.flow_rows import judge_roots
from quire.ledger.postgres.flow_progress import hold_flow
from quire.ledger.postgres.rows import all_rows, change, columns, numbers, one_row, record_event
from quire.ledger.postgres.withdrawal import supersede_tasks, withdraw_files
from quire.ledger.rows import Row
from quire.ledger.values import TaskSelection
from quire.model.batch import Batch
from quire.model.errors import Stale
from quire.model.pipelines import stored_plan


async def retry(
    connection: Connection,
    batch: Batch,
    selection: TaskSelection,
    waiting: Sequence[int],
    names: Sequence[str],
    now: float,
) -> int:
    """How many tasks run again. `waiting` are the phases about folders or the batch, `names` of all phases.
    Raises Stale when the batch is no longer where it was seen.
    """
    no = batch.no
    await one_row(connection, "lock_batch", (no,))
    await change(connection, "adoption_attempts_of_failed", {"no": no})
    await change(connection, "adoption_failed", {"no": no})
    wanted = {"no": no, "error_class": selection.error_class, "path": selection.path}
    chosen = await all_rows(connection, "chosen", wanted)
    if not chosen:
        raise Stale(f"batch {no}: there is nothing to retry any more", code="wrong_state")
    first = min(phase for _, _, phase, _, _ in chosen)
    waits_at = next((at for at in waiting if at >= first), None)
    values = {"phase": first, "status": names[first - 1], "waits_at": waits_at, "now": now, "no": no}
    if not await change(connection, "flow_retry_batch", values | {"round": batch.position.round}):
        raise Stale(f"batch {no}: it has been started again", code="wrong_state")
    started = {"phase": names[first - 1], "round": batch.position.round + 1}
    await record_event(connection, no, now, "phase_started", started)
    touched = await _withdraw_units(connection, no, waits_at) if waits_at is not None else set()
    documents = [row for row in chosen if row[3] != "unit"]
    await _withdraw_since(connection, no, documents)
    again = await all_rows(connection, "flow_still_failed", (no, [row[0] for row in documents]))
    await _try_again(connection, no, again)
    walking = Counter(root for root, _ in {(root, file_no) for _, file_no, _, root, _ in again})
    await _rejudge(connection, batch, {root for *_, root in chosen if root} | touched, walking)
    await change(connection, "flow_recount_open", {"no": no})
    held = await hold_flow(connection, no)
    async with connection.pipeline():
        await change(connection, "set_alarm", (0.0, no))
        if held is not None:
            await held.write(connection, now)
    return len(chosen)


async def _rejudge(
    connection: Connection, batch: Batch, roots: Collection[int], walking: Counter[int]
) -> None:
    """What is left of these inputs' tasks says how they stand; `walking` documents are on their way again."""
    if not roots:
        return
    batch_no, wanted = batch.no, sorted(roots)
    failed = await all_rows(connection, "flow_failures_of_roots", {"no": batch_no, "roots": wanted})
    done = await numbers(connection, "flow_has_done", (batch_no, wanted))
    rows = judge_roots(stored_plan(batch), wanted, failed, set(done), walking)
    await change(connection, "flow_rejudge", (*columns(rows), batch_no))


async def _withdraw_units(connection: Connection, batch_no: int, phase: int) -> set[int]:
    """All units from this phase on, with what was made of them; the inputs whose end they have told."""
    units = await numbers(connection, "flow_units_from", (batch_no, phase))
    if not units:
        return set()
    touched = set(await numbers(connection, "roots_of_members", (batch_no, units)))
    made = await numbers(connection, "descendants_of", {"no": batch_no, "units": units})
    await withdraw_files(connection, batch_no, made)
    return touched


async def _withdraw_since(connection: Connection, batch_no: int, documents: Sequence[Row]) -> None:
    """What was made of these documents at or after the phases of their failed tasks, and what they did after
    those.
    """
    if not documents:
        return
    _, files, phases, _, roots = columns(documents)
    values = {"no": batch_no, "files": files, "roots": roots, "phases": phases}
    await withdraw_files(connection, batch_no, await numbers(connection, "flow_made_since", values))
    later = await numbers(connection, "flow_tasks_after", (files, phases, batch_no))
    await supersede_tasks(connection, batch_no, later)
    await change(connection, "flow_back_in_list", (files, phases, batch_no))


async def _try_again(connection: Connection, batch_no: int, again: Sequence[Row]) -> None:
    """Those that an earlier one of the same document did not supersede."""
    if not again:
        return
    tasks, files, phases, _, classes = columns(again)
    failed = ((phase, 0, -count, 0, 0.0, 0, 0, 0, 0, 0) for phase, count in Counter(phases).items())
    kinds = Counter(classes)
    branches = Counter(zip(phases, files, strict=True))
    joins = columns((*place, count) for place, count in branches.items())
    async with connection.pipeline():
        await change(connection, "flow_try_again", {"no": batch_no, "tasks": tasks})
        await change(connection, "flow_count_settled", (*columns(failed), batch_no))
        uncounted = [-count for count in kinds.values()]
        await change(connection, "count_failures", (batch_no, list(kinds), uncounted))
        await change(connection, "flow_rejoin", (*joins, batch_no))
