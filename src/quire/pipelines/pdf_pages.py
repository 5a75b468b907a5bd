"""What the `preprocess` pipeline does with PDFs: which are split, and how their pages join the list.

A PDF is left alone unless its own `processing_config` or the setting says otherwise. It stays in the list,
tagged as a source; pages are added. Pages that are PDFs are not split again.
"""

from quire.model.files import Change
from quire.model.output_rules import OutputRule
from quire.steps.page_choice import CONFIG_KEY, IMAGE_ROLE, PDF_ROLE

SOURCE_TAG = "PdfSplitter:source"
PAGE_TAG = "PdfSplitter"
CONTENT_TYPE = "application/pdf"
LEFT_ALONE = (
    "PDFs are split only where that is asked for, and for this one pdf_pages is none; nothing was made of "
    "the file. Set preprocess.pdf_pages, or pdf_pages in its processing_config, to images, pdfs or both."
)
PAGES = tuple(
    OutputRule(
        role=role,
        name=f"p{{page:04d}}{extension}",
        preferred=f"{{stem}}-p{{page:04d}}{extension}",
        change=Change.JOIN,
        tags=(PAGE_TAG,),
    )
    for role, extension in ((IMAGE_ROLE, ".jpg"), (PDF_ROLE, ".pdf"))
)


def choose_accepted(default: str) -> tuple[str, ...]:
    """Which PDFs are split when those that say nothing are split as `default` says. An unknown choice is
    accepted, so that the step refuses it instead of ignoring it silently.
    """
    asked = () if default != "none" else (f"config:{CONFIG_KEY}",)
    return ("*.pdf", CONTENT_TYPE, *asked, f"!config:{CONFIG_KEY}=none", f"!tag:{PAGE_TAG}")
