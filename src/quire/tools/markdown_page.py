"""The output of every PDF converter: pages of Markdown, each with its pictures.

Names of pictures are the converter's own, as in the links of the Markdown; they are renamed when they are
stored. Pages are counted from 1 and come in their order.
"""

from typing import NamedTuple


class PagePicture(NamedTuple):
    name: str
    data: bytes


class MarkdownPage(NamedTuple):
    """`fault` says why there is no Markdown; there may be pictures nevertheless.

    A converter that returns what it read can be checked against it: `text` is all text of the page in the
    order of its content, before any layout, and `addresses` are those of its links. `odd`: there is a font
    that it may have read wrongly.
    """

    number: int
    markdown: str
    pictures: tuple[PagePicture, ...] = ()
    fault: str = ""
    text: str | None = None
    addresses: tuple[str, ...] = ()
    odd: bool = False
