"""A whole house in one thread, in simulated time, with everything that can go wrong: decided by one seed.

The real engine on the real SQLite ledger and queues; processes, clocks, compute and blobs are simulated.
"""

from tests.simulation.engine.scene import Simulation
from tests.simulation.engine.seeds import Ran, run
from tests.simulation.shared.scene import Violation

__all__ = ["Ran", "Simulation", "Violation", "run"]
