"""The program of the converting process: `python -m quire.library.worker.conversion_process ORDER`.

Writes progress to its parent as lines of JSON on what was its standard output; whatever libraries print
goes to the standard error. Must not know: the bucket.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from quire.library.worker.conversion import ConversionOrder, ConversionProgress
from quire.model.errors import Misconfigured, QuireError


def main(arguments: list[str]) -> int:
    own = os.dup(1)
    os.dup2(2, 1)  # native libraries print what they like
    with os.fdopen(own, "wb", buffering=0) as output:

        def report(progress: ConversionProgress) -> None:
            output.write(msgspec.json.encode(progress) + b"\n")

        try:
            order = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=ConversionOrder)
            _convert(order, report)
        except QuireError as error:
            trouble = isinstance(error, Misconfigured)
            report(
                ConversionProgress(
                    error=str(error) or error.code, traceback=traceback.format_exc(), trouble=trouble
                )
            )
            return 1
        except Exception as error:  # noqa: BLE001 - the job fails with it
            reason = f"the conversion failed: {type(error).__name__}: {error}"
            report(ConversionProgress(error=reason, traceback=traceback.format_exc()))
            return 1
    return 0


def _convert(order: ConversionOrder, report: Callable[[ConversionProgress], None]) -> None:
    from quire.steps import pdf_markdown  # here: the parent is told of an import that fails

    options = msgspec.convert(order.options, pdf_markdown.PdfMarkdownOptions)
    is_silent = pdf_markdown.ignore_progress(options)

    def on_progress(done: int, total: int, stage: str) -> None:
        report(ConversionProgress(stage=stage, done=done, total=total, silent=is_silent and not done))

    about = order.about
    document = pdf_markdown.DocumentInfo(
        original_filename=about.original_filename,
        worker_id=about.worker_id,
        converted_at=about.converted_at,
        tags=about.tags,
        hash=about.hash,
    )
    pdf_markdown.convert(Path(order.source), Path(order.target), options, document, on_progress)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
