"""Tells pages that a server cannot read from pages without a recipe.

Such pages are refused, hidden behind a challenge, or built by scripts; an app that shows one can read it.
"""

WEBVIEW_EXTRACT = "webview_extract"


def find_block(html: bytes, *, status: int = 200, content_type: str = "") -> str | None:
    """Say why only a browser sees the page: `http_403`, `captcha`, `webview_required`; else None."""
    raise NotImplementedError
