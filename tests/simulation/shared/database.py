"""SQLite without threads: the interface of `SqliteDatabase`, each write one real transaction, at once.

Nothing in it awaits, so a write is atomic for the simulator as it is for SQLite. Guards inside the database
watch every change of state; what they see that must not be is collected, not raised, so that the code under
test cannot swallow it.
"""

import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from quire.database.sql import load_migrations
from quire.database.sqlite import split_statements
from quire.engine.states import REOPENED_STAGES, STAGES, TASKS

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class SimDatabase:
    path = Path("simulated")

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        self.connection.deserialize(_prepared())
        self.connection.execute("PRAGMA synchronous=OFF")

    async def open(self) -> None:
        """It is."""

    async def close(self) -> None:
        self.connection.close()

    async def write(self, work: Work[T]) -> T:
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        execute("SAVEPOINT job")
        try:
            answer = work(self.connection)
        except BaseException:
            execute("ROLLBACK")
            raise
        execute("RELEASE job")
        execute("COMMIT")
        return answer

    async def read(self, work: Work[T]) -> T:
        return work(self.connection)

    async def migrate(self, room: str, scripts: list[tuple[int, str, str]]) -> None:
        """The tables are there."""

    def violations(self) -> list[str]:
        return [row[0] for row in self.connection.execute("SELECT what FROM sim_violations LIMIT 20")]

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, values).fetchall()


@cache
def _prepared() -> bytes:
    """An empty database with all tables and guards, made once."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for package in ("quire.ledger.sqlite.sql", "quire.queues.sqlite.sql"):
        for _, _, script in load_migrations(package):
            for statement in split_statements(script):
                connection.execute(statement)
    for statement in _guards():
        connection.execute(statement)
    data = connection.serialize()
    connection.close()
    return data


def _guards() -> list[str]:
    stages = {(one.value, after.value) for one, following in STAGES.items() for after in following}
    stages |= {(one.value, after.value) for one, following in REOPENED_STAGES.items() for after in following}
    tasks = {(one.value, after.value) for one, following in TASKS.items() for after in following}
    return [
        "CREATE TABLE sim_violations (what TEXT)",
        "CREATE TABLE sim_done (batch_no, task_no, attempt, PRIMARY KEY (batch_no, task_no))",
        _guard("batches", "stage", "OLD.stage <> NEW.stage AND " + _not_in("stage", stages), "OLD.id"),
        _guard(
            "batches",
            "round, phase",
            "NEW.round NOT IN (OLD.round, OLD.round + 1) OR NEW.round = OLD.round AND NEW.phase < OLD.phase",
            "OLD.id || ' goes back'",
        ),
        _guard("tasks", "state", "OLD.state <> NEW.state AND " + _not_in("state", tasks), _TASK),
        _guard("tasks", "attempt", "abs(NEW.attempt - OLD.attempt) > 1", _TASK + " || ' skips an attempt'"),
        _guard(
            "tasks",
            "attempt, state",
            "NEW.attempt > OLD.attempt AND NOT (NEW.state = 'running' AND OLD.state IN ('ready', 'waiting'))",
            _TASK + " || ' begins an attempt while another is out'",
        ),
        _guard(
            "tasks",
            "member, started_at",
            "OLD.state = 'running' AND NEW.state = 'running' AND OLD.member IS NOT NEW.member",
            _TASK + " || ' is taken from a member that has it'",
        ),
        _guard(
            "tasks",
            "result",
            "OLD.state = 'done' AND OLD.result IS NOT NEW.result",
            _TASK + " || ': the result of a finished task was changed'",
        ),
        """CREATE TRIGGER sim_done_twice AFTER UPDATE OF state ON tasks
           WHEN NEW.state = 'done' AND OLD.state <> 'done'
           BEGIN
             INSERT INTO sim_violations SELECT 'task ' || NEW.task_no || ' is done twice' FROM sim_done
             WHERE batch_no = NEW.batch_no AND task_no = NEW.task_no;
             INSERT OR REPLACE INTO sim_done VALUES (NEW.batch_no, NEW.task_no, NEW.attempt);
           END""",
        _guard(
            "tasks",
            "state, error_class",
            "OLD.state = 'done' AND NEW.state = 'failed' "
            "AND NEW.error_class NOT IN ('name_twice', 'two_replacements')",
            _TASK + " || ' fails though it was done'",
        ),
        _guard(
            "files",
            "path, key, tags, name, digest, born, listed, role, root_no, parent_no, lineage",
            "(OLD.role <> 'unit' OR OLD.key <> '' AND OLD.key <> NEW.key) "
            "AND (SELECT stage FROM batches WHERE no = OLD.batch_no) IN ('flowing', 'ending')",
            "'file ' || OLD.batch_no || '/' || OLD.file_no || ' is not what it was'",
        ),
        """CREATE TRIGGER sim_not_done AFTER UPDATE OF state ON tasks
           WHEN OLD.state = 'done' AND NEW.state = 'failed'
           BEGIN DELETE FROM sim_done WHERE batch_no = NEW.batch_no AND task_no = NEW.task_no; END""",
        """CREATE TRIGGER sim_event AFTER INSERT ON events
           WHEN NEW.type IN ('batch_done', 'phase_started', 'batch_started')
           BEGIN
             INSERT INTO sim_violations
             SELECT 'batch ' || NEW.batch_no || ': ' || NEW.type || ' ' || NEW.data || ' twice' FROM events e
             WHERE e.batch_no = NEW.batch_no AND e.type = NEW.type AND e.data = NEW.data AND e.no <> NEW.no;
           END""",
    ]


_TASK = "'task ' || OLD.batch_no || '/' || OLD.task_no"
_names = iter(range(10**6))


def _not_in(column: str, allowed: set[tuple[str, str]]) -> str:
    pairs = ", ".join(f"('{before}', '{after}')" for before, after in sorted(allowed))
    return f"(OLD.{column}, NEW.{column}) NOT IN (VALUES {pairs})"


def _guard(table: str, columns: str, wrong: str, what: str) -> str:
    """A trigger that notes a change that must not be."""
    before, after = (
        " || '/' || ".join(f"coalesce({row}.{column}, '-')" for column in columns.split(", "))
        for row in ("OLD", "NEW")
    )
    return f"""CREATE TRIGGER sim_guard_{next(_names)} AFTER UPDATE OF {columns} ON {table} WHEN {wrong}
               BEGIN INSERT INTO sim_violations
               VALUES ({what} || ' ({columns}: ' || {before} || ' to ' || {after} || ')'); END"""  # noqa: S608 - all of it is ours
