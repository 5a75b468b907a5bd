"""What the `preprocess` pipeline does with PDFs: which are split, and how their pages join the list.

Pure functions over file records. A PDF is left alone unless its own `processing_config` or the setting says
otherwise. It stays in the list, tagged as a source; pages are added. Pages that are PDFs are not split again.
"""

from collections.abc import Container

from msgspec import Struct

from quire.model.files import File, Product
from quire.model.pipeline import AddedFile, KeptFile, ListChange, from_product
from quire.model.work import StepResult
from quire.pipelines import naming
from quire.steps.page_choice import IMAGE_ROLE, PDF_ROLE, read_choice

SOURCE_TAG = "PdfSplitter:source"
PAGE_TAG = "PdfSplitter"
CONTENT_TYPE = "application/pdf"
LEFT_ALONE = (
    "PDFs are split only where that is asked for, and for this one pdf_pages is none; nothing was made of "
    "the file. Set preprocess.pdf_pages, or pdf_pages in its processing_config, to images, pdfs or both."
)
_EXTENSIONS = {IMAGE_ROLE: ".jpg", PDF_ROLE: ".pdf"}


class PdfFilter(Struct, frozen=True):
    """Whether the file needs to be split. An unknown choice counts as yes, so that the step refuses it
    instead of ignoring it silently.
    """

    default: str

    def __call__(self, file: File) -> bool:
        if not is_pdf(file) or PAGE_TAG in file.tags:
            return False
        return bool(read_choice(file.processing_config, self.default) != "none")


def is_pdf(file: File) -> bool:
    return naming.is_pdf_name(file.name) or file.content_type.lower() == CONTENT_TYPE


def rivals(file: File, result: StepResult) -> tuple[str, ...]:
    return naming.page_rivals(file, _count(result))


def becomes(file: File, result: StepResult, taken: Container[str]) -> ListChange:
    """The PDF stays, marked; its pages join the list."""
    bases = naming.page_bases(file, _count(result), taken)
    added = (
        AddedFile(
            file=from_product(
                product,
                path=bases[_page(product) - 1] + _EXTENSIONS[product.role],
                source=file,
                tags=(PAGE_TAG,),
            ),
            role=product.role,
        )
        for product in sorted(_pages(result), key=_order)
    )
    tags = file.tags if SOURCE_TAG in file.tags else (*file.tags, SOURCE_TAG)
    return ListChange(kept=KeptFile(tags=tags), added=tuple(added))


def _pages(result: StepResult) -> list[Product]:
    return [product for product in result.products if product.role in _EXTENSIONS]


def _count(result: StepResult) -> int:
    return max(map(_page, _pages(result)), default=0)


def _page(product: Product) -> int:
    return int(product.facts.get("page", 1))


def _order(product: Product) -> tuple[int, str]:
    """In page order, whatever the order of the report."""
    return _page(product), product.role
