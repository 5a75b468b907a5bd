"""The engines behind the tiers: what each needs, and one shape for all of them.

Promises: an engine is opened when it is first asked and stays open; one that is not there is not asked again;
languages without data are left to other engines. Must not know: what makes a text valid.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct, structs

from quire.model.errors import Misconfigured
from quire.model.page_text import PageText, Tier
from quire.model.probe import Probe
from quire.steps.ocr.options import ReadingOptions
from quire.tools import apple_vision, easyocr, rapidocr, tesseract
from quire.tools.chat_model import ModelAddress
from quire.tools.languages import LATIN, long_name
from quire.tools.pdfium import PageBitmap
from quire.tools.vision_model import VisionModel

_MOST_OPEN = 3  # sets of languages of one engine: each takes some 100 MB

NO_ADDRESS = {
    Tier.LLM_LOCAL: "set ocr.local_model_url and ocr.local_model to an OpenAI-compatible model that sees",
    Tier.LLM_CLOUD: "set ocr.cloud_model_url, ocr.cloud_model and ocr.cloud_model_key",
}


class PageEngine(Protocol):
    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:
        """What the engine reads, not judged. Raises Retry, Reject or Misconfigured."""
        ...

    def close(self) -> None: ...


class TierState(Struct, frozen=True, kw_only=True):
    """Whether a tier can be used; `needs` is what it lacks."""

    tier: Tier
    engine: str = ""
    needs: str = ""

    @property
    def is_available(self) -> bool:
        return not self.needs


class TesseractTier:
    """Tesseract, opened for each set of languages that is asked for."""

    def __init__(self, options: ReadingOptions) -> None:
        self._options = options
        self._there = frozenset(tesseract.find_languages(options.tessdata))
        self._open: dict[str, tesseract.Tesseract] = {}
        self._engine((), first=True)

    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:
        return self._engine(languages).read_page(drawn, dpi, seconds=self._options.seconds)

    def close(self) -> None:
        for engine in self._open.values():
            engine.close()
        self._open.clear()

    def _engine(self, languages: Sequence[str], *, first: bool = False) -> tesseract.Tesseract:
        name = self._choose(languages)
        engine = self._open.get(name)
        if engine is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            engine = self._open[name] = tesseract.Tesseract(name, self._options.tessdata)
        elif not first:
            self._open[name] = self._open.pop(name)  # the latest comes last
        return engine

    def _choose(self, languages: Sequence[str]) -> str:
        """The languages with data. Where there are none, English ones read other Latin letters too."""
        named = [long_name(one) for one in languages]
        there = [one for one in named if one in self._there]
        if not there and (not languages or any(one in LATIN for one in languages)):
            there = ["eng"] if "eng" in self._there or not self._there else sorted(self._there)[:1]
        if not there:
            raise Misconfigured(
                f"Tesseract has no data for {'+'.join(named)}; install them, or name their folder in "
                "ocr.tessdata",
                code="missing_tool",
            )
        return "+".join(there)


class RapidOcrTier:
    def __init__(self) -> None:
        self._engine = rapidocr.RapidOcr()

    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:  # noqa: ARG002
        return self._engine.read_page(drawn, dpi)

    def close(self) -> None:
        self._engine.close()


class EasyOcrTier:
    """Opened for the languages of the first picture, and again when they change."""

    def __init__(self) -> None:
        self._engine: easyocr.EasyOcr | None = easyocr.EasyOcr(("en",))

    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:
        wanted = tuple(languages) or ("en",)
        if self._engine is None or self._engine.languages != wanted:
            self._engine = easyocr.EasyOcr(wanted)
        return self._engine.read_page(drawn, dpi)

    def close(self) -> None:
        self._engine = None


class AppleVisionTier:
    def __init__(self) -> None:
        self._engine = apple_vision.AppleVision()

    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:
        return self._engine.read_page(drawn, dpi, languages)

    def close(self) -> None:
        self._engine.close()


class ModelTier:
    """A language model that sees. Its text carries the languages that were asked for."""

    def __init__(self, tier: Tier, address: ModelAddress | None) -> None:
        if address is None:
            raise Misconfigured(f"no model: {NO_ADDRESS[tier]}", code="missing_tool")
        self._engine = VisionModel(address, tier)

    def read(self, drawn: PageBitmap, dpi: int, languages: Sequence[str]) -> PageText:
        return structs.replace(self._engine.read_page(drawn, dpi, languages), language="")

    def close(self) -> None:
        self._engine.close()


Opener = Callable[[ReadingOptions], PageEngine]

OPENERS: dict[Tier, Opener] = {
    Tier.TESSERACT: TesseractTier,
    Tier.EASYOCR: lambda _: EasyOcrTier(),
    Tier.PADDLEOCR: lambda _: RapidOcrTier(),
    Tier.APPLE_VISION: lambda _: AppleVisionTier(),
    Tier.LLM_LOCAL: lambda options: ModelTier(Tier.LLM_LOCAL, options.local_model),
    Tier.LLM_CLOUD: lambda options: ModelTier(Tier.LLM_CLOUD, options.cloud_model),
}


def choose_tiers(options: ReadingOptions) -> tuple[Tier, ...]:
    """The tiers in the order in which they are asked. Raises Misconfigured for an unknown name."""
    known = {str(tier): tier for tier in Tier} | {
        "rapidocr": Tier.PADDLEOCR,
        "llm_proxy_vision": Tier.LLM_LOCAL,
    }
    unknown = [name for name in options.tiers if name not in known]
    if unknown:
        names = ", ".join(map(str, Tier))
        raise Misconfigured(f"unknown OCR tier {unknown[0]!r}; the tiers are {names}", code="wrong_option")
    return tuple(dict.fromkeys(known[name] for name in options.tiers)) or tuple(Tier)


def probe_tiers(options: ReadingOptions) -> list[TierState]:
    """What is there of the chosen tiers, without opening an engine."""
    return [_probe_tier(tier, options) for tier in choose_tiers(options)]


def _probe_tier(tier: Tier, options: ReadingOptions) -> TierState:
    if tier in NO_ADDRESS:
        address = options.local_model if tier == Tier.LLM_LOCAL else options.cloud_model
        return TierState(
            tier=tier, engine=address.model if address else "", needs="" if address else NO_ADDRESS[tier]
        )
    probes: dict[Tier, Callable[[], Probe]] = {
        Tier.TESSERACT: lambda: tesseract.probe(tessdata=options.tessdata),
        Tier.EASYOCR: easyocr.probe,
        Tier.PADDLEOCR: rapidocr.probe,
        Tier.APPLE_VISION: apple_vision.probe,
    }
    found = probes[tier]()
    if not found.ok:
        return TierState(tier=tier, engine=found.name, needs=found.advice)
    return TierState(tier=tier, engine=f"{found.name} {found.detail}")


class EngineSet:
    """Engines, opened one by one. `openers` stands in for other engines in tests."""

    def __init__(self, options: ReadingOptions, openers: dict[Tier, Opener] | None = None) -> None:
        self._options = options
        self._openers = OPENERS if openers is None else openers
        self._open: dict[Tier, PageEngine] = {}
        self.missing: dict[Tier, str] = {}
        self.tiers = choose_tiers(options)

    def open_tier(self, tier: Tier) -> PageEngine | None:
        """The engine of a tier; None where there is none, with the reason in `missing`."""
        if tier in self.missing:
            return None
        if tier not in self._open:
            try:
                self._open[tier] = self._openers[tier](self._options)
            except Misconfigured as error:
                self.missing[tier] = str(error)
                return None
        return self._open[tier]

    def close(self) -> None:
        for engine in self._open.values():
            engine.close()
        self._open.clear()
