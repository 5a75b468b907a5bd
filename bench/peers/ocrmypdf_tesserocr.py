"""OCRmyPDF with the engine that Quire uses: a plugin that calls tesserocr, and the program that runs it.

ocrmypdf_tesserocr.py IN.pdf OUT.pdf JOBS LIBRARIES TESSDATA: the folder LIBRARIES has tesserocr, which the
environment of the peers does not.
"""

import os
import sys
import threading
from html import escape
from pathlib import Path

LIBRARIES, TESSDATA = "BENCH_LIBRARIES", "BENCH_TESSDATA"
if os.environ.get(LIBRARIES):
    sys.path.append(os.environ[LIBRARIES])  # last: what the peers have themselves comes first

import tesserocr  # noqa: E402
from ocrmypdf import hookimpl  # noqa: E402
from ocrmypdf.pluginspec import OcrEngine, OrientationConfidence  # noqa: E402
from PIL import Image  # noqa: E402

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml">'
    '<head><title></title><meta name="ocr-system" content="{engine}"/>'
    '<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_par ocr_line ocrx_word"/></head>\n<body>\n'
)
_threads = threading.local()


def api() -> tesserocr.PyTessBaseAPI:
    """One for each thread: shared ones abort the process."""
    if not hasattr(_threads, "api"):
        _threads.api = tesserocr.PyTessBaseAPI(path=os.environ[TESSDATA], lang="eng")
    return _threads.api


# The parameters are those that OCRmyPDF calls with.
class Engine(OcrEngine):
    @staticmethod
    def version():
        return tesserocr.tesseract_version().split()[1]

    @staticmethod
    def creator_tag(options):  # noqa: ARG004
        return f"tesserocr {Engine.version()}"

    def __str__(self):
        return f"tesserocr {Engine.version()}"

    @staticmethod
    def languages(options):  # noqa: ARG004
        return {"eng"}

    @staticmethod
    def get_orientation(input_file, options):  # noqa: ARG004
        return OrientationConfidence(0, 0.0)

    @staticmethod
    def get_deskew(input_file, options):  # noqa: ARG004
        return 0.0

    @staticmethod
    def generate_hocr(input_file, output_hocr, output_text, options):  # noqa: ARG004
        engine = api()
        with Image.open(input_file) as picture:
            dpi = round(picture.info.get("dpi", (300, 300))[0])
            engine.SetImage(picture)
        engine.SetSourceResolution(dpi)
        engine.Recognize()
        page = engine.GetHOCRText(0)
        head = HEAD.format(engine=escape(str(Engine())))
        Path(output_hocr).write_text(f"{head}{page}</body></html>\n", encoding="utf-8")
        Path(output_text).write_text(engine.GetUTF8Text(), encoding="utf-8")
        engine.Clear()

    @staticmethod
    def generate_pdf(input_file, output_pdf, output_text, options):
        raise NotImplementedError


@hookimpl
def get_ocr_engine(options=None):  # noqa: ARG001
    return Engine()


def main() -> None:
    import ocrmypdf
    from ocrmypdf.builtin_plugins import tesseract_ocr

    # It has the options, and would ask for the program `tesseract`, which nobody calls here.
    del tesseract_ocr.check_options
    source, target, jobs = sys.argv[1:4]
    code = ocrmypdf.ocr(
        source,
        target,
        plugins=[str(Path(__file__).resolve())],
        language=["eng"],
        output_type="pdfa",
        pdfa_backend="internal",
        rasterizer="pypdfium",
        pdf_renderer="fpdf2",
        optimize=0,
        jobs=int(jobs),
        progress_bar=False,
    )
    sys.exit(int(code))


if __name__ == "__main__":
    main()
