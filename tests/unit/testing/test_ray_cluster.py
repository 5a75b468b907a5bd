"""A cluster that does not come up says why; none of this needs Ray."""

import sys
from pathlib import Path

import pytest
from tests.servers.ray import ray_cluster

# In place of the cluster: one that fails, and one that comes up and fails when it is asked for a node.
FAILING = """
import os, sys
print("not an answer", flush=True)
print("x" * 5000, file=sys.stderr)
sys.exit(f"no room for a cluster in {sys.argv[1]}, {os.environ['RAY_TMPDIR']}")
"""
ANSWERING = """
import os, sys
from pathlib import Path
Path(os.environ["RAY_TMPDIR"], "ray", "ray_current_cluster").write_text("127.0.0.1:1")
print("=127.0.0.1:1", flush=True)
sys.stdin.readline()
sys.exit("a node could not be added")
"""


def test_a_cluster_that_does_not_come_up_says_why():
    with (
        pytest.raises(RuntimeError, match="exit code 1") as failed,
        ray_cluster((sys.executable, "-c", FAILING)),
    ):
        pytest.fail("it is not up")
    *_, words = str(failed.value).splitlines()
    folder = words.rpartition(" ")[2]
    assert words == f"no room for a cluster in {folder}, {folder}"
    assert len(str(failed.value)) < 2200, "the tail of its output, no more"
    assert not Path(folder).exists()


def test_a_cluster_that_ends_later_says_why():
    with (
        ray_cluster((sys.executable, "-c", ANSWERING)) as cluster,
        pytest.raises(RuntimeError, match="a node could not be added"),
    ):
        cluster.add(1)


def test_the_address_is_written_on_a_machine_that_never_ran_ray():
    with ray_cluster((sys.executable, "-c", ANSWERING)) as cluster:
        assert cluster.address == "127.0.0.1:1"
