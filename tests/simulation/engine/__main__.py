"""Many seeds, one after the other, until one breaks a promise.

python -m tests.simulation.engine --seeds 100000
"""

import argparse
import sys
import time

from tests.simulation.engine.seeds import Violation, run

TELL_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.engine", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first that fails")
    wanted = parser.parse_args()
    began = time.monotonic()
    failed: list[int] = []
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        try:
            run(seed)
        except Violation as violation:
            failed.append(seed)
            again = f"QUIRE_SIM_SEED={seed} pytest tests/simulation/test_seeds.py"
            print(f"{violation}\nagain: {again}", flush=True)  # noqa: T201
            if not wanted.go_on:
                return 1
        done = seed + 1 - wanted.first
        if done % TELL_EVERY == 0 or done == wanted.seeds:
            seconds = time.monotonic() - began
            print(f"{done} seeds, {seconds:.0f} s, failed: {failed}", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
