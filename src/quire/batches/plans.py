"""The pipeline as data, as it is frozen into a batch at submission."""

import msgspec

from quire.model.pipeline import Pipeline


def freeze_pipeline(pipeline: Pipeline) -> str:
    """The pipeline as data: what was asked for, frozen into the batch."""
    phases = [
        {
            "name": phase.name,
            "step": phase.step,
            "version": phase.step_version,
            "options": phase.options,
            "timeout_seconds": phase.timeout_seconds,
            "memory_mb": phase.memory_mb,
            "max_attempts": phase.max_attempts,
        }
        for phase in pipeline.phases
    ]
    value = {"name": pipeline.name, "version": pipeline.version, "phases": phases}
    return msgspec.json.Encoder(order="deterministic").encode(value).decode()
