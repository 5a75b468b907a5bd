"""PDF to Markdown: `report.pdf` becomes `report.md`, with its pictures beside it as
`report.pdf.page-1-0001.jpg`, to which the links in the Markdown lead. Other files are left alone.
"""

from quire import Pipeline
from quire.steps import converters
from quire.steps.registry import STEPS

DAY_SECONDS = 86_400.0  # books take hours where models read them


def build_markdown(
    *,
    converter: str = converters.DEFAULT,
    silent_seconds: float = 3600.0,
    memory_mb: int = 4096,
    retries: int = 2,
) -> Pipeline:
    """`silent_seconds` is the longest time without progress, of converters that tell of each page."""
    markdown = Pipeline("markdown", version=1, from_settings=True)
    markdown.add(
        STEPS["pdf_markdown"],
        accepts="application/pdf",
        renames=(".pdf",),
        options={"converter": converter},
        timeout=DAY_SECONDS,
        stall=0.0 if converters.converts_whole(converter) else silent_seconds,
        memory_mb=memory_mb,
        retries=retries,
    )
    return markdown
