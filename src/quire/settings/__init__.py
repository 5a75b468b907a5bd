"""Settings: one frozen object, read once from `quire.toml`, `QUIRE_*` variables and the command line.

The later wins. Promises: all problems are reported at once; an unknown key is refused with the nearest known
one; every value remembers its source; a secret is never shown. The only module that reads `os.environ` for
settings. Must not know: components. `assembly` builds them from these values, and nothing below it imports
this.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.step import SandboxMode
from quire.settings.basics import Secret, cores
from quire.settings.compute import ComputeSettings, FlySettings, LocalSettings, RaySettings
from quire.settings.keys import KEYS, UPLOAD_FALLBACKS, Key, show_value, to_printable, value_of
from quire.settings.library import LIBRARY_FALLBACKS, Library
from quire.settings.ocr import OCR_FALLBACKS, OcrSettings
from quire.settings.reader import DOCS, SettingsReader
from quire.settings.server import UploadSettings
from quire.settings.values import (
    PREFIX,
    BudgetSettings,
    MembershipSettings,
    PhaseRetrySettings,
    PostgresSettings,
    PreprocessSettings,
    QueueSettings,
    RedisSettings,
    RetrySettings,
    S3Settings,
    Settings,
)

DEFAULT = "default"
COMMAND_LINE = "the command line"

__all__ = [
    "COMMAND_LINE",
    "DEFAULT",
    "DOCS",
    "KEYS",
    "LIBRARY_FALLBACKS",
    "OCR_FALLBACKS",
    "PREFIX",
    "UPLOAD_FALLBACKS",
    "BudgetSettings",
    "ComputeSettings",
    "FlySettings",
    "Key",
    "Library",
    "LoadedSettings",
    "LocalSettings",
    "MembershipSettings",
    "OcrSettings",
    "PhaseRetrySettings",
    "PipelineSettings",
    "PostgresSettings",
    "PreprocessSettings",
    "QueueSettings",
    "RaySettings",
    "RedisSettings",
    "RetrySettings",
    "S3Settings",
    "Secret",
    "Settings",
    "UploadSettings",
    "cores",
    "load",
    "load_here",
    "load_pipeline_settings",
    "read_sandbox_mode",
    "show_value",
    "task_environment",
    "worker_environment",
]


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """`sources` has every key: "default", the file, the variable or "the command line"."""

    settings: Settings
    sources: Mapping[str, str]
    file: Path | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value as people may see it, source."""
        rows = [
            (key.name, show_value(value_of(self.settings, key.name)), self.sources[key.name]) for key in KEYS
        ]
        for name, limit in self.settings.resources.items():
            full = f"resources.{to_printable(name)}"
            rows.append((full, show_value(limit), self.sources.get(full, DEFAULT)))
        for queue, tuning in self.settings.queues.items():
            for name, value in msgspec.structs.asdict(tuning).items():
                full = f'queues."{to_printable(queue)}".{name}'
                if full in self.sources:
                    rows.append((full, show_value(value), self.sources[full]))
        return rows


def load_here(
    config: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    fallbacks: Mapping[str, Sequence[str]] | None = None,
) -> LoadedSettings:
    """`load` with this process's environment and current folder."""
    return load(os.environ, Path.cwd(), config, overrides, fallbacks)


def worker_environment() -> dict[str, str]:
    """The environment of worker processes: without Quire's own variables, which may hold secrets."""
    return {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}


def task_environment() -> dict[str, str]:
    """The environment that describes a single remote task, which has no settings."""
    return dict(os.environ)


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """All that a machine needs which runs one task of a pipeline."""

    pipelines: tuple[str, ...] = ()
    model: str = ""


def load_pipeline_settings() -> PipelineSettings:
    """Only `pipelines` and `model`, from this process's environment and settings file: other settings may be
    incomplete where one task runs, because secrets are not given there. Raises Misconfigured.
    """
    wanted = ("pipelines", "model")
    reading = SettingsReader(Path.cwd())
    reading.file(os.environ, None)
    names = (f"{PREFIX}{name.upper()}" for name in wanted)
    reading.variables({name: os.environ[name] for name in names if name in os.environ})
    if not reading.doubtful.isdisjoint(wanted):
        listed = "".join(f"\n  - {problem}" for problem in reading.problems)
        raise Misconfigured(f"The settings of this machine cannot be used:{listed}", code="bad_settings")
    return PipelineSettings(**{name: reading.values[name] for name in wanted if name in reading.values})


def read_sandbox_mode() -> SandboxMode:
    """Only `sandbox`, from this process's environment: a task has no settings. What is not known counts as
    on, which a machine that cannot do it refuses.
    """
    given = os.environ.get(f"{PREFIX}SANDBOX", "").strip()
    return "auto" if given in {"", "auto"} else "off" if given == "off" else "on"


def load(
    environment: Mapping[str, str],
    folder: Path,
    config: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    fallbacks: Mapping[str, Sequence[str]] | None = None,
) -> LoadedSettings:
    """Raises one Misconfigured that lists every problem.

    `overrides` has keys like `preprocess.tiff_quality`; None means that the option was not given. An empty
    variable counts as not set. Relative paths start at `folder`, those in the file at the file's folder.
    `fallbacks` are variables of other programs, by key, for keys that are set nowhere else; the first one
    that is set counts.
    """
    reading = SettingsReader(folder)
    file = reading.file(environment, config)
    reading.variables(environment)
    for name, value in (overrides or {}).items():
        if value is not None:
            reading.add(name, value, COMMAND_LINE, folder, words=isinstance(value, str))
    reading.fallbacks(environment, fallbacks or {})
    settings = reading.settings()
    if reading.problems:
        listed = "".join(f"\n  - {problem}" for problem in reading.problems)
        raise Misconfigured(
            f"The settings cannot be used, so nothing was started. Correct this and run again:{listed}\n"
            f"All keys are described in {DOCS}.",
            code="bad_settings",
        )
    sources = dict.fromkeys((key.name for key in KEYS), DEFAULT) | reading.sources
    return LoadedSettings(settings=settings, sources=sources, file=file)
