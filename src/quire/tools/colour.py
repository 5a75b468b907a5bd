"""Converts pictures of any colour space to plain 8-bit sRGB or grey, without transparency.

Works with the operations of a libvips picture (handed in as `Any`, since pyvips has no types) and never
loads one. The order below comes from wrong results: float with a profile turned black, LAB with
alpha turned white, infra-red bands were taken for transparency.
"""

from functools import lru_cache
from typing import Any

from quire.tools import refusals

_COLOUR_BANDS = {"b-w": 1, "grey16": 1, "cmyk": 4}  # all others have 3
_LAB = {"lab", "labs", "labq"}
_WHITE = 255


def plain(picture: Any, *, bits: int = 8, extra_sample: int | None = None) -> Any:
    """`bits` and `extra_sample` are what a TIFF says of its samples (see `tiff.TiffPage`)."""
    picture = _without_foreign_bands(picture, extra_sample)
    if picture.format in {"complex", "dpcomplex"}:
        raise refusals.unsupported("its samples are complex numbers, which have no colour")
    # Black and white stay so under every profile; the transform would cost more than the decoding.
    if bits > 1 and picture.format in {"uchar", "ushort"} and profile_matters(picture):
        grey = picture.interpretation in {"b-w", "grey16"}
        picture = picture.icc_transform("srgb", embedded=True, depth=8)
        picture = picture.colourspace("b-w") if grey else picture
    else:
        picture = _without_profile(picture)
    return on_white(picture)


def on_white(picture: Any) -> Any:
    return picture.flatten(background=_WHITE) if picture.hasalpha() else picture


def profile_matters(picture: Any) -> bool:
    """Whether there is a profile other than sRGB. Skipping sRGB profiles saves a third of the time."""
    if not picture.get_typeof("icc-profile-data"):
        return False
    three_colours = picture.interpretation in {"srgb", "rgb", "rgb16"}
    return not (three_colours and _is_srgb(picture.get("icc-profile-data")))


@lru_cache(maxsize=64)
def _is_srgb(profile: bytes) -> bool:
    """Tested on a cube of colours, not by name: names of profiles are not reliable."""
    import pyvips

    steps = range(0, 256, 51)
    cube = bytes(level for red in steps for green in steps for blue in steps for level in (red, green, blue))
    sample = pyvips.Image.new_from_memory(cube, len(cube) // 3, 1, 3, "uchar").copy(interpretation="srgb")
    sample.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    return bool((sample - sample.icc_transform("srgb", embedded=True, depth=8)).abs().max() <= 2)


def _without_foreign_bands(picture: Any, extra_sample: int | None) -> Any:
    """Colours and at most one band of true transparency."""
    colours = _COLOUR_BANDS.get(picture.interpretation, 3)
    if picture.interpretation == "multiband":
        colours = 3 if picture.bands >= 3 else 1
        picture = picture.copy(interpretation="srgb" if colours == 3 else "b-w")
    # The alpha of LAB has a range of its own and comes out as fully transparent; unspecified samples may be
    # anything, infra-red for one.
    with_alpha = picture.bands > colours and extra_sample != 0 and picture.interpretation not in _LAB
    wanted = colours + with_alpha
    return picture.extract_band(0, n=wanted) if picture.bands > wanted else picture


def _without_profile(picture: Any) -> Any:
    grey = picture.interpretation in {"b-w", "grey16"}
    if picture.format == "uint":
        picture = (picture / (1 << 24)).cast("uchar").copy(interpretation="b-w" if grey else "srgb")
    elif picture.format in {"char", "short", "int"} and picture.interpretation not in _LAB:
        picture = _stretch(picture)
    elif grey and picture.format in {"float", "double"}:
        # libvips expects 0 to 255 here and makes a picture of 0 to 1 black.
        unit = picture.min() >= 0 and picture.max() <= 1
        picture = (
            picture.bandjoin([picture, picture]).copy(interpretation="scrgb") if unit else _stretch(picture)
        )
    return picture.colourspace("b-w" if grey else "srgb")


def _stretch(picture: Any) -> Any:
    """Scale the lowest value to black and the highest to white, where the format defines no white."""
    low, high = picture.min(), picture.max()
    scale = _WHITE / (high - low) if high > low else 0
    interpretation = "b-w" if picture.bands == 1 else "srgb"
    return ((picture - low) * scale).cast("uchar").copy(interpretation=interpretation)


def needs_two_passes(picture: Any) -> bool:
    """Whether the range of values must be known first: then the picture cannot be streamed."""
    signed = picture.format in {"char", "short", "int"} and picture.interpretation not in _LAB
    return signed or (
        picture.format in {"float", "double"} and picture.interpretation in {"b-w", "multiband"}
    )
