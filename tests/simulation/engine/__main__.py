"""Many seeds, one after the other, until one breaks a promise.

python -m tests.simulation.engine --seeds 100000
"""

import sys

from tests.simulation.engine.seeds import run
from tests.simulation.shared.many_seeds import run_seeds

if __name__ == "__main__":
    sys.exit(run_seeds(run, "tests.simulation.engine", "tests/simulation/test_seeds.py", __doc__))
