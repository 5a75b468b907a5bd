"""The simulator is worth something only if it sees what is broken: one protection at a time is taken away."""

import pytest
from msgspec import structs

from quire.engine import flow, flow_moves
from quire.engine.deadlines import Deadlines
from quire.engine.dispatcher import Dispatcher
from quire.engine.flow_moves import FlowMoves
from quire.engine.loop import EngineLoop
from quire.engine.names import Naming
from quire.ledger import flow_progress
from quire.ledger.flow_rows import EffectRows
from quire.ledger.sqlite import batches, flow_claims, flow_settlement
from quire.ledger.sqlite.rows import SQL
from tests.simulation.flow.seeds import Violation, run
from tests.simulation.shared.chaos import Rates

SEEDS = 300

# What is taken away: (queries, words, what stands there instead).
QUERIES = {
    "dropping the counter of open tasks": (
        ("flow_count_open",),
        "open_tasks = open_tasks + ?",
        "open_tasks = max(1, open_tasks + ?)",
    ),
    "settling without the fence of the attempt": (
        ("settle_task", "settle_success"),
        "AND attempt = ?",
        "AND (attempt = ? OR attempt > 0)",
    ),
    "settling what is settled": (
        ("settle_task",),
        "AND (state = 'running' OR (state = 'external' AND ?1 <> 'external'))",
        "",
    ),
    "forgetting a branch at the join": (("flow_settle_join",), "left = left - 1", "left = left"),
    "applying a join before its last branch": (
        ("flow_complete_joins", "flow_resolve_join", "flow_progress"),
        "left <= 0",
        "left <= 1",
    ),
    "applying a join twice": (("flow_resolve_join",), "SET resolved = 1", "SET resolved = 0"),
    "folders that do not wait for those below": (("flow_release_unblocked",), "AND waits_for <= 0", ""),
    "folders that are never let go": (
        ("flow_release_unblocked",),
        "SET state = 'waiting'",
        "SET state = 'blocked'",
    ),
    "claiming without counting": (("begin_waiting",), "attempt = attempt + 1", "attempt = attempt"),
    "forgetting when a task is due": (("set_alarm",), "min(due_at, excluded.due_at)", "9e9"),
    "counting failures twice": (("count_failures",), "+ excluded.tasks", "+ 2 * excluded.tasks"),
    "telling the failure that came first in time": (
        ("flow_fail_root", "flow_fail_members"),
        "coalesce(failed_at, '') > ?5",
        "0",
    ),
    "a file list that ignores the listing": (("flow_listed_inputs",), "f.role <> 'unit'", "f.role = ''"),
    "members that are gone": (("flow_seen_by",), "AND (gone IS NULL OR gone >= ?3)", ""),
    "values of what a document was made of, whenever": (
        ("flow_values_of",),
        "min(line.before, f.born + 1)",
        "line.before",
    ),
    "a new round that withdraws nothing": (("flow_made_since",), "f.born >= ?3", "f.born > 1000 + ?3"),
    "a new round that leaves folders": (("flow_units_from",), "born >= ?", "born >= 1000 + ?"),
    "changing a file's tags": (("flow_leave_list",), "SET gone = ?", "SET tags = '[]', gone = ?"),
    "members that take batches of other rules": (
        ("flow_workable",),
        "IN ('', (SELECT plan_digest FROM batches WHERE no = b.no))",
        "IS NOT NULL",
    ),
}


def finds(chosen=None):
    for seed in range(SEEDS):
        try:
            run(seed, chosen)
        except Violation as violation:
            return str(violation)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("what", QUERIES)
def test_a_protection_in_the_ledger_is_missed(monkeypatch, what):
    names, words, instead = QUERIES[what]
    for name in names:
        assert words in SQL[name], name
        monkeypatch.setitem(SQL, name, SQL[name].replace(words, instead))
    assert finds(), what


def test_files_that_two_schedulers_bring_are_missed(monkeypatch):
    expects = "AND cursor = ?7 AND admitted = ?8"
    assert expects in SQL["flow_admit"]
    monkeypatch.setitem(SQL, "flow_admit", SQL["flow_admit"].replace(expects, "AND ?7 >= 0 AND ?8 >= 0"))
    assert finds(Rates(meets=0.8))


def test_a_batch_that_ends_too_early_is_missed(monkeypatch):
    monkeypatch.setattr(
        flow_settlement, "find_progress", lambda counters: flow_progress.find_progress(_one_less(counters))
    )
    assert finds()


def _one_less(counters):
    return structs.replace(counters, open_tasks=max(0, counters.open_tasks - 1))


def test_a_follower_that_is_lost_is_missed(monkeypatch):
    follow = EffectRows.follow

    def lose(self, follower, file_no):
        if file_no % 5:
            follow(self, follower, file_no)

    monkeypatch.setattr(EffectRows, "follow", lose)
    assert finds()


def test_a_document_that_skips_a_phase_is_missed(monkeypatch):
    find_next = flow.find_next
    monkeypatch.setattr(
        flow, "find_next", lambda plan, file, after: find_next(plan, file, after + (after > 1))
    )
    assert finds()


def test_results_in_the_order_in_which_branches_ended_are_missed(monkeypatch):
    plan_effects = flow_moves.plan_effects

    def turned(plan, settled, listed):
        return plan_effects(plan, structs.replace(settled, branches=settled.branches[::-1]), listed)

    monkeypatch.setattr(flow_moves, "plan_effects", turned)
    assert finds()


def test_names_that_do_not_step_aside_are_missed(monkeypatch):
    monkeypatch.setattr(Naming, "_is_free_preferred", lambda *_: True)
    assert finds()


def test_members_in_the_order_of_their_numbers_are_missed(monkeypatch):
    def by_number(members, **_):
        return sorted(members, key=lambda one: getattr(one, "no", one))

    monkeypatch.setattr(flow_moves, "sorted", by_number, raising=False)
    assert finds()


def test_answers_that_nobody_gives_up_on_are_missed(monkeypatch):
    async def never(*_):
        return 0

    monkeypatch.setattr(Deadlines, "settle_overdue", never)
    assert finds()


def test_joins_that_nobody_applies_are_missed(monkeypatch):
    async def never(*_):
        return False

    monkeypatch.setattr(FlowMoves, "_resolve_joins", never)
    assert finds()


def test_claims_whose_answer_was_lost_are_missed(monkeypatch):
    async def nothing(self, _member):
        self._may_have_lost_claims = False

    monkeypatch.setattr(Dispatcher, "_recover", nothing)
    assert finds()


def test_attempts_of_the_dead_are_missed(monkeypatch):
    async def remove(self):
        for member in await self._membership.list_dead():
            await self._membership.remove(member)

    monkeypatch.setattr(EngineLoop, "_remove_dead_members", remove)
    monkeypatch.setitem(SQL, "dismiss", "DELETE FROM crew WHERE no = ?")
    assert finds()


def test_work_of_those_taken_for_dead_is_missed(monkeypatch):
    for module in (batches, flow_claims):
        monkeypatch.setattr(module, "is_removed", lambda *_: False)
    assert finds()
