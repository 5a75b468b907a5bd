"""lxml for HTML: bytes of a page to text, text to a tree.

Hardened: no network, no entities of documents, no huge trees (libxml2 cuts what is nested more than 256
deep), and only text encodings of the web are tried. Nothing raises: a page that is no HTML gives a small
tree or None.
"""

import codecs
import re
from typing import Any, TypeAlias

HtmlElement: TypeAlias = Any  # lxml has no types

_META = re.compile(rb"<meta[^<>]{0,200}?charset\s{0,4}=\s{0,4}[\"']?\s{0,4}([\w:.+-]{1,40})", re.IGNORECASE)
_HEADER = re.compile(r"charset\s{0,4}=\s{0,4}[\"']?([\w:.+-]{1,40})", re.IGNORECASE)
_META_BYTES = 4096
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Python knows more codecs than the web, and some of them (punycode) take quadratic time.
_WEB = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|(?:windows|cp)-?(?:125[0-8]|874|932|949)|iso-?8859-?\d{1,2}|latin-?1|us-ascii|ascii"
    r"|koi8-[ru]|(?:x-)?s(?:hift)?[-_]?jis|euc-(?:jp|kr)|iso-2022-jp|gb2312|gbk|gb18030|big5|macintosh|ibm866|tis-620"
)
_LATIN = re.compile(r"iso-?8859-?1|latin-?1|us-ascii|ascii")
_FORBIDDEN = re.compile("[\x00\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def decode_html(data: bytes, content_type: str = "") -> tuple[str, bool]:
    """The text, and whether every byte could be read.

    A byte order mark wins; then UTF-8 if the bytes are UTF-8, whatever was declared (wrong declarations are
    common, and text in another encoding is never valid UTF-8 by chance); then header and meta; then
    Windows-1252.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return _lenient(data[len(mark) :], name)
    declared = _declared(data, content_type)
    if declared.startswith(("utf-16", "utf16")) or _looks_utf16(data):
        return _lenient(data, "utf-16-be" if data[:1] == b"\x00" else "utf-16-le")
    if not (declared.startswith("iso-2022") and b"\x1b" in data):
        try:
            return data.decode("utf-8"), True
        except UnicodeDecodeError:
            pass
        if _mostly_utf8(data):
            return data.decode("utf-8", "replace"), False
    for name in (declared, "cp1252"):
        if name and not name.startswith("utf"):
            try:
                return data.decode(name), True
            except (UnicodeDecodeError, LookupError):
                continue
    return _lenient(data, declared if declared and not declared.startswith("utf") else "cp1252")


def parse_tree(text: str) -> HtmlElement | None:
    """The tree of a page or of a piece of one; None if there is nothing in it."""
    from lxml import etree, html

    if not text.strip():
        return None
    parser = html.HTMLParser(
        encoding="utf-8",
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=True,
    )
    clean = _FORBIDDEN.sub(" ", text)
    try:
        return html.document_fromstring(
            clean.encode("utf-8", "replace"), parser=parser, ensure_head_body=False
        )
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def _declared(data: bytes, content_type: str) -> str:
    header = _HEADER.search(content_type[:400])
    meta = _META.search(data[:_META_BYTES])
    for name in (header[1] if header else "", meta[1].decode("ascii", "replace") if meta else ""):
        lower = name.casefold()
        if lower and _WEB.fullmatch(lower):
            # The web reads Latin-1 as Windows-1252, in which its quotation marks are.
            known = {"macintosh": "mac_roman", "x-sjis": "cp932", "ibm866": "cp866", "gb2312": "gb18030"}
            return "cp1252" if _LATIN.fullmatch(lower) else known.get(lower, lower)
    return ""


def _looks_utf16(data: bytes) -> bool:
    head = data[:200]
    return len(head) >= 20 and head.count(0) > len(head) // 3


def _mostly_utf8(data: bytes) -> bool:
    """A UTF-8 page with a few broken bytes, and not a page in another encoding."""
    high = sum(1 for byte in data if byte >= 0x80)
    broken = data.decode("utf-8", "replace").count("\ufffd")
    return broken * 20 < high


def _lenient(data: bytes, name: str) -> tuple[str, bool]:
    try:
        return data.decode(name), True
    except UnicodeDecodeError:
        return data.decode(name, "replace"), False
