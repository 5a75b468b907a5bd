"""Many seeds, one after the other, until one breaks a promise or differs from the model.

python -m tests.simulation.flow --seeds 100000
"""

import sys

from tests.simulation.flow.seeds import run
from tests.simulation.shared.many_seeds import run_seeds

if __name__ == "__main__":
    sys.exit(run_seeds(run, "tests.simulation.flow", "tests/simulation/flow/test_seeds.py", __doc__))
