"""What holds at any moment, after every write, whatever goes on."""

from collections.abc import Callable
from typing import Any

from tests.simulation.flow.worlds import FlowWorld
from tests.simulation.shared.database import SimDatabase

Found = list[str]

# Tasks and joins that are not settled, beside what is counted as open.
_OPEN = """
SELECT b.no, b.open_tasks,
       (SELECT count(*) FROM tasks t
        WHERE t.batch_no = b.no AND t.state IN ('ready', 'running', 'waiting', 'blocked', 'external'))
       + (SELECT count(*) FROM joins j WHERE j.batch_no = b.no AND j.resolved = 0) AS there
FROM batches b WHERE b.stage IN ('flowing', 'ending', 'done') AND b.open_tasks <> there
"""

# Branches that are not settled, beside what a join waits for.
_JOINS = """
SELECT j.batch_no, j.phase, j.file_no, j.left,
       (SELECT count(*) FROM tasks t
        WHERE t.batch_no = j.batch_no AND t.file_no = j.file_no AND t.phase = j.phase
          AND t.state IN ('ready', 'running', 'waiting', 'blocked', 'external')) AS there
FROM joins j WHERE j.left <> there
"""

# The intake while it is open, and a phase whose units are being made.
_SOURCES = """
SELECT b.no, b.sources,
       (b.stage = 'flowing' AND b.round = 1 AND b.gathers = 0 AND b.admitted < b.total_files)
       + (b.gathers > 0) AS there
FROM batches b WHERE b.stage IN ('flowing', 'ending', 'done') AND b.sources <> there
"""

# What the rows say, beside what is shown of each phase.
_PHASES = """
SELECT r.batch_no, r.phase, r.total, r.done, r.failed FROM rounds r JOIN batches b ON b.no = r.batch_no
WHERE b.stage IN ('flowing', 'ending', 'done') AND (r.total, r.done, r.failed) <> (
  SELECT coalesce(sum(t.state <> 'superseded'), 0), coalesce(sum(t.state = 'done'), 0),
         coalesce(sum(t.state = 'failed'), 0)
  FROM tasks t WHERE t.batch_no = r.batch_no AND t.phase = r.phase)
"""

# Folders that wait for others, beside those right below that are not settled.
_BLOCKED = """
SELECT t.batch_no, t.task_no, t.waits_for, (
  SELECT count(*) FROM tasks c WHERE c.batch_no = t.batch_no AND c.blocks = t.task_no
  AND c.state IN ('ready', 'running', 'waiting', 'blocked', 'external')) AS there
FROM tasks t JOIN batches b ON b.no = t.batch_no
WHERE t.state = 'blocked' AND b.gathers = 0 AND t.waits_for <> there
"""

# An input is done when none of its documents has anything to do.
_DONE_INPUTS = """
SELECT f.batch_no, f.path FROM files f WHERE f.born = 0 AND f.outcome = 'done' AND EXISTS (
  SELECT 1 FROM files d JOIN tasks t ON t.batch_no = d.batch_no AND t.file_no = d.file_no
  WHERE d.batch_no = f.batch_no AND d.root_no = f.file_no AND d.role <> 'unit'
    AND t.state IN ('ready', 'running', 'waiting', 'external'))
"""

# An ended batch has ended; one that may end does not stay.
_ENDED = """
SELECT b.no, b.stage FROM batches b
WHERE b.stage IN ('ending', 'done') AND (b.open_tasks <> 0 OR b.sources <> 0 OR b.waits_at IS NOT NULL)
   OR b.stage = 'flowing' AND b.open_tasks = 0 AND b.sources = 0 AND b.waits_at IS NULL
"""

QUESTIONS: dict[str, Callable[..., str]] = {
    _OPEN: lambda no, kept, there: (
        f"batch {no}: {kept} tasks and joins are counted as open, there are {there}"
    ),
    _JOINS: lambda no, phase, file, left, there: (
        f"batch {no}: the join of file {file} in phase {phase} waits for {left}, not {there}"
    ),
    _SOURCES: lambda no, kept, there: f"batch {no}: {kept} sources are counted, there are {there}",
    _PHASES: lambda no, phase, *kept: f"batch {no}: phase {phase} is counted as {kept}",
    _BLOCKED: lambda no, task, left, there: (
        f"batch {no}: the folder of task {task} waits for {left}, not {there}"
    ),
    _DONE_INPUTS: lambda no, path: f"batch {no}: {path} is told as done, and something of it is under way",
    _ENDED: lambda no, stage: f"batch {no} is {stage}",
}


def broken_invariants(database: SimDatabase, world: FlowWorld) -> Found:
    found = [tell(*row) for question, tell in QUESTIONS.items() for row in database.rows(question)]
    return found + _too_many_tries(database, world)


def _too_many_tries(database: SimDatabase, world: FlowWorld) -> Found:
    """No task has failed more often than its step may."""
    plans: dict[str, Any] = world.pipelines
    return [
        f"task {task_no} failed {failures} times"
        for name, task_no, phase, branch, failures in database.rows(
            "SELECT b.pipeline, t.task_no, t.phase, t.branch, t.failures FROM tasks t "
            "JOIN batches b ON b.no = t.batch_no WHERE t.failures > 1"
        )
        if failures > plans[name].phases[phase - 1].steps[branch].max_attempts
    ]
