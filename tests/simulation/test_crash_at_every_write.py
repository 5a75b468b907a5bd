"""A crash before and after every single write of a house, then a successor: nothing shows.

Real SQLite, small portions so that every loop goes round. Each case is deterministic: its number is the seed.
"""

from functools import partial
from itertools import pairwise
from random import Random

import pytest
from msgspec import structs

from quire.model.batch import Stage
from tests.simulation.engine import checks
from tests.simulation.engine.scene import Simulation
from tests.simulation.engine.seeds import small_portions, undisturbed
from tests.simulation.engine.worlds import NEXT, made_world
from tests.simulation.shared.chaos import Rates
from tests.simulation.shared.crashes import CrashAt

# One batch each: files with a whole batch between them, directories with ranks, a little of everything.
# All of them are handed over at their end.
WORLDS = [
    structs.replace(one, batches=tuple(structs.replace(batch, hands_over_to=NEXT) for batch in one.batches))
    for one in map(made_world, (27, 41, 42))
]
MANY = 10**9


def lived(world, number, *, after, every=False):
    """The world's end after its crashes."""
    with small_portions(Random(1)):
        chaos = partial(CrashAt, number=number, after=after, every=every)
        simulation = Simulation(world, Random(1), Rates(), chaos=chaos)
        try:
            simulation.rest()
            simulation.check()
            ends = {batch.id: checks.picture(simulation.database, batch) for batch in simulation.batches()}
            return ends, simulation.chaos, len(simulation.steps.ran)
        finally:
            simulation.close()


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, id=f"world {one.seed}", marks=pytest.mark.slow) for one in WORLDS[:2]]
    + WORLDS[2:],
)
def world(request):
    return request.param


def test_a_crash_at_any_write_changes_nothing_in_the_end(world):
    expected = undisturbed(world)
    ends, counted, ran = lived(world, MANY, after=False)
    assert ends == expected
    for number in range(1, counted.writes + 1):
        for after in (False, True):
            ends, chaos, ran_now = lived(world, number, after=after)
            assert ends == expected, f"a crash {'after' if after else 'before'} write {number} shows"
            assert chaos.crashes == 1 or number > counted.writes - 10  # the world may be at rest by then
            # At most what was out at the crash ran twice.
            assert ran_now <= ran + 6


# With fewer writes than a life needs to get anywhere there is no progress to be had.
@pytest.mark.parametrize("every", [9, 11, 17])
def test_a_house_that_crashes_all_the_time_still_gets_there(world, every):
    ends, chaos, _ = lived(world, every, after=True, every=True)
    assert ends == undisturbed(world)
    assert chaos.crashes > 3


def _broken(*_):
    raise ZeroDivisionError("rules")


@pytest.mark.parametrize("rule", ["finds", "becomes", "rivals"])
def test_a_pipeline_whose_rules_fail_is_retried_and_then_ends_its_batch_with_the_reason(rule):
    spec = WORLDS[0].batches[0]
    phase = structs.replace(spec.pipeline.phases[0], **{rule: _broken})
    pipeline = structs.replace(spec.pipeline, phases=(phase,))
    world = structs.replace(WORLDS[0], trouble=0.0, batches=(structs.replace(spec, pipeline=pipeline),))
    simulation = Simulation(world, Random(1), Rates())
    simulation.rest()
    (batch,) = simulation.batches()
    assert batch.position.stage is Stage.ERROR
    assert phase.name in batch.error
    assert "ZeroDivisionError" in batch.error
    moments = [row[0] for row in simulation.database.rows("SELECT at FROM events WHERE type = 'phase_retry'")]
    moments.append(batch.completed_at)
    waits = [later - before for before, later in pairwise(moments)]
    assert [round(wait) for wait in waits] == pytest.approx([2, 4, 8, 16, 30], abs=2)
    simulation.close()
