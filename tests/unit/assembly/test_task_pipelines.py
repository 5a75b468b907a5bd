"""Where steps of own pipelines may run, and which pipeline a machine loads for its task."""

import pytest

from quire.assembly.own_pipelines import find_pipelines, list_sources
from quire.assembly.task_pipelines import load_task_step
from quire.compute.remote.step_task import StepTask
from quire.model.errors import Misconfigured
from quire.model.plan import digest_of
from quire.settings import PipelineSettings, load_pipeline_settings

HEAD = "from quire import Document, External, Folder, Output, Pipeline\n"
HEAD += "words = Pipeline('words', version=2)\n"
COUNT = "@words.step(accepts='*.txt', runs_on='fly')\ndef count(document: Document) -> dict[str, int]:\n"
COUNT += "    return {'words': 1}\n"


def write(folder, text=COUNT):
    path = folder / f"words_{len(list(folder.iterdir()))}.py"
    path.write_text(HEAD + text, "utf-8")
    return str(path)


def find(reference):
    return find_pipelines(list_sources([reference], packages=False), ())[0]


def task(reference, **changes):
    plan = find(reference).plan
    texts = dict.fromkeys(
        ("task_id", "batch_id", "details_url", "input_url", "callback_url", "more_url", "result_url"), "x"
    )
    known = {"pipeline": plan.name, "pipeline_version": plan.version, "plan_digest": digest_of(plan)}
    known |= {"step": "words.count", "step_version": 2, "memory_mb": 512, "code_digest": plan.code_digest}
    return StepTask(**(texts | known | changes))


@pytest.mark.parametrize("where", ["process", "fly"])
@pytest.mark.parametrize(
    "step",
    [
        "accepts='*')\ndef count(document: Document) -> Output: ...\n",
        "unit='folder')\ndef count(folder: Folder) -> Output: ...\n",
        "unit='batch')\ndef count(folder: Folder) -> Output: ...\n",
        "accepts='*')\ndef count(document: Document) -> External: ...\n",
    ],
    ids=["file", "folder", "batch", "external"],
)
def test_steps_of_every_kind_may_run_on_machines(tmp_path, where, step):
    found = find(write(tmp_path, f"@words.step(runs_on='{where}', {step}"))
    assert found.is_usable, found.problem


def test_a_machine_has_the_step_of_its_own_pipeline(tmp_path):
    path = write(tmp_path)
    found = load_task_step(task(path), PipelineSettings(pipelines=(path,)))
    assert (found.step.name, found.warning) == ("words.count", "")


def test_other_code_of_the_same_plan_is_a_warning(tmp_path):
    path = write(tmp_path)
    other = write(tmp_path, COUNT.replace("1}", "2}"))
    assert "differs" in load_task_step(task(path), PipelineSettings(pipelines=(other,))).warning


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"plan_digest": "0" * 64}, "other_plan"),
        ({"pipeline_version": 1}, "unknown_pipeline"),
        ({"pipeline": "preprocess"}, "unknown_pipeline"),
        ({"step": "words.other"}, "unknown_step"),
    ],
)
def test_another_pipeline_is_refused(tmp_path, changes, code):
    path = write(tmp_path)
    with pytest.raises(Misconfigured) as caught:
        load_task_step(task(path, **changes), PipelineSettings(pipelines=(path,)))
    assert caught.value.code == code


def test_a_machine_reads_its_pipelines_and_no_other_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quire.toml").write_text('store = "s3"\npipelines = ["words.py"]\n', "utf-8")
    monkeypatch.setenv("QUIRE_STEP", "words.count")
    assert load_pipeline_settings() == PipelineSettings(pipelines=(f"{tmp_path / 'words.py'}",))
    monkeypatch.setenv("QUIRE_PIPELINES", "press.book:book")
    assert load_pipeline_settings().pipelines == ("press.book:book",)
    (tmp_path / "quire.toml").write_text("pipelines = ", "utf-8")
    with pytest.raises(Misconfigured, match="cannot be read"):
        load_pipeline_settings()
