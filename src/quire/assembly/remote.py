"""Remote computes from settings: processes of this machine, and machines of a provider.

For `quire serve` only: their workers call back, and a server must answer.
"""

import asyncio
import hashlib
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quire.assembly.components import Components
from quire.assembly.member_pipelines import BUILT_IN, MemberPipelines
from quire.assembly.pipelines import build_retry_policy
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.assembly.secrets import load_signing_secret
from quire.batches.remote import tasks
from quire.batches.remote.attempts import AttemptAddress
from quire.batches.remote.tasks import LedgerRemoteTasks
from quire.blobs import keys
from quire.blobs.presigned_uploads import PresignedUploads
from quire.compute.remote.compute import Launcher, RemoteCompute, RemoteComputeOptions
from quire.compute.remote.environment import BucketAccess
from quire.compute.remote.process import ProcessLauncher, Program
from quire.model.errors import Misconfigured
from quire.model.pipelines import to_pipelines
from quire.model.plan import MACHINES
from quire.model.signal import Signal
from quire.settings import Settings, task_environment, worker_environment
from quire.tools.vips import WORKER_ENVIRONMENT

TASK_COMMAND = (sys.executable, "-m", "quire.cli.main", "task", "run")
# Variables of this process that a program needs to be found and to run; none could be a secret.
INHERITED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONDONTWRITEBYTECODE"),
)


def remote_compute_names(settings: Settings) -> set[str]:
    """The computes in use whose workers call back."""
    chosen: set[str] = {settings.compute.tiff, settings.compute.image}
    return chosen - {"local", "ray", "queue"}


def _list_used(settings: Settings, components: Components) -> tuple[set[str], set[str]]:
    """The remote computes in use, and those of them that steps of own pipelines run on."""
    own = {
        step.compute
        for one in to_pipelines(components.pipelines).every()
        if one.name not in BUILT_IN
        for phase in one.phases
        for step in phase.steps
    } & set(MACHINES)
    return remote_compute_names(settings) | own, own


def bucket_prefix(settings: Settings) -> str:
    """The prefix of keys that workers use: that of the bucket, if they access it by keys of the store."""
    return keys.folder(settings.s3.prefix) if settings.worker_keys.handed_out else ""


def _access(settings: Settings) -> BucketAccess | None:
    """Keys of the store for workers, in addition to their URLs."""
    chosen, s3 = settings.worker_keys, settings.s3
    if not chosen.handed_out:
        return None
    return BucketAccess(
        bucket=s3.bucket,
        archive_bucket=chosen.archive_bucket,
        endpoint=chosen.endpoint or s3.public_endpoint or s3.endpoint,
        access_key_id=chosen.access_key_id.reveal(),
        secret_access_key=chosen.secret_access_key.reveal(),
        account_id=chosen.account_id,
    )


def prices(settings: Settings) -> dict[str, float]:
    """Per second, by compute; a process of this machine costs as much as a local worker."""
    return {"fly": settings.fly.price_per_second, "process": settings.local.price_per_second}


