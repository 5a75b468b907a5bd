"""A real Ray cluster for tests, of several nodes on this machine, in a process of its own.

Promise: nobody without the token gets in; the whole process group is gone afterwards; one that does not come
up says why. Ray listens on all interfaces, hence the token. Must not know: pytest.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

OBJECT_STORE_BYTES = 80_000_000
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
COMMAND = (sys.executable, "-m", "tests.servers.ray")
_LAST_WORDS_SECONDS = 5.0


class RayCluster:
    """A head with two processors and nodes that come and go, each with the processors it is asked for."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.address = self._heard()

    def add(self, cpus: int) -> str:
        """The id of a new node, once the cluster knows it."""
        return self._asked("add", cpus)

    def kill(self, node: str) -> None:
        """As a machine dies: without a word."""
        self._asked("kill", node)

    def _asked(self, *words: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._heard()

    def _heard(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # Ray may print as well
            if line.startswith("="):
                return line[1:].strip()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may still be speaking
            self._process.wait(timeout=_LAST_WORDS_SECONDS)
        tail = self._log.read_bytes().decode(errors="replace")[-2000:]
        code = self._process.poll()
        raise RuntimeError(f"the Ray cluster did not come up, or is gone (exit code {code}):\n{tail}")


@contextlib.contextmanager
def ray_cluster(command: Sequence[str] = COMMAND) -> Iterator[RayCluster]:
    """Whoever connects needs ENVIRONMENT before it imports Ray. Raises RuntimeError with its last words when
    it does not come up. `command` gets the cluster's folder as its last word.
    """
    # Short, as its sockets lie in it.
    folder = tempfile.TemporaryDirectory(prefix="q-", dir="/tmp", ignore_cleanup_errors=True)
    # Wherever the cluster lies, Ray writes its address below RAY_TMPDIR, in a folder that it does not make.
    Path(folder.name, "ray").mkdir()
    log = Path(folder.name, "output.log")
    with log.open("wb") as words:
        process = subprocess.Popen(
            [*command, folder.name],
            env={**os.environ, **ENVIRONMENT, "RAY_TMPDIR": folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            start_new_session=True,  # so that whatever it starts can be ended with it
        )
    try:
        yield RayCluster(process, log)
    finally:
        _end(process)
        folder.cleanup()


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _serve(folder: str) -> None:
    from ray.cluster_utils import Cluster

    def tell(text: str) -> None:
        sys.stdout.write(f"={text}\n")
        sys.stdout.flush()

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 2,
            "temp_dir": folder,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        },
    )
    nodes = {}
    tell(cluster.address)
    for line in sys.stdin:
        word, what = json.loads(line)
        if word == "add":
            node = cluster.add_node(num_cpus=what, object_store_memory=OBJECT_STORE_BYTES)
            nodes[node.node_id] = node
            tell(node.node_id)
        else:
            cluster.remove_node(nodes.pop(what), allow_graceful=False)
            tell("gone")
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    _serve(sys.argv[1])
