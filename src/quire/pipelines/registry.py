"""The steps of built-in pipelines that are written as functions, by name.

Cheap to import, as every worker does: the pipeline, and the interface that it is written with, load when one
of its steps first runs.
"""

from collections.abc import Mapping
from typing import Any

from quire.model.step import Step, StepInput, StepOutput


def _ocr_step(name: str, *, folders: tuple[str, ...] | None, needs_source: bool = True) -> Step:
    """`folders`: options that name folders which it reads in its sandbox; None: it needs no sandbox."""

    def run(step_input: StepInput) -> StepOutput:
        from quire.pipelines import ocr

        return ocr.list_steps()[name].run(step_input)

    def list_folders(options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(options[one]) for one in folders or () if options.get(one))

    return Step(
        name=name,
        version=1,
        run=run,
        needs_source=needs_source,
        sandbox=None if folders is None else list_folders,
    )


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        _ocr_step("ocr.look", folders=()),
        _ocr_step("ocr.read", folders=("tessdata",)),
        _ocr_step("ocr.write_text", folders=None),
        _ocr_step("ocr.write_pdf", folders=()),
        _ocr_step("ocr.check_pages", folders=None, needs_source=False),
    )
}
