"""Every page of a TIFF as a JPEG.

Runs in a worker process; needs pyvips and Pillow installed. Reads the source file, writes one JPEG per page
into the scratch folder, in page order: upright, sRGB or grey, without metadata. Overviews of a pyramid and
masks are not pages. A picture of another kind under a TIFF's name (a JPEG called scan.tif) is converted all
the same. Deterministic: the same bytes and options give the same JPEGs. Refuses with the codes of
`tools.refusals`.
"""

from typing import Annotated

from msgspec import Meta, Struct

from quire.model.step import OutputFile, StepInput, StepOutput
from quire.steps import image_input
from quire.tools.ipfs import DEFAULT_PROFILE, file_cid
from quire.tools.refusals import MEGAPIXEL, PixelLimits


class TiffToJpegOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    all_pages: bool = True
    quality: Annotated[int, Meta(ge=1, le=100)] = 95
    max_pixels: int = 500 * MEGAPIXEL
    max_total_pixels: int = 10_000 * MEGAPIXEL
    cid_profile: str = DEFAULT_PROFILE


def run(step_input: StepInput) -> StepOutput:
    options = image_input.options_of(step_input, TiffToJpegOptions)
    limits = PixelLimits(max_pixels=options.max_pixels, max_total_pixels=options.max_total_pixels)
    source = step_input.source
    kind = image_input.content_type(source, "a TIFF")
    pages = image_input.pages(source, kind, limits, all_pages=options.all_pages)
    outputs = []
    step_input.meter.progress(0, len(pages))  # before a pixel is decoded: the time limit follows it
    for number, page in enumerate(pages, 1):
        target = step_input.folder / f"page-{number:05d}.jpg"
        width, height = image_input.page_to_jpeg(
            source, kind, page, target, quality=options.quality, limits=limits
        )
        facts = {
            "page": number,
            "pages": len(pages),
            "width": width,
            "height": height,
            "cid": file_cid(target, options.cid_profile),
        }
        outputs.append(OutputFile(role="jpeg", path=target, content_type="image/jpeg", facts=facts))
        step_input.meter.progress(number, len(pages))
    return StepOutput(files=tuple(outputs), facts={"pages": len(pages), "cid_profile": options.cid_profile})
