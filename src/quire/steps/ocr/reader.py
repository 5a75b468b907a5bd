"""Reads pictures with OCR engines in tiers: the first sound text counts.

Runs wherever pictures are read: in worker processes and in the OCR service. Promises: engines are opened when
a picture first needs them and stay open for many; a tier that is not there is passed over; a text that is
not valid is given back as doubtful, with the reason, and never as content; pages on their side or head, and
tilted ones, are read upright. Must not know: where pictures come from and what becomes of their text.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct, structs

from quire.model.errors import Misconfigured, QuireError, Reject, Retry
from quire.model.page_text import PageText, Tier
from quire.steps.ocr.engines import NO_ADDRESS, EngineSet, Opener, PageEngine
from quire.steps.ocr.model_judge import ask_judge
from quire.steps.ocr.normalisation import normalise_text
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.orientation import OrientationGuide
from quire.steps.ocr.pictures import decode_picture
from quire.steps.ocr.validity import Verdict, judge_text
from quire.steps.ocr.views import PictureView, find_better_view
from quire.tools.emptiness import is_empty
from quire.tools.languages import parse_languages
from quire.tools.pdfium import PageBitmap

__all__ = ["PictureReader", "ReadingOptions"]

ENGINE_ERROR = "ocr_engine_error"
_MOST_SURE_LETTERS = 200  # more of them make a doubtful text no better


class _Reading(Struct, frozen=True):
    page: PageText
    verdict: Verdict
    view: PictureView


class PictureReader:
    """A context manager. Belongs to one thread at a time: open one for each."""

    def __init__(self, options: ReadingOptions, *, openers: dict[Tier, Opener] | None = None) -> None:
        """Raises Misconfigured for an unknown tier, Reject for what is no language."""
        self._options = options
        self._wanted = parse_languages(options.language)
        self._engines = EngineSet(options, openers)
        self._guide = OrientationGuide(options.tessdata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """May be called again; engines are opened anew when a picture needs them."""
        self._engines.close()
        self._guide.close()

    def read_file(self, path: Path, *, page: int = 0, language: str = "") -> PageText:
        """The text of one page of a picture file; pages are counted from 0. Coordinates are of the picture as
        its own tags turn it, and then by `rotation`.

        Raises Reject: `unsupported_media` (no picture, or of a kind that is not decoded), `no_such_page`,
        `bad_request` (what is no language), and the codes of `tools.refusals` for what is damaged or too
        large; Retry or Reject `ocr_engine_error` when engines failed and none has read anything;
        Misconfigured when no engine is there.
        """
        picture = decode_picture(path, page=page, max_pixels=self._options.max_pixels)
        if is_empty(picture.bitmap):  # engines look long for what is not there
            bitmap, reason = picture.bitmap, "nothing is on the picture"
            return PageText(width=bitmap.width, height=bitmap.height, dpi=picture.dpi, reason=reason)
        return self.read_bitmap(picture.bitmap, picture.dpi, language)

    def read_bitmap(self, bitmap: PageBitmap, dpi: int, language: str = "") -> PageText:
        """The same for pixels, such as of a drawn page. `dpi` 0: not known."""
        wanted = parse_languages(language) or self._wanted
        view = PictureView(bitmap, dpi)
        readings: list[_Reading] = []
        failures: list[QuireError] = []
        for tier in self._engines.tiers:
            # A text that could be sound is no reason to ask a model, which costs and sees the picture.
            if tier in NO_ADDRESS and any(one.verdict.soundness == "unsure" for one in readings):
                break
            engine = self._engines.open_tier(tier)
            if engine is None:
                continue
            try:
                reading = self._read_tier(tier, engine, view, wanted)
            except QuireError as error:
                failures.append(error)
                continue
            if reading.verdict.soundness == "sound":
                return _finish(reading, wanted)
            view = reading.view
            readings.append(reading)
        if not readings:
            raise self._explain(failures)
        return _finish(max(readings, key=_rank), wanted)

    def find_missing(self) -> dict[Tier, str]:
        """The tiers that were asked and are not there, with what they need."""
        return dict(self._engines.missing)

    def _read_tier(
        self, tier: Tier, engine: PageEngine, view: PictureView, wanted: tuple[str, ...]
    ) -> _Reading:
        def read(bitmap: PageBitmap, dpi: int) -> PageText:
            try:
                found = engine.read(bitmap, dpi, wanted)
            except (QuireError, MemoryError):
                raise
            except Exception as error:  # native libraries fail as they like
                raise Retry(f"{tier} failed: {type(error).__name__}", code=ENGINE_ERROR) from error
            return structs.replace(found, text=normalise_text(found.text))

        page = view.read(read)
        verdict = self._judge(page, wanted)
        if tier == Tier.TESSERACT:
            better = find_better_view(view, page, read, self._guide, is_sound=verdict.soundness != "unsound")
            if better is not None:
                view, page = better
                verdict = self._judge(page, wanted)
        return _Reading(page, verdict, view)

    def _judge(self, page: PageText, wanted: tuple[str, ...]) -> Verdict:
        verdict = judge_text(page, wanted, self._options)
        judge = self._options.judge_model
        if judge is None or verdict.soundness == "unsound":
            return verdict
        opinion = ask_judge(judge, page.text)
        if opinion is None or opinion.is_valid:
            return verdict
        return Verdict("unsound", opinion.reason or f"model {judge.model} takes it for noise")

    def _explain(self, failures: list[QuireError]) -> QuireError:
        if not failures:
            missing = "; ".join(f"{tier}: {needs}" for tier, needs in self._engines.missing.items())
            return Misconfigured(f"no OCR engine is there ({missing})", code="missing_tool")
        text = "; ".join(str(failure) for failure in failures)
        passing = [failure for failure in failures if isinstance(failure, Retry)]
        if passing:
            return Retry(text, code=ENGINE_ERROR, delay_seconds=passing[0].delay_seconds)
        if all(isinstance(failure, Misconfigured) for failure in failures):
            return Misconfigured(text, code=failures[0].code)
        return Reject(text, code=ENGINE_ERROR)


def _rank(reading: _Reading) -> tuple[bool, float]:
    """The best of what is not sound: text that could be, then what is most and surest."""
    letters = sum(map(str.isalnum, reading.page.text))
    return reading.verdict.soundness == "unsure", reading.page.confidence * min(letters, _MOST_SURE_LETTERS)


def _finish(reading: _Reading, wanted: tuple[str, ...]) -> PageText:
    verdict = reading.verdict
    return structs.replace(
        reading.page,
        language=verdict.language or next(iter(wanted), ""),
        is_valid=verdict.soundness != "unsound",
        reason=verdict.reason,
    )
