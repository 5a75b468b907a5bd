"""A world of pipelines that go from phase to phase."""

from tests.simulation.engine import checks
from tests.simulation.engine.client import client
from tests.simulation.engine.steps import Steps
from tests.simulation.shared import scene


class Simulation(scene.Simulation):
    make_steps = Steps
    make_client = staticmethod(client)
    find_problems = staticmethod(checks.problems)
