"""Instead of the engines in worker processes of the OCR service: does what the picture says.

`crash` and `hang` are what engines do on bad days; `crash once PATH` leaves a mark at PATH and does so no
more; `refuse CODE` raises Reject, `try again` Retry; everything else is the text of the picture.
"""

import os
import signal
import threading
from pathlib import Path

import msgspec

from quire.model.errors import Reject, Retry
from quire.model.page_text import PageText
from quire.model.step import Step, StepInput, StepOutput
from quire.steps.ocr import service_steps


def run(step_input: StepInput) -> StepOutput:
    said = step_input.source.read_text()
    word, _, rest = said.partition(" ")
    if word == "crash":
        _crash(Path(rest.removeprefix("once ")) if rest else None)
    elif word == "hang":
        threading.Event().wait()
    elif word == "refuse":
        raise Reject("refused", code=rest)
    elif said == "try again":
        raise Retry("not now")
    elif word == "nothing":
        return StepOutput(value={"text": 5})
    page = PageText(width=1, height=1, text=said, confidence=0.9, tier="tesseract", is_valid=True)
    found = msgspec.to_builtins(page)
    return StepOutput(
        value={
            service_steps.PICTURE: step_input.file.key,
            service_steps.TEXT: found,
            "seen": step_input.options,
        }
    )


def _crash(mark: Path | None) -> None:
    if mark is not None and mark.exists():
        return
    if mark is not None:
        mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


STEPS: dict[str, Step] = {
    service_steps.READ_PICTURE: Step(name=service_steps.READ_PICTURE, version=service_steps.VERSION, run=run)
}
