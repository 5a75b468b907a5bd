"""Options of library workers, ingests and local conversions, from the settings."""

import hashlib
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.compute.pool.worker_handle import OnProgress
from quire.library import archives
from quire.library.context import LibraryContext
from quire.library.ingest import run
from quire.library.manifest import store
from quire.library.worker import conversion, loop
from quire.library.worker import source as library_source
from quire.library.worker.run_windows import parse_window
from quire.model.clock import timestamp
from quire.model.errors import Misconfigured, Reject
from quire.model.step import SandboxMode
from quire.settings import Library, Settings, worker_environment
from quire.system import LoopSignal, SystemClock
from quire.tools.sandbox import check_mode
from quire.tools.vips import WORKER_ENVIRONMENT

MANIFEST_SECONDS = 600.0
_MACHINE = Path("/etc/machine-id")
_PREFIXES = ("BLOBFORGE_", "AWS_")  # keys that no conversion needs


def worker_id(chosen: Library) -> str:
    """The same after a restart of the machine; processes on one machine get names of their own (`slots`)."""
    if chosen.worker_id:
        return chosen.worker_id
    try:
        machine = _MACHINE.read_text("ascii").strip()
    except (OSError, ValueError):
        machine = ""
    return hashlib.sha256(f"{socket.gethostname()}:{machine}".encode()).hexdigest()[:12]


def worker_options(
    settings: Settings, *, run_once: bool, dry_run: bool, windows: Sequence[str], abort_outside: bool
) -> Any:
    """Raises Reject for an invalid run window."""
    chosen = settings.library
    spoken = windows or chosen.run_windows.replace(",", " ").split()
    return loop.WorkerOptions(
        worker=worker_id(chosen),
        start_compute=_build_starter(settings),
        scratch=scratch_folder(settings),
        converting={"converter": chosen.converter},
        memory_mb=chosen.memory_mb,
        silent_seconds=chosen.silent_seconds,
        run_once=run_once,
        dry_run=dry_run,
        windows=tuple(parse_window(one) for one in spoken),
        abort_outside=abort_outside or chosen.abort_outside_window,
        sweep=chosen.sweep,
    )


def ingest_options(settings: Settings, *, tier: str, dry_run: bool) -> Any:
    own = settings.home / "library"
    if not dry_run:
        own.mkdir(parents=True, exist_ok=True)
    return run.IngestOptions(
        tier=tier,
        dry_run=dry_run,
        recovery=own / "recovery",
        sums=own / "checksums.db" if own.is_dir() else None,
        environment=_environment(),
    )


def scratch_folder(settings: Settings) -> Path:
    return settings.home / "library" / "workers"


class ManifestLookup:
    """Finds documents with lost metadata in the manifest, which is read when that first happens."""

    def __init__(self, context: LibraryContext) -> None:
        self._context = context
        self._view: Any = None
        self._read_at = 0.0

    async def __call__(self, job: str) -> Any:
        now = self._context.clock.monotonic()
        if self._view is None or now - self._read_at > MANIFEST_SECONDS:
            self._view = await store.LibraryManifest(self._context).read()
            self._read_at = now
        entry = self._view.get(job)
        if entry is None or not entry.paths:
            return None
        return library_source.KnownSource(entry.paths[0], tuple(entry.tags))


async def convert_file(
    settings: Settings, source: Path, target: Path, on_progress: Callable[[Any], None] = lambda _: None
) -> tuple[Path, int]:
    """Convert one local file into a folder; returns the Markdown file and the number of pictures. Raises
    Reject with the reason when it cannot be converted, Misconfigured when a tool is missing.
    """
    chosen = settings.library
    context = conversion.ConversionContext(
        start=_build_starter(settings),
        limits=conversion.ConversionLimits(
            seconds=chosen.conversion_seconds,
            seconds_per_page=chosen.seconds_per_page,
            silent_seconds=chosen.silent_seconds or chosen.conversion_seconds,
            memory_mb=chosen.memory_mb,
        ),
        options={"converter": chosen.converter},
    )
    with TemporaryDirectory(prefix="quire-convert-") as name:
        folder = Path(name)
        shutil.copyfile(source, folder / conversion.SOURCE)
        about = _describe(folder / conversion.SOURCE, source.name, worker_id(chosen))
        result = await conversion.Conversion(context, on_progress).run(about, folder)
        if result.error:
            raise (Misconfigured if result.trouble else Reject)(f"{source.name}: {result.error}")
        return archives.unpack(folder / conversion.RESULT, target)


def _describe(source: Path, name: str, worker: str) -> conversion.SourceInfo:
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return conversion.SourceInfo(
        hash=digest,
        original_filename=name,
        worker_id=worker,
        converted_at=timestamp(SystemClock().now()),
        size_bytes=source.stat().st_size,
    )


class ComputeStarter:
    """Starts a local worker process for one conversion, with a store of its own in the job's folder. The
    bucket's keys do not reach it: neither by its environment nor by its configuration.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        step_modules: tuple[str, ...] = ("quire.steps.registry",),
        *,
        sandbox: SandboxMode = "auto",
        private: tuple[str, ...] = (),
    ) -> None:
        """`sandbox` is the setting; what is `private` no decoder reads."""
        self.environment = environment
        self._step_modules = step_modules
        self._sandbox = sandbox
        self._private = private

    def __call__(
        self, folder: Path, on_progress: OnProgress, on_stderr: Callable[[bytes], None]
    ) -> conversion.ConversionCompute:
        scratch = folder / "scratch"
        scratch.mkdir()
        configuration = WorkerConfiguration(
            blobs_root=str(folder),
            s3=None,
            step_modules=self._step_modules,
            scratch=str(scratch),
            sandbox=self._sandbox,
            private=self._private,
        )
        signal = LoopSignal()
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment={**self.environment, **WORKER_ENVIRONMENT, "TMPDIR": str(scratch)},
            configuration=msgspec.json.encode(configuration),
            workers=1,
            clock=SystemClock(),
            signal=signal,
            on_progress=on_progress,
            on_stderr=on_stderr,
            folder=scratch,
        )
        compute.start()
        return conversion.ConversionCompute(compute=compute, signal=signal, blobs=LocalBlobs(folder))


def _build_starter(settings: Settings) -> ComputeStarter:
    check_mode(settings.sandbox)
    return ComputeStarter(_environment(), sandbox=settings.sandbox, private=(str(settings.home),))


def _environment() -> dict[str, str]:
    return {name: text for name, text in worker_environment().items() if not name.startswith(_PREFIXES)}
