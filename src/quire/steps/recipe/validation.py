"""Says what a recipe draft lacks, field by field."""

from quire.model.recipe import FieldProblem, RecipeDraft


def validate_draft(draft: RecipeDraft) -> tuple[FieldProblem, ...]:
    """List the problems; empty if the draft is complete. Paths are like `ingredients.0.name`."""
    raise NotImplementedError
