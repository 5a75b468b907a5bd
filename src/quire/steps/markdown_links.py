"""The links of a page: links to its pictures lead to where they are stored, unsafe links become text.

A document may contain anything: `![](../../secret)`, a tracking picture on a foreign server, `javascript:`.
Links other than to the page's own pictures and to web or mail addresses are shown as text, raw HTML likewise.
Code blocks stay as they are: nothing in them is a link.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

# No nested quantifiers: hostile text must not cost exponential time.
_TARGET = r"\s*(?:<(?P<angled>[^<>\n]*)>|(?P<bare>[^\s()<>\[\]]*))"
_LINK = re.compile(rf"\]\((?={_TARGET})")  # looks ahead: a target may hold the next one
_IMAGE = re.compile(rf"!\[(?:(?P<text>[^\[\]\n]*)\]\({_TARGET})?")
_WEB = re.compile(r"(?:https?://|mailto:|ftp://|tel:|#)", re.IGNORECASE)
_PLAIN_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s()<>\\]+\Z", re.IGNORECASE)
_PLAIN_WORDS = re.compile(r"[^\[\]()<>|`\\*_#!]{2,200}\Z")
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!br\s*/?>|/?(?:su[bp]|u|b|i|s|del|mark)>)")
_FENCE = re.compile(r"^[ \t>*+\-\d.)]*(?:```|~~~).*$", re.MULTILINE)
_OPENING = re.compile(r"```\w*\Z")
_RUN = re.compile(r"([`~])(?=\1\1)")
_AUTOLINK = re.compile(r"<(?:https?://|mailto:)[^\s<>]*>")


def rewrite_links(markdown: str, assets: Mapping[str, str]) -> str:
    """Point the links to pictures at where they are stored: `assets`, by the converter's name."""
    if not any(sign in markdown for sign in ("](", "<", "]:", "```", "~~~", "\r")):
        return markdown
    whole = markdown.replace("\r\n", "\n").replace("\r", "\n")
    if not _plain_pairs(list(_FENCE.finditer(whole))):
        whole = _RUN.sub(r"\\\1", whole)  # a code block without an end would swallow the pages after it
    return "".join(part if fenced else _open_part(part, assets) for part, fenced in _parts(whole))


def complete_links(markdown: str, links: Iterable[tuple[str, str]]) -> str:
    """Add links that the converter lost, where their words occur exactly once as plain text."""
    for words, address in links:
        if not words or address in markdown or not _PLAIN_ADDRESS.match(address):
            continue
        if markdown.count(words) == 1 and _PLAIN_WORDS.match(words):
            markdown = markdown.replace(words, f"[{words}]({address})")
    return markdown


def is_incomplete(markdown: str, addresses: Iterable[str]) -> bool:
    """Whether `complete_links` might have something to add."""
    return any(one not in markdown and _PLAIN_ADDRESS.match(one) is not None for one in addresses)


def targets(markdown: str, folder: str) -> Iterator[str]:
    """The targets of links into this folder."""
    for part, fenced in _parts(markdown):
        if not fenced:
            yield from (to for link in _LINK.finditer(part) if (to := _target(link)).startswith(folder))


def _open_part(part: str, assets: Mapping[str, str]) -> str:
    kept = _IMAGE.sub(lambda image: _image(image, assets), part)
    here = frozenset(assets.values())
    kept = _LINK.sub(lambda link: _link(link, here), kept)
    kept = kept.replace("]:", "]\\:")  # the definition of a reference link
    return _TAG.sub(lambda tag: _tag(tag, kept), kept) if "<" in kept else kept


def _image(image: re.Match[str], assets: Mapping[str, str]) -> str:
    if image["text"] is not None and (name := assets.get(_target(image))):
        return f"![{image['text']}]({name}"
    return "!\\[" + image[0][2:]


def _link(link: re.Match[str], here: frozenset[str]) -> str:
    target = _target(link)
    return "](" if target in here or _WEB.match(target) else "]\\("


def _target(link: re.Match[str]) -> str:
    angled = link["angled"]
    return str(angled if angled is not None else link["bare"])


def _tag(tag: re.Match[str], whole: str) -> str:
    before = whole[max(0, tag.start() - 2) : tag.start()]
    if _AUTOLINK.match(whole, tag.start()) or before.endswith(("](", "\\")):
        return "<"
    return "\\<"


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text and the code blocks between it, in turn; all is text when the fences are not of the simplest
    kind, for then readers of Markdown do not agree.
    """
    fences = list(_FENCE.finditer(markdown))
    at = 0
    if _plain_pairs(fences):
        for opening, closing in zip(fences[::2], fences[1::2], strict=True):
            yield markdown[at : opening.start()], False
            yield markdown[opening.start() : closing.end()], True
            at = closing.end()
    yield markdown[at:], False


def _plain_pairs(fences: list[re.Match[str]]) -> bool:
    return (
        len(fences) % 2 == 0
        and all(_OPENING.match(fence[0]) for fence in fences[::2])
        and all(fence[0] == "```" for fence in fences[1::2])
    )
