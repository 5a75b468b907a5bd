"""A page as lines, in reading order, with what is known of each: heading, item of a list, class names.

Every element is visited once. What is not part of the text (navigation, comments, scripts, forms) is left
out.
"""

import re
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from quire.steps.recipe.cooking_words import Part, part_of_heading
from quire.tools.html_tree import HtmlElement

_SKIPPED = frozenset("""
script style noscript template svg select option iframe object head nav footer textarea math
video audio canvas dialog
""".split())  # fmt: skip
_MAYBE = frozenset({"aside", "button"})
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_LABELS = frozenset({"dt", "th", "legend", "caption", "summary"})
_BOLD = frozenset({"b", "strong"})
_INLINE = frozenset("""
a abbr b bdi bdo big cite code data del em font i img input ins kbd label mark meta link nobr picture q s
samp small source span strike strong sub sup time tt u var wbr
""".split())  # fmt: skip
_COMPLEX = ("li", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol")
_BLOCKS_OF_ROWS = (
    "p",
    "div",
    "ul",
    "ol",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dl",
    "section",
    "article",
)
_LEFT_OUT = re.compile(
    r"(?:^|[\s_-])(?:comments?|respond|sidebar|breadcrumbs?|cookie-(?:banner|notice|consent|bar|popup)|newsletter|tagcloud|widget|related|social|share"
    r"|sharing|sr-only|screen-reader-text|visually-hidden|"
    r"advert(?:isement)?|popup|modal|pagination|site-footer|site-header|skip-link|toc|comment-list"
    r"|comment-respond)(?:$|[\s_-])"
)
_ABOUT_THE_POST = ("tag-", "category-", "cat-", "post-", "postid-", "recipe_")
_HINTS = (
    ("ingredients", re.compile(r"ingr[eé]dient|zutat|(?:^|[\s_-])ing(?:s|-?list)(?:$|[\s_-])")),
    ("steps", re.compile(
        r"instruction|(?:^|[\s_-])(?:directions?|method|methods?|procedure|preparation-?steps?|steps"
        r"|recipe-?steps?|step-?list|how-?to-?(?:list|steps?))(?:$|[\s_-])|zubereitung")),
    ("notes", re.compile(r"(?:^|[\s_-])(?:recipe-?)?(?:notes?|tips)(?:$|[\s_-])|nutrition")),
    ("title", re.compile(r"recipe[-_]?(?:title|name)|(?:^|[\s_-])entry-title(?:$|[\s_-])")),
)  # fmt: skip
_SPACES = re.compile(r"\s+")
_MOST_LINES = 4_000
_MOST_ELEMENTS = 25_000
_MOST_DEPTH = 300
_LOOKED_AT = 1000  # nodes; each of many within each other is looked at
PSEUDO_HEADING = 7


class PageLine(Struct):
    """level: 1 to 6 for headings, 7 for lines that are only bold, or labels; 0 for others
    item:  number of the list in which the line is an item; 0 outside of lists
    hint:  what the classes of the elements around it call it
    """

    text: str
    level: int = 0
    item: int = 0
    hint: str = ""


class _Around(Struct):
    """What holds for everything inside of an element."""

    hint: str = ""
    level: int = 0
    list_number: int = 0
    in_item: bool = False
    joined: bool = False
    bold: bool = False


def page_lines(root: HtmlElement) -> list[PageLine]:
    """The lines of the page."""
    walk = _Walk()
    walk.enter(root, _Around(), 0)
    walk.flush()
    return walk.lines


def block_lines(element: HtmlElement) -> list[str]:
    """The lines of one element: its items, paragraphs, and what line breaks part."""
    walk = _Walk()
    walk.enter(element, _Around(), 0)
    walk.flush()
    return [line.text for line in walk.lines]


def inline_text(element: HtmlElement, most_nodes: int | None = None) -> str:
    """All text of an element in one line, with spaces between its blocks; that of its first nodes if there
    are more.
    """
    parts: list[str] = []
    for node in islice(element.iter(), most_nodes):
        if not isinstance(node.tag, str) or node.tag in {"script", "style"}:
            continue
        if node.tag not in _INLINE:
            parts.append(" ")
        parts.append(node.text or "")
        if node is not element and node.tail:
            parts.append(" " if node.tag not in _INLINE else "")
            parts.append(node.tail)
    return _SPACES.sub(" ", "".join(parts)).strip()


@lru_cache(maxsize=2048)
def _read_classes(names: str) -> tuple[bool, str]:
    """Whether the element is left out, and its hint."""
    # What a post is about stands in its classes, too: `category-cookie`, `tag-social`.
    lower = " ".join(name for name in names.casefold().split() if not name.startswith(_ABOUT_THE_POST))
    hints = [hint for hint, pattern in _HINTS if pattern.search(lower)]
    left_out = bool(_LEFT_OUT.search(lower)) and not hints
    # `ingredients-and-instructions` says nothing about its parts.
    return left_out, "" if "ingredients" in hints and "steps" in hints else hints[0] if hints else ""


def _is_of_recipe(element: HtmlElement) -> bool:
    """Whether what is rarely text belongs to the recipe: a column of ingredients, a tab `Method`."""
    text = inline_text(element, _LOOKED_AT)
    if element.tag == "button":
        return part_of_heading(text) in {Part.INGREDIENTS, Part.STEPS, Part.NOTES}
    return "ingredient" in text[:1000].casefold() or "zutaten" in text[:1000].casefold()


class _Walk:
    def __init__(self) -> None:
        self.lines: list[PageLine] = []
        self._text: list[str] = []
        self._plain = self._bold = 0
        self._around = _Around()
        self._lists = self._elements = 0

    def flush(self) -> None:
        text = _SPACES.sub(" ", "".join(self._text)).strip()
        around, bold, plain = self._around, self._bold, self._plain
        self._text.clear()
        self._plain = self._bold = 0
        if not text or len(self.lines) >= _MOST_LINES:
            return
        level = around.level
        if not level and bold and not plain and len(text) <= 80 and not around.in_item:
            level = PSEUDO_HEADING
        item = around.list_number if around.in_item else 0
        self.lines.append(PageLine(text, level, item, around.hint))

    def enter(self, element: HtmlElement, outer: _Around, depth: int) -> None:
        tag = element.tag
        if (
            not isinstance(tag, str)
            or tag in _SKIPPED
            or (tag in _MAYBE and not _is_of_recipe(element))
            or depth > _MOST_DEPTH
            or len(self.lines) >= _MOST_LINES
            or self._elements >= _MOST_ELEMENTS
            or element.get("hidden") == "hidden"
        ):
            return
        self._elements += 1
        around = self._inside(element, tag, outer)
        if around is None:
            return
        block = tag not in _INLINE and not outer.joined
        if tag == "br":
            if outer.joined:
                self._add(" ", outer)
            else:
                self.flush()
                self._around = outer
            return
        if block or (outer.joined and tag not in _INLINE):
            self._break(outer)
        if block:
            self._around = around
        self._add(element.text, around)
        for child in element:
            self.enter(child, around, depth + 1)
            if child.tail:
                if not self._text and not around.joined:
                    self._around = around
                self._add(child.tail, around)
        if block or (outer.joined and tag not in _INLINE):
            self._break(outer)

    def _inside(self, element: HtmlElement, tag: str, outer: _Around) -> _Around | None:
        """What holds inside of the element; None if it is left out."""
        names = f"{element.get('class') or ''} {element.get('id') or ''}"[:400]
        hint = outer.hint
        if names != " " and tag not in {"body", "html", "main", "article"}:
            left_out, own = _read_classes(names)
            if left_out:
                return None
            hint = own or hint
        level, joined, in_item, list_number = outer.level, outer.joined, outer.in_item, outer.list_number
        if tag in {"ul", "ol"}:
            self._lists += 1
            list_number, in_item = self._lists, False
        elif tag == "li" and list_number:
            # Without end tags, as in old pages, the next items are inside of this one.
            in_item, joined = True, joined or next(element.iterdescendants(*_COMPLEX), None) is None
            if next(element.iter(*_HEADINGS), None) is not None:
                in_item = False
        elif tag in _HEADINGS:
            level, joined, in_item = _HEADINGS[tag], True, False
        elif tag in _LABELS or tag == "button":
            level = level or PSEUDO_HEADING
        elif tag == "tr" and next(element.iter(*_BLOCKS_OF_ROWS), None) is None and self._is_row(element):
            self._lists += not in_item
            joined, in_item, list_number = True, True, list_number or 1_000_000
            level = PSEUDO_HEADING if all(cell.tag == "th" for cell in element) and len(element) else 0
            self._reorder(element)
        bold = outer.bold or tag in _BOLD
        return _Around(hint, level, list_number, in_item, joined, bold)

    @staticmethod
    def _is_row(row: HtmlElement) -> bool:
        """Whether the cells make up one line, and are not columns of a layout."""
        return len(row) <= 6 and all(len(cell.findall(".//br")) <= 1 for cell in row)

    @staticmethod
    def _reorder(row: HtmlElement) -> None:
        """`flour | 2 cups` reads `2 cups flour`."""
        cells = [cell for cell in row if isinstance(cell.tag, str)]
        if len(cells) == 2 and cells[1].tag == "td":
            first, last = inline_text(cells[0])[:1], inline_text(cells[1])
            if first.isalpha() and re.match(r"[\d½¼¾⅓⅔⅛]", last) and len(last.split()) <= 3:
                row.remove(cells[1])
                row.insert(0, cells[1])

    def _break(self, outer: _Around) -> None:
        if outer.joined:
            self._text.append(" ")
        else:
            self.flush()
            self._around = outer

    def _add(self, text: str | None, around: _Around) -> None:
        if not text:
            return
        self._text.append(text)
        letters = len(text.strip())
        if around.bold:
            self._bold += letters
        elif text.strip(" \n\t\r:*"):
            self._plain += letters
