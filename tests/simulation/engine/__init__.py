"""A whole house in one thread, in simulated time, with everything that can go wrong: decided by one seed.

The real engine on the real SQLite ledger and queues; processes, clocks, compute and blobs are simulated.
"""

from tests.simulation.engine.scene import Simulation, Violation
from tests.simulation.engine.seeds import Ran, run

__all__ = ["Ran", "Simulation", "Violation", "run"]
