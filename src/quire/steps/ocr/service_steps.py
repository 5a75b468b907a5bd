"""The step with which the OCR service reads one picture: its text as a value, if wanted with places of words.

Runs in a worker process, in a sandbox unless a model outside is asked. Reads the source and the language data
of engines. Engines stay open from picture to picture. Cheap to import: they load when the first one comes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from quire.model.step import Step, StepInput, StepOutput

if TYPE_CHECKING:
    from quire.steps.ocr.reader import PictureReader

READ_PICTURE = "ocr_read_picture"
VERSION = 1
# Of the step's options: how pictures are read, in which language this one is, and whether places are wanted.
READING, LANGUAGE, PLACES = "reading", "language", "places"
PICTURE, TEXT = "picture", "text"

_MODELS = ("local_model", "cloud_model", "judge_model")
_MOST_OPEN = 2  # ways of reading: each has engines of its own
_open: dict[bytes, "PictureReader"] = {}


def run(step_input: StepInput) -> StepOutput:
    """The value holds the text, and the name of the picture: no two values of the service are equal bytes, so
    each can be deleted when it has been read. Raises what the reader raises.
    """
    reader = _find_reader(step_input.options[READING])
    page = reader.read_file(step_input.source, language=str(step_input.options.get(LANGUAGE) or ""))
    if not step_input.options.get(PLACES):
        page = msgspec.structs.replace(page, paragraphs=())
    found = msgspec.to_builtins(page)
    return StepOutput(value={PICTURE: step_input.file.key, TEXT: found})


def _find_reader(reading: Mapping[str, Any]) -> "PictureReader":
    from quire.steps.ocr.reader import PictureReader, ReadingOptions

    known = msgspec.json.encode(reading, order="sorted")
    if known not in _open:
        while len(_open) >= _MOST_OPEN:
            _open.pop(next(iter(_open))).close()
        _open[known] = PictureReader(msgspec.convert(reading, ReadingOptions))
    return _open[known]


def _places(options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """None: a model is asked over the network, which no sandbox gives."""
    reading = options.get(READING) or {}
    if any(reading.get(name) for name in _MODELS):
        return None
    return tuple(str(reading[name]) for name in ("tessdata",) if reading.get(name))


STEPS: dict[str, Step] = {READ_PICTURE: Step(name=READ_PICTURE, version=VERSION, run=run, sandbox=_places)}
