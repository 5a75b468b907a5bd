"""The simulator is worth something only if it sees what is broken: one protection at a time is taken away."""

import pytest

from quire.engine import handover, moves
from quire.engine.dispatcher import Dispatcher
from quire.engine.loop import EngineLoop
from quire.engine.scheduler import Scheduler
from quire.ledger.port import OutboxMessage
from quire.ledger.sqlite import batches, tasks
from quire.ledger.sqlite.rows import SQL
from tests.simulation.engine import Violation, run

SEEDS = 400

# What is taken away: (queries, words, what stands there instead).
QUERIES = {
    "settling without the fence of the attempt": (
        ("settle_task", "settle_success"),
        "AND attempt = ?",
        "AND (attempt = ? OR attempt > 0)",
    ),
    "settling what is settled": (
        ("settle_task", "settle_success"),
        (
            "AND (state = 'running' OR (state = 'external' AND ?1 <> 'external'))",
            "AND state IN ('running', 'external')",
        ),
        "",
    ),
    "moving without compare-and-swap": (
        ("move",),
        "AND stage = ?13 AND phase = ?14 AND cursor = ?15 AND round = ?16",
        "AND ?13 || ?14 || ?15 || ?16 IS NOT NULL",
    ),
    "claiming without counting": (("begin_waiting",), "attempt = attempt + 1", "attempt = attempt"),
    "forgetting when a task is due": (("set_alarm",), "min(due_at, excluded.due_at)", "9e9"),
    "counting failures twice": (("count_failures",), "+ excluded.tasks", "+ 2 * excluded.tasks"),
    "ending a phase before its last task": (
        ("end_phase_when_settled",),
        "r.done + r.failed = r.total",
        "r.done + r.failed >= r.total - 1",
    ),
}


def finds(seeds=SEEDS, rates=None):
    for seed in range(seeds):
        try:
            run(seed, rates)
        except Violation as violation:
            return str(violation)
    return None


@pytest.mark.parametrize("what", QUERIES)
def test_a_protection_in_the_ledger_is_missed(monkeypatch, what):
    names, words, instead = QUERIES[what]
    each = (words,) * len(names) if isinstance(words, str) else words
    for name, word in zip(names, each, strict=True):
        assert word in SQL[name]
        monkeypatch.setitem(SQL, name, SQL[name].replace(word, instead))
    assert finds(), what


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
    for module in (tasks, batches):
        monkeypatch.setattr(module, "is_removed", lambda *_: False)
    assert finds(400)


def test_a_list_handed_over_before_it_stands_in_the_ledger_is_missed(monkeypatch):
    async def at_once(self, batch, pipeline, _rows, *, complete):
        if not (complete and batch.hands_over_to and moves.is_last(batch, pipeline)):
            return complete, None
        return True, await handover.hand_over(
            self._batches, self._files, self._blobs, batch, pipeline, self._alive
        )

    monkeypatch.setattr(Scheduler, "_prepare_end", at_once)
    assert finds(100)


def test_a_message_for_each_round_is_missed(monkeypatch):
    async def always(batches, files, blobs, batch, pipeline, alive):
        message = await hand_over(batches, files, blobs, batch, pipeline, alive)
        return message or OutboxMessage(
            queue=batch.hands_over_to,
            message_id=f"handover-{batch.id}-{batch.position.round}",
            body=(await batches.get_start_message(batch.no)).encode(),
        )

    hand_over = handover.hand_over
    monkeypatch.setattr(handover, "hand_over", always)
    assert finds()


def test_a_first_manifest_that_is_not_kept_is_missed(monkeypatch):
    async def overwritten(blobs, key):
        await blobs.put(handover.original_key(key), await blobs.get(key))

    monkeypatch.setattr(handover, "_keep_original", overwritten)
    assert finds()
