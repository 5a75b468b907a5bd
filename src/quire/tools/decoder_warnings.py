"""What decoders complain about without failing, and which of it is harmless: the only list of that.

Promise: a warning that is not in the list is a refusal, because decoders show missing data as grey or
smeared areas and only warn. The list is of oddities of real writers that cost no pixel; each entry has a
file in tests/documents/test_decoder_warnings.py. Warnings of libvips are heard while `listening`: they come
from its threads, so a process must not decode two pictures at the same time.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from quire.tools import refusals

_MOST_HEARD = 1000  # the first one that matters is enough
_LOGGER = logging.getLogger("pyvips")  # which passes on what libvips logs, as "VIPS: …"

# Entries of a TIFF directory that say how pixels are to be read: without them others come out.
_OF_PIXELS = (
    "Predictor|FillOrder|PlanarConfiguration|SampleFormat|BitsPerSample|SamplesPerPixel|Compression|"
    "PhotometricInterpretation|ExtraSamples|ColorMap|JPEGTables|Group3Options|Group4Options|"
    "YCbCrSubsampling|YCbCrCoefficients|ReferenceBlackWhite|RowsPerStrip|TileWidth|TileLength|Orientation"
)
_HARMLESS = tuple(
    re.compile(pattern)
    for pattern in (
        # libtiff, of entries in a directory that no pixel depends on; what is missing then is an error.
        rf'^Incorrect count for "(?!(?:{_OF_PIXELS})")\w+"; tag ignored$',
        r'^incorrect count for field "\w+", expected \d+, got \d+$',  # the value is read all the same
        r"^Tag \w+ entry count is \d+ , whereas it should be SamplesPerPixel=\d+\.",
        r'^ASCII value for tag "\w+" (?:does not end in|contains) null byte',
        r"^Invalid TIFF directory; tags are not sorted in ascending order$",
        # Of uncompressed pixels: their size follows from that of the picture.
        r'^TIFF directory is missing required "StripByteCounts" field, calculating from imagelength$',
        r'^Bogus "StripByteCounts" field, ignoring and calculating from imagelength$',
        # libjpeg within a TIFF: a strip that is filled up to a whole word.
        r"^Corrupt JPEG data: [1-8] extraneous bytes before marker 0xd9$",
        # libpng, of chunks that no pixel depends on: their name comes first. Those of pixels are upper case.
        r"^[a-z][A-Za-z]{3}: ",
        # LittleCMS, of profiles: colours are then taken as sRGB, or another way of transforming them is used.
        r"^(?:corrupt profile|not an ICC profile, invalid signature)$",
        r"^fallback to suggested \w+ intent, as profile does not support",
    )
)
# Of a JPEG that was closed meanwhile: each has been judged when it was read.
_OF_ANOTHER = re.compile(r"^$|^read gave \d+ warnings$|^VipsJpeg: ")
_CUT_OFF = re.compile(r"premature end|truncat|unexpected end", re.IGNORECASE)


@contextmanager
def listening() -> Iterator[list[str]]:
    """The warnings that libvips logs meanwhile, as a list that grows."""
    ear = _Ear()
    _LOGGER.addHandler(ear)
    try:
        yield ear.heard
    finally:
        _LOGGER.removeHandler(ear)


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage().removeprefix("VIPS: ").strip()
        if len(self.heard) < _MOST_HEARD and not _OF_ANOTHER.search(words) and not _is_harmless(words):
            self.heard.append(words)


def check(heard: Iterable[str]) -> None:
    """Refuse a picture for the first warning that is not harmless."""
    for words in heard:
        if not _is_harmless(words):
            raise refusals.truncated(words) if _CUT_OFF.search(words) else refusals.corrupt(words)


def _is_harmless(words: str) -> bool:
    return any(one.search(words) for one in _HARMLESS)
