"""Recipe drafts for people and programs: plain text, JSON, schema.org JSON-LD."""

from quire.model.recipe import RecipeDraft


def write_text(draft: RecipeDraft) -> str:
    """The recipe as plain text."""
    raise NotImplementedError


def write_json(draft: RecipeDraft) -> str:
    """The draft as indented JSON."""
    raise NotImplementedError


def write_json_ld(draft: RecipeDraft) -> str:
    """The recipe as schema.org JSON-LD, from which `parse_client_page` reads the same draft."""
    raise NotImplementedError
