"""Whether nothing is on a picture: the same everywhere, or the noise of a scanner on blank paper.

Promises: says so only where it is certain. Noise is told by what it does when the picture is made smaller:
it fades like chance does and has no outliers, while a stroke, however faint, stays where it is. Dust, folds,
shadows with an edge, textures and pictures that are too small to tell are not nothing.
"""

from typing import Any

from quire.tools import vips
from quire.tools.pdfium import PageBitmap

_UNSEEN = 8  # levels of 255
_WIDEST = 150  # of noise and light together; a page of black print is not looked at further
_FIRST = 4  # pixels across that become one
_STEPS = 3  # each half as large as the one before
_LEAST_SIDE = 40  # pixels, of the smallest
_BACKGROUND = 8.0  # what is wider than that, in a step, is light and no stroke
_LOUDEST = 2.0  # levels, after the first step; louder noise could hide a pencil
_QUIETEST = 0.1
_OUTLIER = 5.5  # standard deviations: chance gives 5 among a million
_FADING = 0.75  # at most so much is left of noise after a step; half of it when it is pure
_SKEWED = 0.12
_FINE = 64  # shades of a level, for counting


def is_empty(bitmap: PageBitmap) -> bool:
    picture: Any = vips.from_pixels(*bitmap)
    span = picture.max() - picture.min()
    if span <= _UNSEEN:
        return True
    if span > _WIDEST or min(bitmap.width, bitmap.height) < _LEAST_SIDE * _FIRST * 2 ** (_STEPS - 1):
        return False
    small = _shrink(picture.cast("float"), _FIRST).copy_memory()
    if bitmap.bands == 1:
        return _is_noise(small)
    grey = small.bandmean()
    # Of colours, JPEG keeps blocks rather than noise: what could be seen counts.
    return _is_noise(grey) and bool(_without_light(small - grey).abs().max() <= _UNSEEN)


def _is_noise(small: Any) -> bool:
    """Of one band, after the first step."""
    most = _LOUDEST
    for _ in range(_STEPS):
        strokes = _without_light(small)
        spread = max(_find_spread(strokes), _QUIETEST)
        if spread > most or strokes.abs().max() > _OUTLIER * spread or _find_skew(strokes) > _SKEWED:
            return False
        small, most = _shrink(small, 2), max(_FADING * spread, _QUIETEST)
    return True


def _find_skew(picture: Any) -> float:
    """How much more the dark samples stand out than the light ones, or the other way round. Noise has both
    alike, and ink, however much of it, has one.
    """
    return abs(float((picture**3).avg())) / max(float(picture.deviate()), _QUIETEST) ** 3


def _shrink(picture: Any, factor: int) -> Any:
    """Without what is left over at the edges: an average of fewer pixels would stand out."""
    whole = picture.crop(0, 0, picture.width // factor * factor, picture.height // factor * factor)
    return whole.shrink(factor, factor)


def _without_light(small: Any) -> Any:
    return small - small.gaussblur(_BACKGROUND)


def _find_spread(picture: Any) -> float:
    """Half of what the middle two thirds of the samples span: the standard deviation, if it is noise."""
    counted = (picture * _FINE + (1 << 15)).rint().cast("ushort")
    return float(counted.percent(84.13) - counted.percent(15.87)) / 2 / _FINE