class RemoteComputes:
    """Created before the engine, which calls `start`. `base_url`: where workers call back."""

    def __init__(self, settings: Settings, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url
        self._computes: dict[str, RemoteCompute] = {}
        self._presigned: PresignedUploads | None = None

    def start(self, components: Components, signal: Signal, scratch: Path) -> Mapping[str, RemoteCompute]:
        """Start the computes that the settings name; the caller stops them."""
        wanted, own = _list_used(self._settings, components)
        if "fly" in own:
            self._check_fly()
        if not wanted:
            return {}
        self._presigned = open_presigned_uploads(self._settings, components)
        remote_tasks = LedgerRemoteTasks(components.remote_context(), self._presigned, self._task_options())
        for name in sorted(wanted):
            launcher, options = self._build_launcher(name, components, scratch)
            compute = RemoteCompute(
                name, launcher, remote_tasks, clock=components.clock, signal=signal, options=options
            )
            compute.start()
            self._computes[name] = compute
        return self._computes

    def note_callback(self, address: AttemptAddress) -> None:
        """This process has settled a callback."""
        for compute in self._computes.values():
            compute.note_callback(address.batch_id, address.task_no, address.attempt)

    async def close(self) -> None:
        if self._presigned is not None:
            await self._presigned.close()

    def _task_options(self) -> tasks.RemoteTaskOptions:
        settings = self._settings
        return tasks.RemoteTaskOptions(
            base_url=self._base_url,
            secret=load_signing_secret(settings),
            start_seconds=settings.compute.start_seconds,
            registry_url=settings.compute.registry_url,
            policy=build_retry_policy(settings),
            prices=prices(settings),
            access=_access(settings),
            prefix=bucket_prefix(settings),
        )

    def _build_launcher(
        self, name: str, components: Components, scratch: Path
    ) -> tuple[Launcher, RemoteComputeOptions]:
        chosen = self._settings.compute
        shared: dict[str, Any] = {
            "start_seconds": chosen.start_seconds,
            "grace_seconds": chosen.grace_seconds,
            "look_seconds": chosen.look_seconds,
            "price_per_second": prices(self._settings)[name],
            "resources": self._settings.resources,
        }
        if name == "process":
            command = tuple(shlex.split(chosen.command)) or TASK_COMMAND
            ours = task_environment()
            kept = {name: ours[name] for name in INHERITED if name in ours}
            at_once = chosen.processes or self._settings.worker_count
            own = self._build_own_program(components, scratch)
            kept["QUIRE_SANDBOX"] = self._settings.sandbox
            launcher = ProcessLauncher(command, kept | WORKER_ENVIRONMENT, scratch, own=own)
            return launcher, RemoteComputeOptions(at_once=at_once, **shared)
        return self._build_fly(components), RemoteComputeOptions(at_once=self._settings.fly.at_once, **shared)

    def _build_own_program(self, components: Components | None, scratch: Path) -> Program | None:
        """Steps that people have written run with the pipelines of this process, from a settings file that
        names them and nothing else, and with the environment that local workers have.
        """
        known = None if components is None else components.pipelines
        if not isinstance(known, MemberPipelines) or not known.for_workers():
            return None
        references = [one.reference for one in known.for_workers()]
        lines = {"pipelines": references, "model": self._settings.model}
        file = scratch / "task-settings.toml"
        text = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in lines.items())
        file.write_text(text, "utf-8")
        environment = worker_environment() | WORKER_ENVIRONMENT | {"QUIRE_CONFIG": str(file)}
        return Program(command=TASK_COMMAND, environment=environment, folder=Path.cwd())

    def _check_fly(self) -> None:
        """Raises Misconfigured that names what machines of own pipelines need and is not set."""
        fly, serve = self._settings.fly, self._settings.serve
        needed = {
            "fly.step_app": fly.step_app,
            "fly.step_worker": fly.step_worker,
            "fly.token": fly.token,
            "serve.public_url": serve.public_url,
        }
        if absent := [name for name, value in needed.items() if not value]:
            raise Misconfigured(
                f"steps of your pipelines run on fly, and these are not set: {', '.join(absent)}"
            )

    def _build_fly(self, components: Components) -> Launcher:
        from quire.compute.remote.fly import FlyApp, FlyGuest, FlyLauncher

        fly = self._settings.fly
        tiff = FlyApp(app=fly.tiff_app, image=fly.tiff_worker, memory_mb=fly.tiff_memory_mb, prefix="tiff")
        image = FlyApp(app=fly.image_app, image=fly.image_worker, memory_mb=fly.image_memory_mb, prefix="img")
        own = FlyApp(app=fly.step_app, image=fly.step_worker, memory_mb=0, prefix="step")
        apps = {"tiff_to_jpeg": tiff, "image_variants": image}
        used = {"tiff_to_jpeg": self._settings.compute.tiff, "image_variants": self._settings.compute.image}
        return FlyLauncher(
            api=fly.api,
            token=fly.token.reveal(),
            apps={step: app for step, app in apps.items() if used[step] == "fly"},
            guest=FlyGuest(region=fly.region, cpus=fly.cpus, cpu_kind=fly.cpu_kind),
            owner=hashlib.sha256(b"machines\0" + load_signing_secret(self._settings)).hexdigest()[:16],
            per_second=fly.per_second,
            clock=components.clock,
            sleep=asyncio.sleep,
            fraction=components.ids.fraction,
            own=own if fly.step_app else None,
        )
