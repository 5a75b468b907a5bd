"""From the plain text of a card or page to a recipe draft, by rules."""

from collections.abc import Sequence

from quire.model.recipe import RecipeDraft, RecipeSource


def structure_text(text: str, *, source: RecipeSource, title_hint: str = "") -> RecipeDraft:
    """Find title, ingredients, steps, times and servings.

    Raises Reject (`text_structuring_failed`) if the text has neither ingredients nor steps.
    """
    raise NotImplementedError


def read_ocr_texts(
    texts: Sequence[str], confidences: Sequence[float], *, source: RecipeSource, title_hint: str = ""
) -> RecipeDraft:
    """Check, join, structure and validate the texts of pictures, which are in order.

    Raises Reject with the code of the contract: `ocr_no_results`, `ocr_no_text`, `quality_gate_failed`,
    `text_structuring_failed` or `draft_validation_failed`.
    """
    raise NotImplementedError
