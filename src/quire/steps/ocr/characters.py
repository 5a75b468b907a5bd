"""Which characters of a recognised text may be written, into plain text, XML and PDF alike.

Engines and the text layers of strangers give control characters, lone surrogates and noncharacters, which XML
cannot hold at all, and form feeds, which would end a page. Promise: what is given back can be encoded as
UTF-8, is legal in XML 1.0, and has no line breaks but line feeds. Pure.
"""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ILLEGAL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_NONCHARACTERS = re.compile(
    "[" + "".join(f"{chr(p << 16 | 0xFFFE)}{chr(p << 16 | 0xFFFF)}" for p in range(1, 17)) + "]"
)


def clean_text(text: str) -> str:
    """The text of a page or paragraph: with its lines."""
    return _replace(_BREAKS.sub("\n", text))


def clean_word(text: str) -> str:
    """A word or another text of one line, without spaces around it."""
    return " ".join(_replace(_BREAKS.sub(" ", text)).split())


def _replace(text: str) -> str:
    return _NONCHARACTERS.sub(REPLACEMENT, _ILLEGAL.sub(REPLACEMENT, text))
