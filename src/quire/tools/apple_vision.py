"""Apple's Vision framework, by way of pyobjc: the engine behind tier apple_vision. Only on macOS.

Promises: nothing leaves the machine; places are told from the top left, as everywhere here.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from quire.model.errors import Misconfigured, Retry
from quire.model.page_text import PageText, Tier
from quire.model.probe import Probe
from quire.tools import bitmaps
from quire.tools.page_geometry import join_text, weigh_confidence
from quire.tools.pdfium import PageBitmap
from quire.tools.quad_lines import clip_line, line_of_quad
from quire.tools.reading_order import arrange_lines

NAME = "Apple Vision"
_ADVICE = "needs macOS 13 or newer and pip install pyobjc-framework-Vision"
_LONGEST_SIDE = 8000  # pixels
_QUALITY = 95


def probe() -> Probe:
    obstacle = find_obstacle()
    return Probe(name=NAME, ok=not obstacle, detail="of this system", advice=obstacle)


def find_obstacle() -> str:
    """Why it is not there; empty when it is."""
    system = str(sys.platform)  # mypy would take what follows for unreachable
    if system != "darwin":
        return f"Apple Vision is part of macOS, and this is {system}; it {_ADVICE}"
    return "" if find_spec("Vision") else f"Apple Vision cannot be called from Python; it {_ADVICE}"


class AppleVision:
    """Raises Misconfigured where there is no such framework."""

    def __init__(self) -> None:
        if obstacle := find_obstacle():
            raise Misconfigured(obstacle, code="missing_tool")
        import Vision

        self._framework: Any = Vision

    def close(self) -> None:
        """The system keeps what it needs."""

    def read_page(self, drawn: PageBitmap, dpi: int, languages: Sequence[str] = ()) -> PageText:
        """The text with its places. Raises Retry (`ocr_engine_error`) when the framework fails."""
        from Foundation import NSData

        framework = self._framework
        data = bitmaps.to_jpeg(drawn, longest_side=_LONGEST_SIDE, quality=_QUALITY)
        handler = framework.VNImageRequestHandler.alloc().initWithData_options_(
            NSData.dataWithBytes_length_(data, len(data)), None
        )
        request = framework.VNRecognizeTextRequest.alloc().init()
        request.setRecognitionLevel_(framework.VNRequestTextRecognitionLevelAccurate)
        if languages:
            request.setRecognitionLanguages_(list(languages))
        done, error = handler.performRequests_error_([request], None)
        if not done:
            raise Retry(f"Apple Vision failed: {error}", code="ocr_engine_error")
        lines = []
        for observation in request.results() or ():
            best = observation.topCandidates_(1)[0]
            corners = (
                observation.topLeft(),
                observation.topRight(),
                observation.bottomRight(),
                observation.bottomLeft(),
            )
            quad = [(corner.x * drawn.width, (1 - corner.y) * drawn.height) for corner in corners]
            if str(best.string()).strip():
                line = line_of_quad(quad, str(best.string()), float(best.confidence()))
                lines.append(clip_line(line, drawn.width, drawn.height))
        paragraphs = arrange_lines(lines)
        return PageText(
            width=drawn.width,
            height=drawn.height,
            dpi=dpi,
            paragraphs=paragraphs,
            text=join_text(paragraphs),
            language="+".join(languages),
            confidence=weigh_confidence(paragraphs),
            tier=Tier.APPLE_VISION,
            engine=NAME,
        )
