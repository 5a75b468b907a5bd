"""Reads the pictures of a recipe in this process, where no OCR service is asked.

Gives the same as the service would: one result for each picture, in their order, and the same codes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from quire.model.envelopes import OcrErrorCode
from quire.model.errors import Reject
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.reader import PictureReader
from quire.steps.recipe.import_values import OcrReading, ReadPicture


def read_picture_texts(
    pictures: Sequence[bytes], folder: Path, reading: ReadingOptions, progress: Callable[[int, int], None]
) -> OcrReading:
    """`folder` is empty and may be written to. A picture that cannot be read has no text; if that is so for
    all of them, the reading has the code of the first.
    """
    read: list[ReadPicture] = []
    errors: list[Reject] = []
    with PictureReader(reading) as reader:
        for number, picture in enumerate(pictures):
            progress(number, len(pictures))
            path = folder / f"{number}.jpg"
            path.write_bytes(picture)
            try:
                page = reader.read_file(path)
            except Reject as error:
                errors.append(error)
                read.append(ReadPicture(text="", confidence=0.0, is_valid=False))
                continue
            text = page.text if page.is_valid else ""
            read.append(
                ReadPicture(text=text, confidence=page.confidence, tier=page.tier, is_valid=page.is_valid)
            )
    if errors and len(errors) == len(pictures):
        known = errors[0].code in {code.value for code in OcrErrorCode}
        code = errors[0].code if known else OcrErrorCode.ENGINE_ERROR.value
        return OcrReading(error_code=code, error_message=str(errors[0]))
    return OcrReading(pictures=tuple(read))
