"""A whole house in one thread, in simulated time, with everything that can go wrong: decided by one seed.

The real engine on the real SQLite ledger and queues; processes, clocks, compute and the blob store are simulated.
"""

from quire.testing.simulation.seeds import Ran, Simulation, Violation, run

__all__ = ["Ran", "Simulation", "Violation", "run"]
