"""Tells pages that a server cannot read from pages without a recipe.

Such pages are refused, hidden behind a challenge, or built by scripts; an app that shows one can read it.
"""

import re

WEBVIEW_EXTRACT = "webview_extract"
_LOOKED_AT = 60_000
_SMALL_TEXT = 400
_CHALLENGE = re.compile(
    rb"captcha|cf-challenge|challenge-platform|cf_chl_|_cf_chl|just a moment\.\.\."
    rb"|checking your browser|ddos-guard|px-captcha"
    rb"|access denied|are you a (?:human|robot)|verify (?:that )?you are (?:a )?human"
    rb"|unusual traffic|incapsula|datadome|akamai.{0,40}denied",
    re.IGNORECASE,
)
_SCRIPTS_NEEDED = re.compile(
    rb"(?:enable|requires?|activate|turn on|need(?:s)?(?: to enable)?) java ?script"
    rb"|java ?script (?:is |must be |has been )?(?:required|disabled|enabled)"
    rb"|bitte (?:aktivieren sie )?javascript|activez? javascript",
    re.IGNORECASE,
)
_APP_ROOT = re.compile(
    rb"<div[^<>]{0,200}id=[\"']?(?:root|app|__next|__nuxt|gatsby)[\"'\s>]|<app-root|ng-app", re.IGNORECASE
)
_PARAGRAPH_WORDS = re.compile(rb">[^<>]{3,}<")
_REFUSED = {
    401: "http_401",
    403: "http_403",
    406: "http_406",
    429: "http_429",
    451: "http_451",
    503: "http_503",
}


def find_block(html: bytes, *, status: int = 200, content_type: str = "") -> str | None:
    """Say why only a browser sees the page: `http_403`, `captcha`, `webview_required`; else None.

    Meant for pages in which no recipe was found: some readable pages hold captchas in their forms.
    """
    if status in _REFUSED:
        return _REFUSED[status]
    if content_type and not re.match(
        r"\s*(?:text/|application/xhtml|application/xml)", content_type, re.IGNORECASE
    ):
        return None
    head = html[:_LOOKED_AT]
    text_bytes = sum(len(part.strip()) for part in _visible(head))
    if text_bytes < 4 * _SMALL_TEXT and _CHALLENGE.search(head):
        return "captcha"
    if text_bytes < 4 * _SMALL_TEXT and _SCRIPTS_NEEDED.search(head):
        return "webview_required"
    if text_bytes < _SMALL_TEXT and (_APP_ROOT.search(head) or head.lower().count(b"<script") >= 1):
        return "webview_required"
    if not html.strip():
        return "webview_required"
    return None


def _visible(head: bytes) -> list[bytes]:
    """Roughly the text of the body: what stands between tags, and not in scripts and styles."""
    lower = head.lower()
    parts: list[bytes] = []
    place = max(lower.find(b"<body"), 0)
    while place < len(head):
        begin = lower.find(b"<", place)
        if begin < 0:
            parts.append(head[place:])
            break
        parts.append(head[place:begin])
        name = lower[begin + 1 : begin + 7]
        close = b"</script" if name == b"script" else b"</style" if name.startswith(b"style") else b">"
        end = lower.find(close, begin)
        if end < 0:
            break
        place = end + 1 if close == b">" else lower.find(b">", end) + 1 or len(head)
    return parts
