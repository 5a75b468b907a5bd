"""The `preprocess` pipeline: PDFs are split where that is asked for, TIFFs become JPEGs, then every web
picture becomes a reference with its smaller copies.

A value: pure functions over file records, called inside transactions and perhaps twice. An empty phase
moves on to the next. Nothing is lost on the way: PDFs and TIFFs stay in the list, marked as sources; a
picture's bytes stay in the store behind its reference; files of other kinds, uploaded references among them,
pass untouched.
"""

from collections.abc import Container

from quire.model.files import File, Product
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pace, Phase, Pipeline, from_product
from quire.model.work import StepResult
from quire.pipelines import naming, pdf_pages
from quire.steps.registry import STEPS

NAME = "preprocess"
QUEUE = "arke-preprocess-jobs"

SOURCE_TAG = "TiffConverter:source"
JPEG_TAG = "TiffConverter"
REFERENCE_TAG = "ImageProcessor"

WEB_PICTURES = frozenset({"image/jpeg", "image/jpg", "image/png", "image/webp"})
WEB_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
_SOURCE_TAGS = frozenset({SOURCE_TAG, pdf_pages.SOURCE_TAG})
_TIFF = "image/tiff"
_VARIANT_ROLES = ("thumb", "medium", "large")
_REFERENCE_ENDING = ".ref.json"
# A TIFF may have more pages than this, but not more pixels: one setting moves both limits.
_PAGES_OF_FULL_SIZE = 20
_PAGE_SECONDS = 120.0  # for one page of a PDF; the time for all of them is a setting
NO_PACE = Pace()
_HERE = frozenset({"", "local", "ray", "queue"})


def preprocess(
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
    tiff_timeout_seconds: float = 60.0,
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
    pdf_phase = Phase(
        name="PDF_SPLIT",
        task_prefix="pdf",
        step="pdf_split",
        step_version=STEPS["pdf_split"].version,
        finds=pdf_pages.PdfFilter(pdf_split),
        rivals=pdf_pages.rivals,
        becomes=pdf_pages.becomes,
        options={
            "pages": pdf_split,
            "dpi": pdf_dpi,
            "quality": pdf_quality,
            "max_pages": pdf_max_pages,
            "max_pixels": pdf_max_pixels,
            "max_total_bytes": pdf_max_total_bytes,
            "cid_profile": cid_profile,
        },
        timeout_seconds=pdf_timeout_seconds,
        stall_seconds=_PAGE_SECONDS,
        memory_mb=memory_mb,
        max_attempts=max_attempts,
        cache_by=STEPS["pdf_split"].reads,
        compute=pdf_compute,
    )
    tiff_conversion = Phase(
        name="TIFF_CONVERSION",
        task_prefix="tiff",
        step="tiff_to_jpeg",
        step_version=STEPS["tiff_to_jpeg"].version,
        finds=is_tiff,
        rivals=tiff_rivals,
        becomes=tiff_becomes,
        options={
            "quality": tiff_quality,
            "all_pages": all_pages,
            "max_total_pixels": max_pixels * _PAGES_OF_FULL_SIZE,
            **shared,
        },
        timeout_seconds=tiff_timeout_seconds,
        memory_mb=memory_mb,
        max_attempts=max_attempts,
        pace=tiff_pace,
        compute=tiff_compute,
        cached=tiff_compute in _HERE,
    )
    image_processing = Phase(
        name="IMAGE_PROCESSING",
        task_prefix="img",
        step="image_variants",
        step_version=STEPS["image_variants"].version,
        finds=is_web_picture,
        rivals=picture_rivals,
        becomes=picture_becomes,
        options={"public_url": public_url, "quality": variant_quality, **shared, **tiles},
        timeout_seconds=image_timeout_seconds,
        memory_mb=memory_mb,
        max_attempts=max_attempts,
        cache_by=STEPS["image_variants"].reads,
        pace=image_pace,
        compute=image_compute,
        cached=image_compute in _HERE,
    )
    return Pipeline(
        name=NAME,
        version=2,
        queue=QUEUE,
        phases=(pdf_phase, tiff_conversion, image_processing),
        left_alone={pdf_pages.CONTENT_TYPE: pdf_pages.LEFT_ALONE},
    )


def is_tiff(file: File) -> bool:
    return naming.is_tiff_name(file.name) or file.content_type.lower() == _TIFF


def tiff_rivals(file: File, result: StepResult) -> tuple[str, ...]:
    return naming.jpeg_rivals(file, len(_jpegs(result)))


def tiff_becomes(file: File, result: StepResult, taken: Container[str]) -> ListChange:
    """The TIFF stays, marked; its pages join the list."""
    jpegs = _jpegs(result)
    paths = naming.jpeg_paths(file, len(jpegs), taken)
    added = (
        AddedFile(file=from_product(jpeg, path=path, source=file, tags=(JPEG_TAG,)), role=jpeg.role)
        for jpeg, path in zip(jpegs, paths, strict=True)
    )
    tags = file.tags if SOURCE_TAG in file.tags else (*file.tags, SOURCE_TAG)
    return ListChange(kept=KeptFile(tags=tags), added=tuple(added))


def is_web_picture(file: File) -> bool:
    """By extension first: senders call a JPEG application/octet-stream. What TIFF_CONVERSION could not read
    is not tried again because of its extension, and sources are finished.
    """
    kind = file.content_type.lower()
    if kind == _TIFF or not _SOURCE_TAGS.isdisjoint(file.tags):
        return False
    return file.name.lower().endswith(WEB_EXTENSIONS) or kind in WEB_PICTURES


def picture_rivals(file: File, result: StepResult) -> tuple[str, ...]:
    return (file.path, *(file.path + _ending(product) for product in _products(result)))


def picture_becomes(file: File, result: StepResult, taken: Container[str]) -> ListChange:
    """The picture leaves the list; its reference takes its place, its copies hang on it unlisted."""
    added = (
        AddedFile(
            file=from_product(
                product, path=naming.beside(file, _ending(product), taken), source=file, tags=(REFERENCE_TAG,)
            ),
            role=product.role,
            listed=product.role == "ref",
        )
        for product in _products(result)
    )
    return ListChange(kept=None, added=tuple(added))


def _jpegs(result: StepResult) -> list[Product]:
    """In page order, whatever the order of the report."""
    found = [product for product in result.products if product.role == "jpeg"]
    return sorted(found, key=lambda product: int(product.facts.get("page", 1)))


def _products(result: StepResult) -> list[Product]:
    return [product for product in result.products if product.role == "ref" or product.role in _VARIANT_ROLES]


def _ending(product: Product) -> str:
    return _REFERENCE_ENDING if product.role == "ref" else f".{product.role}.jpg"
