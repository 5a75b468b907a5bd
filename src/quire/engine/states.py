"""The tables of what may follow what. Moves of a batch are checked against them when they are made; the
rules for tasks, and the few statements that change a state by themselves, are tested against them.

A batch:  open → queued → filling → ([gathering →] discovering → working → transforming)* → done
          or, when its documents move on by themselves: open → queued → filling → flowing → ending → done;
          and from everywhere that is not an end: error, cancelled.
          From done into a new round, at the phase where what is retried failed; from error and cancelled back
          to where it stood.
A task:   ready → running → done | failed | waiting | external → running …
          and superseded when a later round takes its place.
"""

from quire.model.batch import Position, Stage, TaskState
from quire.model.errors import Bug

_ENDS = frozenset({Stage.ERROR, Stage.CANCELLED})
_ENTRY = frozenset({Stage.GATHERING, Stage.DISCOVERING})

STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.OPEN: frozenset({Stage.QUEUED, Stage.FLOWING}) | _ENDS,
    Stage.QUEUED: frozenset({Stage.FILLING}) | _ENDS,
    Stage.FILLING: frozenset({Stage.FILLING, Stage.DONE, Stage.FLOWING}) | _ENTRY | _ENDS,
    Stage.GATHERING: _ENTRY | _ENDS,
    Stage.DISCOVERING: frozenset({Stage.DISCOVERING, Stage.WORKING}) | _ENDS,
    Stage.WORKING: frozenset({Stage.TRANSFORMING}) | _ENDS,
    Stage.TRANSFORMING: frozenset({Stage.TRANSFORMING, Stage.DONE}) | _ENTRY | _ENDS,
    Stage.FLOWING: frozenset({Stage.FLOWING, Stage.ENDING}) | _ENDS,
    Stage.ENDING: frozenset({Stage.DONE}) | _ENDS,
    Stage.DONE: frozenset(),
    Stage.ERROR: frozenset(),
    Stage.CANCELLED: frozenset(),
}

# Back from an end, by a person's act: into a new round, or to where it stood.
REOPENED_STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.DONE: _ENTRY | {Stage.FLOWING},
    Stage.ERROR: frozenset(Stage) - _ENDS - {Stage.DONE},
    Stage.CANCELLED: frozenset(Stage) - _ENDS - {Stage.DONE},
}

TASKS: dict[TaskState, frozenset[TaskState]] = {
    # What followed from a failure that did not happen after all is superseded before it begins.
    TaskState.READY: frozenset({TaskState.RUNNING, TaskState.SUPERSEDED}),
    TaskState.RUNNING: frozenset({TaskState.DONE, TaskState.FAILED, TaskState.WAITING, TaskState.EXTERNAL}),
    TaskState.BLOCKED: frozenset({TaskState.WAITING}),
    TaskState.EXTERNAL: frozenset({TaskState.DONE, TaskState.FAILED, TaskState.WAITING}),
    # A success of an attempt given up for lost time may still come while nobody else is at it.
    TaskState.WAITING: frozenset({TaskState.RUNNING, TaskState.DONE}),
    # Results of steps side by side may turn out not to fit together.
    TaskState.DONE: frozenset({TaskState.SUPERSEDED, TaskState.FAILED}),
    TaskState.FAILED: frozenset({TaskState.SUPERSEDED, TaskState.WAITING, TaskState.DONE}),
    TaskState.SUPERSEDED: frozenset(),
}


def check_move(before: Position, after: Position) -> None:
    """In a round a batch only goes forward: along the table, and never back in phase or cursor."""
    if after.round == before.round + 1:
        if before.stage is not Stage.DONE or after.stage not in REOPENED_STAGES[Stage.DONE]:
            raise Bug(f"a new round begins after the end of the one before, not in {before.stage}")
        return
    if after.round != before.round:
        raise Bug(f"a batch cannot go from round {before.round} to {after.round}")
    if after.stage not in STAGES[before.stage]:
        raise Bug(f"a batch cannot go from {before.stage} to {after.stage}")
    if after.phase < before.phase:
        raise Bug(f"a batch cannot go back from phase {before.phase} to {after.phase}")
    if after.stage is before.stage and after.phase == before.phase and after.cursor <= before.cursor:
        raise Bug(f"a move must make progress: {before} to {after}")
