"""What every converter of PDFs gives: pages of Markdown, each with the pictures that it shows.

Names of pictures are the converter's own, as they stand in the links of the Markdown; whoever stores them
gives them others. Pages are counted from 1 and come in their order.
"""

from typing import NamedTuple


class PagePicture(NamedTuple):
    name: str
    data: bytes


class MarkdownPage(NamedTuple):
    """`fault` says why there is no Markdown; pictures may have come nevertheless.

    A converter that tells what it read can be judged by it: `text` is all text of the page in the order of
    its content, before any layout, and `addresses` are those of its links. `odd`: there is a font that it may
    have read wrongly.
    """

    number: int
    markdown: str
    pictures: tuple[PagePicture, ...] = ()
    fault: str = ""
    text: str | None = None
    addresses: tuple[str, ...] = ()
    odd: bool = False
