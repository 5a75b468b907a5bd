"""What runs in the converting process: `python -m quire.library.worker.conversion_process ORDER`.

Speaks to its parent in lines of JSON on what was its standard output; whatever libraries print goes to the
standard error. Must not know: the bucket.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from quire.library.worker.conversion import ConversionOrder, ConversionProgress
from quire.model.errors import Misconfigured, QuireError

STEP = "quire.steps.pdf_markdown"


def main(arguments: list[str]) -> int:
    own = os.dup(1)
    os.dup2(2, 1)  # native libraries print what they like
    with os.fdopen(own, "wb", buffering=0) as line:

        def tell(sign: ConversionProgress) -> None:
            line.write(msgspec.json.encode(sign) + b"\n")

        try:
            order = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=ConversionOrder)
            _convert(order, tell)
        except QuireError as error:
            trouble = isinstance(error, Misconfigured)
            tell(ConversionProgress(error=str(error) or error.code, traceback=traceback.format_exc(), trouble=trouble))
            return 1
        except Exception as error:  # noqa: BLE001 - whatever it is, the job's journal has it
            reason = f"the conversion failed: {type(error).__name__}: {error}"
            tell(ConversionProgress(error=reason, traceback=traceback.format_exc()))
            return 1
    return 0


def _convert(order: ConversionOrder, tell: Callable[[ConversionProgress], None]) -> None:
    step: Any = importlib.import_module(STEP)
    about = order.about
    options = msgspec.convert(order.options, step.Options)
    silent = step.silent(options)

    def progress(done: int, total: int, stage: str) -> None:
        tell(ConversionProgress(stage=stage, done=done, total=total, silent=silent and not done))

    step.convert(
        Path(order.source),
        Path(order.target),
        options,
        step.About(
            original_filename=about.original_filename,
            worker_id=about.worker_id,
            converted_at=about.converted_at,
            tags=about.tags,
            hash=about.hash,
        ),
        progress,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
