"""How a PDF is split into pages: the choices, and the field of a file's configuration that names one.

Cheap to import: pipelines and the upload API check the choice long before a worker splits anything.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

CONFIG_KEY = "pdf_pages"  # in a file's processing_config
Pages = Literal["images", "pdfs", "both", "none"]
CHOICES: tuple[str, ...] = get_args(Pages)
IMAGE_ROLE, PDF_ROLE = "page_image", "page_pdf"


def read_choice(config: Mapping[str, Any], default: str) -> Any:
    """The choice in the file's configuration, else the default. Not validated: see `find_choice_fault`."""
    choice = config.get(CONFIG_KEY)
    return default if choice is None else choice


def find_choice_fault(config: Mapping[str, Any]) -> str | None:
    """What is wrong with a configuration; None when it is valid."""
    if read_choice(config, "none") in CHOICES:
        return None
    return f"{CONFIG_KEY} must be one of {', '.join(CHOICES)}"
