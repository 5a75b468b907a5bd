"""A step and a pipeline of your own: every text file gets a word count next to it.

PYTHONPATH=docs/examples .venv/bin/python -m own_step FOLDER OUT
"""

import asyncio
import json
import sys
from collections.abc import Container
from pathlib import Path

from quire.assembly.engine import open_engine
from quire.batches.folder_run import RunRequest, RunResult, run_folder
from quire.cli.console import Reporter
from quire.cli.run.progress import show_progress
from quire.model.errors import Reject
from quire.model.files import File
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Phase, Pipeline, from_product
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.model.work import StepResult
from quire.settings import load_here


def count_words(step_input: StepInput) -> StepOutput:
    """Runs in a worker process: reads `source`, writes its result into `folder`."""
    try:
        words = len(step_input.source.read_text("utf-8").split())
    except UnicodeDecodeError as error:
        # Reject: another try would not help. Any other exception is retried.
        raise Reject("the text is not UTF-8; save it as UTF-8", code="not_utf8") from error
    target = step_input.folder / "words.json"
    target.write_text(json.dumps({"words": words}), "utf-8")
    return StepOutput(files=(OutputFile(role="words", path=target, content_type="application/json"),))


# Workers import this module by name and find the step here.
STEPS = {"count_words": Step(name="count_words", version=1, run=count_words)}


def is_text(file: File) -> bool:
    return file.content_type == "text/plain"


def becomes(file: File, result: StepResult, _taken: Container[str]) -> ListChange:
    """The text stays in the file list; its word count is added."""
    product = result.products[0]
    count = from_product(product, path=f"{file.path}.words.json", source=file, tags=())
    return ListChange(kept=KeptFile(tags=file.tags), added=(AddedFile(file=count, role=product.role),))


WORDS = Phase(
    name="WORDS", task_prefix="words", step="count_words", step_version=1, finds=is_text, becomes=becomes
)
PIPELINE = Pipeline(name="words", version=1, queue="words", phases=(WORDS,))


async def main(folder: Path, out: Path) -> RunResult:
    """The same as `quire run FOLDER --out OUT --pipeline words`."""
    settings = load_here().settings
    request = RunRequest(roots=[folder], out=out, pipeline="words", own_folders=[settings.home])
    with show_progress(Reporter(json_output=False)) as watcher:
        async with open_engine(
            settings, pipelines={"words": PIPELINE}, step_modules=("own_step",)
        ) as components:
            return await run_folder(request, components.run_context(), watcher, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
