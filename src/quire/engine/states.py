"""The tables of what may follow what. Moves of a batch are checked against them when they are made; the
rules for tasks, and the few statements that change a state by themselves, are tested against them.

A batch:  open → queued → filling → (discovering → working → transforming)* → done
          and from everywhere that is not an end: error, cancelled.
A task:   ready → running → done | failed | waiting → running …
"""

from quire.model.batch import Position, Stage, TaskState
from quire.model.errors import Bug

STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.OPEN: frozenset({Stage.QUEUED, Stage.ERROR, Stage.CANCELLED}),
    Stage.QUEUED: frozenset({Stage.FILLING, Stage.ERROR, Stage.CANCELLED}),
    Stage.FILLING: frozenset({Stage.FILLING, Stage.DISCOVERING, Stage.DONE, Stage.ERROR, Stage.CANCELLED}),
    Stage.DISCOVERING: frozenset({Stage.DISCOVERING, Stage.WORKING, Stage.ERROR, Stage.CANCELLED}),
    Stage.WORKING: frozenset({Stage.TRANSFORMING, Stage.ERROR, Stage.CANCELLED}),
    Stage.TRANSFORMING: frozenset(
        {Stage.TRANSFORMING, Stage.DISCOVERING, Stage.DONE, Stage.ERROR, Stage.CANCELLED}
    ),
    Stage.DONE: frozenset(),
    Stage.ERROR: frozenset(),
    Stage.CANCELLED: frozenset(),
}

TASKS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.READY: frozenset({TaskState.RUNNING}),
    TaskState.RUNNING: frozenset({TaskState.DONE, TaskState.FAILED, TaskState.WAITING}),
    TaskState.WAITING: frozenset({TaskState.RUNNING}),
    TaskState.DONE: frozenset(),
    TaskState.FAILED: frozenset(),
}


def check_move(before: Position, after: Position) -> None:
    """A batch only goes forward: along the table, and never back in phase or cursor."""
    if after.stage not in STAGES[before.stage]:
        raise Bug(f"a batch cannot go from {before.stage} to {after.stage}")
    if after.phase < before.phase:
        raise Bug(f"a batch cannot go back from phase {before.phase} to {after.phase}")
    if after.stage is before.stage and after.phase == before.phase and after.cursor <= before.cursor:
        raise Bug(f"a move must make progress: {before} to {after}")
