"""Batches that an earlier release began, and whose members have died: this engine takes them over."""

import pytest
from tests.suites.former_rows import FILES, PATHS, STATES, TO_FLOWING, written

from quire.engine.states import FORMER_STAGES
from quire.model.batch import FileOutcome, Stage

ID = "01B"
TURNS = 60


async def begun_before(small, stage):
    """A member of an earlier release is gone, and the attempts that it ran are as it left them."""
    member = await small.ledger.add_member("old", "run", "here", now=1.0)

    async def execute(statement):
        await small.database.write(lambda connection: connection.execute(statement))

    await execute("UPDATE crew SET format = NULL")
    return await written(small.ledger, execute, stage, member=member.no)


@pytest.mark.parametrize("stage", list(FORMER_STAGES))
async def test_a_batch_of_dead_members_goes_on_where_it_stood(small, stage):
    await begun_before(small, stage)
    loop = small.loop(TO_FLOWING, name="new")
    loop._membership._is_gone = lambda member: member.name == "old"
    await loop._begin()
    assert [member.name for member in await small.ledger.list_members()] == ["new"]
    for _ in range(TURNS):
        await loop._turn_or_rest(None)
    batch = await small.ledger.get_batch(ID)
    assert (batch.position.stage, batch.error) == (Stage.DONE, None)
    bad = {no for no, state in STATES[stage].items() if state == "failed"}
    assert {one.path: one.outcome for one in await small.ledger.list_inputs(batch.no, limit=99)} == {
        path: FileOutcome.FAILED if no in bad else FileOutcome.DONE for no, path in enumerate(PATHS, start=1)
    }
    # What had an end in its phase was not done again, and every file has been through the last one.
    settled = {no for no, state in STATES[stage].items() if state in {"done", "failed"}}
    seen = [order.file.path for order in small.compute.seen]
    again = [path for no, path in enumerate(PATHS, start=1) if no not in settled]
    made = ["d/f1.page"] if stage is Stage.TRANSFORMING else []
    assert sorted(seen) == sorted([*again, *PATHS, *made])


async def test_an_attempt_of_a_dead_member_is_told_as_interrupted(small):
    batch = await begun_before(small, Stage.WORKING)
    loop = small.loop(TO_FLOWING, name="new")
    loop._membership._is_gone = lambda member: member.name == "old"
    await loop._begin()
    for _ in range(TURNS):
        await loop._turn_or_rest(None)
    _, attempts = await small.ledger.get_file_history(batch.no, PATHS[FILES - 1])
    told = [(one.phase, one.attempt, one.outcome) for one in attempts]
    assert told == [("ONE", 1, "done"), ("TWO", 1, "interrupted"), ("TWO", 2, "done"), ("THREE", 1, "done")]


async def test_a_member_of_an_earlier_release_that_lives_is_left_to_work(small):
    batch = await begun_before(small, Stage.WORKING)
    loop = small.loop(TO_FLOWING, name="new")
    loop._membership._is_gone = lambda _: False
    await loop._begin()
    for _ in range(5):
        await loop._turn_or_rest(None)
    assert (await small.ledger.get_batch(batch.id)).position == batch.position
    assert small.compute.seen == []
