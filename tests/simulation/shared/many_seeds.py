"""The command that runs many seeds of a simulation."""

import argparse
import time
from collections.abc import Callable

from tests.simulation.shared.scene import Violation

TELL_EVERY = 100


def run_seeds(run: Callable[[int], object], program: str, test: str, about: str | None) -> int:
    """The exit code: 1 when a seed has failed. `test` is the file that replays a seed."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
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
            print(f"{violation}\nagain: QUIRE_SIM_SEED={seed} pytest {test}", flush=True)  # noqa: T201
            if not wanted.go_on:
                return 1
        done = seed + 1 - wanted.first
        if done % TELL_EVERY == 0 or done == wanted.seeds:
            seconds = time.monotonic() - began
            print(f"{done} seeds, {seconds:.0f} s, failed: {failed}", flush=True)  # noqa: T201
    return 1 if failed else 0
