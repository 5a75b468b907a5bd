"""All steps by name. Cheap to import: a step's module, and the libraries behind it, load when it first
runs.

The version is part of the cache key. Raise it whenever the same input would give other output: then the
products of earlier runs are made again. All of these decode what strangers send, so all have a `sandbox`.
"""

from collections.abc import Mapping
from typing import Any

from quire.model.step import MemoryEstimate, Step, StepInput, StepOutput


def _tiff_to_jpeg(step_input: StepInput) -> StepOutput:
    from quire.steps import tiff_to_jpeg

    return tiff_to_jpeg.run(step_input)


def _image_variants(step_input: StepInput) -> StepOutput:
    from quire.steps import image_variants

    return image_variants.run(step_input)


def _pdf_split(step_input: StepInput) -> StepOutput:
    from quire.steps import pdf_split

    return pdf_split.run(step_input)


def _pdf_markdown(step_input: StepInput) -> StepOutput:
    from quire.steps import pdf_markdown

    return pdf_markdown.run(step_input)


def _weigh_tiff(step_input: StepInput) -> MemoryEstimate:
    from quire.steps import memory_estimate

    return memory_estimate.tiff_to_jpeg(step_input)


def _weigh_picture(step_input: StepInput) -> MemoryEstimate:
    from quire.steps import memory_estimate

    return memory_estimate.image_variants(step_input)


def _weigh_pdf(step_input: StepInput) -> MemoryEstimate:
    from quire.steps import memory_estimate

    return memory_estimate.pdf_split(step_input)


def _nothing_more(_options: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _for_markdown(options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Language data, where they are in a folder of their own; some converters are programs."""
    from quire.steps import converters

    if converters.starts_programs(str(options.get("converter") or converters.DEFAULT)):
        return None
    return tuple(str(options[name]) for name in ("tessdata",) if options.get(name))


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="pdf_split",
            version=1,
            run=_pdf_split,
            reads=("processing_config.pdf_pages",),
            estimate_memory=_weigh_pdf,
            sandbox=_nothing_more,
        ),
        Step(
            name="pdf_markdown", version=1, run=_pdf_markdown, reads=("name", "marked"), sandbox=_for_markdown
        ),
        Step(
            name="tiff_to_jpeg",
            version=1,
            run=_tiff_to_jpeg,
            estimate_memory=_weigh_tiff,
            sandbox=_nothing_more,
        ),
        Step(
            name="image_variants",
            version=2,
            run=_image_variants,
            reads=("name", "cid"),
            estimate_memory=_weigh_picture,
            sandbox=_nothing_more,
        ),
    )
}
