"""What the outputs of a remote worker are called, and what they do to the file list, in a batch that flows.

Published workers say only where an output is stored; the rest is that of the same step in a worker process.
"""

from msgspec import structs

from quire.compute.remote.output_keys import JPEG, REFERENCE
from quire.model.files import Change, File, Product, stem_and_extension
from quire.model.work import StepResult

SOURCE_TAG = "TiffConverter:source"
JPEG_TAG = "TiffConverter"
REFERENCE_TAG = "ImageProcessor"


def lay_out(step: str, source: File, result: StepResult) -> StepResult:
    """The result with the names, changes and tags of its outputs."""
    products = tuple(_lay_out_product(source, one) for one in result.products)
    tags = (SOURCE_TAG,) if step == "tiff_to_jpeg" else ()
    return structs.replace(result, products=products, tags=tags)


def _lay_out_product(source: File, product: Product) -> Product:
    if product.role == JPEG:
        page = int(product.facts.get("page", 1))
        stem = stem_and_extension(source.name)[0]
        ending = ".jpg" if page == 1 else f"-p{page:03d}.jpg"
        return structs.replace(
            product, name=ending[1:], preferred=stem + ending, change=Change.JOIN, tags=(JPEG_TAG,)
        )
    if product.role == REFERENCE:
        return structs.replace(product, name="ref.json", change=Change.REPLACE, tags=(REFERENCE_TAG,))
    return structs.replace(product, name=f"{product.role}.jpg", tags=(REFERENCE_TAG,))
