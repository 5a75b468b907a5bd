"""The tables of what may follow what. Moves of a batch are checked against them when they are made; the
rules for tasks, and the few statements that change a state by themselves, are tested against them.

A batch:  open → queued → filling → flowing → ending → done, or open → flowing when a folder is worked on
          while it is read; and from everywhere that is not an end: error, cancelled.
          From done into a new round; from error and cancelled back to where it stood.
A task:   ready → running → done | failed | waiting | external → running …
          and superseded when a later round takes its place.

A batch that an earlier release began may stand in a former stage. No move leads into one; adoption leads out.
"""

from quire.model.batch import Position, Stage, TaskState
from quire.model.errors import Bug

_ENDS = frozenset({Stage.ERROR, Stage.CANCELLED})

STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.OPEN: frozenset({Stage.QUEUED, Stage.FLOWING}) | _ENDS,
    Stage.QUEUED: frozenset({Stage.FILLING}) | _ENDS,
    Stage.FILLING: frozenset({Stage.FLOWING}) | _ENDS,
    Stage.FLOWING: frozenset({Stage.ENDING}) | _ENDS,
    Stage.ENDING: frozenset({Stage.DONE}) | _ENDS,
    Stage.DONE: frozenset(),
    Stage.ERROR: frozenset(),
    Stage.CANCELLED: frozenset(),
}

FORMER_STAGES: dict[Stage, frozenset[Stage]] = {
    stage: frozenset({Stage.FLOWING}) | _ENDS
    for stage in (Stage.GATHERING, Stage.DISCOVERING, Stage.WORKING, Stage.TRANSFORMING)
}

# Back from an end, by a person's act: into a new round, or to where it stood.
_STOOD = (frozenset(STAGES) | frozenset(FORMER_STAGES)) - _ENDS - {Stage.DONE}
REOPENED_STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.DONE: frozenset({Stage.FLOWING}),
    Stage.ERROR: _STOOD,
    Stage.CANCELLED: _STOOD,
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
    """In a round a batch only goes forward: along the table, and never back in phase."""
    if after.round != before.round:
        raise Bug(f"a batch cannot go from round {before.round} to {after.round}")
    if after.stage not in (STAGES | FORMER_STAGES)[before.stage]:
        raise Bug(f"a batch cannot go from {before.stage} to {after.stage}")
    if after.phase < before.phase:
        raise Bug(f"a batch cannot go back from phase {before.phase} to {after.phase}")
