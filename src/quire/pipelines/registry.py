"""All pipelines by name; each is made by a function of its options."""

from collections.abc import Callable

from quire.model.pipeline import Pipeline
from quire.pipelines.preprocess import preprocess

PIPELINES: dict[str, Callable[..., Pipeline]] = {"preprocess": preprocess}
