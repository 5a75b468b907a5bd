"""The steps of a worker process: the built-in ones, and those of pipelines that its configuration refers to.

Promise: a worker loads the same pipelines as the process that started it, or does not start. Must not know:
settings, which worker processes do not have.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.plan import digest_of
from quire.model.step import Step

if TYPE_CHECKING:
    from quire.authoring.language_model import LanguageModel


# The steps that every worker has: those that exist alone, and those of built-in pipelines.
STEP_MODULES = ("quire.steps.registry", "quire.pipelines.ocr")


class WorkerPipeline(Struct, frozen=True, kw_only=True):
    """Where a worker process loads a pipeline from, and which one it must find there. `model` refers to the
    function that answers its steps.
    """

    reference: str
    name: str
    version: int
    digest: str
    model: str = ""


def load_steps(modules: Sequence[str], pipelines: Sequence[WorkerPipeline]) -> dict[str, Step]:
    """By name; of own pipelines each version also as `name@version`. Raises Misconfigured."""
    steps: dict[str, Step] = {}
    for module in modules:
        steps.update(import_module(module).STEPS)
    for wanted in pipelines:
        for step in _load_own(wanted):
            steps.setdefault(step.name, step)
            steps.setdefault(f"{step.name}@{step.version}", step)
    return steps


def _load_own(wanted: WorkerPipeline) -> Sequence[Step]:
    from quire.authoring.loading import load_pipeline

    loaded = load_pipeline(wanted.reference, model=load_model(wanted.model))
    plan = loaded.plan
    if (plan.name, plan.version, digest_of(plan)) != (wanted.name, wanted.version, wanted.digest):
        raise Misconfigured(
            f"{wanted.reference} has changed since Quire was started: it is no longer the same pipeline "
            f"{wanted.name} version {wanted.version}; stop Quire and start it again"
        )
    return tuple(loaded.steps.values())


def load_model(reference: str) -> "LanguageModel | None":
    """The function that answers steps which ask a model; None without a reference. Raises Misconfigured."""
    if not reference:
        return None
    from quire.authoring import model_functions

    return model_functions.load_model(reference)
