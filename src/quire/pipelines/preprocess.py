"""The `preprocess` pipeline: PDFs are split where that is asked for, TIFFs become JPEGs, then every web
picture becomes a reference with its smaller copies.

Nothing is lost on the way: PDFs and TIFFs stay in the list, marked as sources; a picture's bytes stay in the
store behind its reference; files of other kinds, uploaded references among them, pass untouched.
"""

from quire import Pipeline
from quire.model.asset import TILES
from quire.model.files import Change
from quire.model.output_rules import OutputRule
from quire.model.plan import Pace
from quire.pipelines import pdf_pages
from quire.steps.registry import STEPS

NAME = "preprocess"
QUEUE = "arke-preprocess-jobs"

SOURCE_TAG = "TiffConverter:source"
JPEG_TAG = "TiffConverter"
REFERENCE_TAG = "ImageProcessor"

TIFFS = ("*.tif", "*.tiff", "image/tiff")
# By extension, too: senders call a JPEG application/octet-stream. What TIFF_CONVERSION could not read is not
# tried again because of its extension, and sources are finished.
WEB_PICTURES = (
    *("image/jpeg", "image/jpg", "image/png", "image/webp"),
    *("*.jpg", "*.jpeg", "*.png", "*.webp"),
    *("!image/tiff", f"!tag:{SOURCE_TAG}", f"!tag:{pdf_pages.SOURCE_TAG}"),
)
JPEGS = (
    OutputRule(
        role="jpeg",
        from_page=2,
        name="p{page:03d}.jpg",
        preferred="{stem}-p{page:03d}.jpg",
        change=Change.JOIN,
        tags=(JPEG_TAG,),
    ),
    OutputRule(role="jpeg", name="jpg", preferred="{stem}.jpg", change=Change.JOIN, tags=(JPEG_TAG,)),
)
# The reference takes the picture's place, its copies hang on it; tiles belong to the asset alone.
REFERENCES = (
    OutputRule(role="ref", name="ref.json", change=Change.REPLACE, tags=(REFERENCE_TAG,)),
    *(
        OutputRule(role=role, name=f"{role}.jpg", tags=(REFERENCE_TAG,))
        for role in ("thumb", "medium", "large")
    ),
    OutputRule(role=TILES, is_file=False),
)
# A TIFF may have more pages than this, but not more pixels: one setting moves both limits.
_PAGES_OF_FULL_SIZE = 20
_PAGE_SECONDS = 120.0  # for one page of a PDF; the time for all of them is a setting
NO_PACE = Pace()
_HERE = frozenset({"", "local", "ray", "queue"})


def build_preprocess(
    *,
    public_url: str = "http://localhost:8787",
    tiff_quality: int = 95,
    variant_quality: int = 85,
    all_pages: bool = True,
    max_pixels: int = 500_000_000,
    cid_profile: str = "unixfs-v1-2025",
    pdf_split: str = "none",
    pdf_dpi: int = 200,
    pdf_quality: int = 95,
    pdf_max_pages: int = 10_000,
    pdf_max_pixels: int = 150_000_000,
    pdf_max_total_bytes: int = 10_000_000_000,
    pdf_timeout_seconds: float = 3600.0,
    pdf_page_seconds: float = 5.0,
    tiff_timeout_seconds: float = 60.0,
    tiff_page_seconds: float = 10.0,
    image_timeout_seconds: float = 120.0,
    memory_mb: int = 2048,
    max_attempts: int = 3,
    tiff_pace: Pace = NO_PACE,
    image_pace: Pace = NO_PACE,
    pdf_compute: str = "",
    tiff_compute: str = "",
    image_compute: str = "",
    tile_size: int = 0,
    tiles_above: int = 2400,
) -> Pipeline:
    """`public_url` is where assets are served; `max_pixels` is the limit per page, judged before decoding.
    `pdf_split` is for PDFs whose own configuration says nothing. With `tile_size`, pictures whose longest
    side is more than `tiles_above` get tiles.

    Results of remote steps are not cached: other programs may produce them, and they are stored with the
    batch and deleted with it.
    """
    shared = {"max_pixels": max_pixels, "cid_profile": cid_profile}
    # Left out when there are none, so that cached results from before tiles existed stay valid.
    tiles = {"tile_size": tile_size, "tiles_above": tiles_above} if tile_size else {}
    preprocess = Pipeline(
        NAME,
        version=2,
        queue=QUEUE,
        left_alone={pdf_pages.CONTENT_TYPE: pdf_pages.LEFT_ALONE},
        from_settings=True,
    )
    preprocess.add(
        STEPS["pdf_split"],
        phase="PDF_SPLIT",
        task_prefix="pdf",
        accepts=pdf_pages.choose_accepted(pdf_split),
        renames=(".pdf",),
        outputs=pdf_pages.PAGES,
        tags=(pdf_pages.SOURCE_TAG,),
        options={
            "pages": pdf_split,
            "dpi": pdf_dpi,
            "quality": pdf_quality,
            "max_pages": pdf_max_pages,
            "max_pixels": pdf_max_pixels,
            "max_total_bytes": pdf_max_total_bytes,
            "cid_profile": cid_profile,
        },
        timeout=pdf_timeout_seconds,
        page_timeout=pdf_page_seconds,
        stall=_PAGE_SECONDS,
        memory_mb=memory_mb,
        retries=max_attempts - 1,
        runs_on=pdf_compute,
    )
    preprocess.add(
        STEPS["tiff_to_jpeg"],
        phase="TIFF_CONVERSION",
        task_prefix="tiff",
        accepts=TIFFS,
        renames=(".tif", ".tiff"),
        outputs=JPEGS,
        tags=(SOURCE_TAG,),
        options={
            "quality": tiff_quality,
            "all_pages": all_pages,
            "max_total_pixels": max_pixels * _PAGES_OF_FULL_SIZE,
            **shared,
        },
        timeout=tiff_timeout_seconds,
        page_timeout=tiff_page_seconds,
        stall=tiff_timeout_seconds,  # a page is as long as a TIFF of one page
        memory_mb=memory_mb,
        retries=max_attempts - 1,
        pace=tiff_pace,
        runs_on=tiff_compute,
        cached=tiff_compute in _HERE,
    )
    preprocess.add(
        STEPS["image_variants"],
        phase="IMAGE_PROCESSING",
        task_prefix="img",
        accepts=WEB_PICTURES,
        outputs=REFERENCES,
        options={"public_url": public_url, "quality": variant_quality, **shared, **tiles},
        timeout=image_timeout_seconds,
        memory_mb=memory_mb,
        retries=max_attempts - 1,
        pace=image_pace,
        runs_on=image_compute,
        cached=image_compute in _HERE,
    )
    return preprocess
