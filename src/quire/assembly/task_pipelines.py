"""The pipeline of a machine that runs one task: from the settings of that machine, and nowhere else.

Promise: what a task says is only compared: its pipeline's name, version and digest. Must not know: the task's
input and its URLs.
"""

from pathlib import Path

from quire.assembly.member_pipelines import BUILT_IN
from quire.assembly.own_pipelines import (
    FoundPipeline,
    describe_problem,
    find_pipelines,
    list_sources,
    sort_usable,
)
from quire.assembly.worker_steps import load_model
from quire.authoring.loading import load_pipeline
from quire.compute.remote.step_task import StepTask
from quire.compute.remote.step_worker import LoadedStep
from quire.model.errors import Misconfigured
from quire.model.plan import digest_of
from quire.model.step import find_step
from quire.settings import PipelineSettings, load_pipeline_settings


def load_task_step(task: StepTask, settings: PipelineSettings | None = None) -> LoadedStep:
    """The step of the task, from this machine's own pipeline. Raises Misconfigured: `unknown_pipeline` where
    there is none of that name and version, `other_plan` where it has other steps or rules.
    """
    chosen = settings or load_pipeline_settings()
    found = find_pipelines(list_sources(chosen.pipelines, folder=Path.cwd()), BUILT_IN, model=chosen.model)
    one = _choose(task, found)
    if digest_of(one.plan) != task.plan_digest:
        raise Misconfigured(
            f"the pipeline {task.pipeline} version {task.pipeline_version} on this machine has other steps "
            f"or rules than that of the batch ({one.source.shown}); give the machine the same code, or raise "
            "the version and keep the former file",
            code="other_plan",
        )
    loaded = load_pipeline(one.source.text, model=load_model(chosen.model if _asks_model(one) else ""))
    step = find_step(loaded.steps, task.step, task.step_version)
    if step is None:
        raise Misconfigured(
            f"{one.source.shown} has no step {task.step} in version {task.step_version}", code="unknown_step"
        )
    return LoadedStep(step, _compare_code(task, loaded.plan.code_digest))


def _choose(task: StepTask, found: list[FoundPipeline]) -> FoundPipeline:
    wanted = (task.pipeline, task.pipeline_version)
    for one in sort_usable(found):
        if (one.plan.name, one.plan.version) == wanted:
            return one
    problems = "".join(f"\n  - {describe_problem(one)}" for one in found if one.problem)
    raise Misconfigured(
        f"there is no pipeline {task.pipeline} version {task.pipeline_version} on this machine; add it to "
        f"`pipelines` in its quire.toml or to QUIRE_PIPELINES{problems}",
        code="unknown_pipeline",
    )


def _asks_model(found: FoundPipeline) -> bool:
    return found.loaded is not None and bool(found.loaded.asks_model)


def _compare_code(task: StepTask, here: str) -> str:
    if not task.code_digest or not here or task.code_digest == here:
        return ""
    return f"the code of the pipeline {task.pipeline} on the machine differs from that of the batch"
