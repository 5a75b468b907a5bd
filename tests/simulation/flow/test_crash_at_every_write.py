"""A process dies at each write of a batch that flows, before it happens or after it is durable: it ends
as in the model all the same.
"""

from functools import partial
from random import Random

import pytest
from msgspec import structs

from quire.model.plan import PlanUnit
from tests.simulation.flow.scene import FlowSimulation
from tests.simulation.flow.seeds import small_portions
from tests.simulation.flow.worlds import made_world
from tests.simulation.shared.chaos import Rates
from tests.simulation.shared.crashes import CrashAt
from tests.simulation.shared.follower import NEXT

MANY = 10**9
FEW = 120  # tasks and writes of worlds that are run again and again


def lived(world, number, *, after, every=False):
    """The chaos of a world that has come to rest as it must."""
    with small_portions(Random(1)):
        chaos = partial(CrashAt, number=number, after=after, every=every)
        simulation = FlowSimulation(world, Random(1), Rates(), chaos=chaos)
        try:
            simulation.rest()
            simulation.check()
            assert simulation.compare() == len(world.batches)
            return simulation.chaos
        finally:
            simulation.close()


def chosen_worlds():
    """One world with steps side by side and folders, one with files alone; each is handed over at its end."""
    wanted = [{PlanUnit.FILE}, {PlanUnit.FILE, PlanUnit.FOLDER}]
    for seed in range(500):
        world = made_world(seed)
        phases = [phase for spec in world.batches for phase in spec.pipeline.phases]
        units = {phase.unit for phase in phases}
        if len(world.batches) > 1 or units not in wanted or max(len(phase.steps) for phase in phases) < 2:
            continue
        batches = tuple(structs.replace(spec, hands_over_to=NEXT) for spec in world.batches)
        world = structs.replace(world, batches=batches)
        if len(batches[0].ending().tasks) > 8 and lived(world, MANY, after=False).writes < FEW:
            wanted.remove(units)
            yield world
        if not wanted:
            return


@pytest.mark.slow
def test_a_crash_at_any_write_changes_nothing_in_the_end():
    for world in chosen_worlds():
        for number in range(1, lived(world, MANY, after=False).writes + 1):
            for after in (False, True):
                lived(world, number, after=after)


# With fewer writes than a life needs to get anywhere there is no progress to be had.
@pytest.mark.slow
@pytest.mark.parametrize("every", [17, 21])
def test_a_process_that_crashes_all_the_time_still_gets_there(every):
    for world in chosen_worlds():
        assert lived(world, every, after=True, every=True).crashes > 2
