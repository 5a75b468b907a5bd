"""What every converter of PDFs gives: pages of Markdown, each with the pictures that it shows.

Names of pictures are the converter's own, as they stand in the links of the Markdown; whoever stores them
gives them others. Pages are counted from 1 and come in their order.
"""

from typing import NamedTuple


class Picture(NamedTuple):
    name: str
    data: bytes


class MarkdownPage(NamedTuple):
    """`fault` says why there is no Markdown; pictures may have come nevertheless."""

    number: int
    markdown: str
    pictures: tuple[Picture, ...] = ()
    fault: str = ""
