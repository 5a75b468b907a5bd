"""Ray compute from settings, and how a worker is started on a machine of the cluster.

`NodeWorkerSetup` runs on those machines: it must not rely on anything that only this machine has.
"""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from quire.assembly.presence import join_home
from quire.compute.ray.compute import RayCompute, RayOptions
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.settings import Settings, cores, worker_environment
from quire.system import SystemIds
from quire.tools.vips import WORKER_ENVIRONMENT

_START = "import sys; from quire.assembly.worker import worker_main; worker_main(*sys.argv[1:])"


def start_ray_compute(
    settings: Settings,
    configuration: bytes,
    scratch: Path,
    resources: Mapping[str, int] | None = None,
    *,
    clock: Clock,
    signal: Signal,
) -> RayCompute:
    """Start it. `scratch` is a folder of this run beside the blobs, when these are in a folder; `resources`
    are limits.
    """
    chosen = settings.ray
    compute = RayCompute(
        options=RayOptions(
            address=chosen.address,
            workers=chosen.workers,
            cpus=chosen.cpus,
            memory_mb=chosen.memory_mb,
            max_out=chosen.max_out,
            price_per_second=chosen.price_per_second,
        ),
        set_up=partial(NodeWorkerSetup, str(scratch) if settings.store == "local" else ""),
        configuration=configuration,
        local_cpus=cores(),
        clock=clock,
        signal=signal,
        resources=resources,
    )
    compute.start()
    return compute


class NodeWorkerSetup:
    """The setup of workers on one machine. `shared` is a folder of the run that every machine must see, as
    the blobs are beside it; empty when the blobs are on a server: then the machine has a folder of its own.
    """

    def __init__(self, shared: str) -> None:
        self._stack = ExitStack()
        self.name = f"ray-{socket.gethostname()}"
        scratch = _check_shared(shared) if shared else self._make_folder()
        self.command: Sequence[str] = (sys.executable, "-c", _START, self.name, scratch)
        self.environment: Mapping[str, str] = worker_environment() | WORKER_ENVIRONMENT

    def close(self) -> None:
        self._stack.close()

    def _make_folder(self) -> str:
        """A folder of this machine. The next worker on it removes what killed workers left behind."""
        home = Path(tempfile.gettempdir(), f"quire-ray-{os.getuid()}")
        presence = self._stack.enter_context(join_home(home, SystemIds().ulid()))
        found = home.lstat()
        # The name can be guessed, and the folder will hold other people's documents.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise Misconfigured(
                f"the folder {home} on {socket.gethostname()} is accessible to other users; remove it"
            )
        return str(presence.scratch)


def _check_shared(shared: str) -> str:
    # Its name is unique: a machine that sees it sees the same file system.
    if not Path(shared).is_dir():
        raise Misconfigured(
            f"the machine {socket.gethostname()} of the Ray cluster does not see the folder {shared}, so it "
            'could not store results; set store to "s3", or put the home folder on a file system that all '
            "machines of the cluster share"
        )
    return shared
