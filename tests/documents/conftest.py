"""What the document tests share: the corpus, running a step as a worker would, and writing odd TIFFs."""

import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image, ImageStat

from quire.model.files import File
from quire.model.step import StepInput, StepOutput
from quire.steps.registry import STEPS

# As in a worker, before libvips is loaded: its threads and those of Python get in each other's way.
os.environ.setdefault("VIPS_CONCURRENCY", "1")

CORPUS = Path(__file__).parent / "corpus"

RunStep = Callable[..., StepOutput]


@pytest.fixture
def corpus() -> Path:
    return CORPUS


@pytest.fixture
def run_step(tmp_path_factory: pytest.TempPathFactory) -> RunStep:
    """Runs a step on a file in a fresh scratch folder, as a worker does."""

    def run(
        step: str,
        source: Path,
        *,
        cid: str | None = None,
        name: str = "",
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> StepOutput:
        name = name or source.name
        size = source.stat().st_size
        file = File(
            key=name,
            path=name,
            name=name,
            size=size,
            content_type="application/octet-stream",
            cid=cid,
            processing_config=config or {},
        )
        folder = tmp_path_factory.mktemp("scratch")
        return STEPS[step].run(StepInput(file=file, source=source, folder=folder, options=options))

    return run


@pytest.fixture
def mean() -> Callable[[Path], tuple[float, ...]]:
    """The mean of each band, read with a library that did not write the file."""

    def measure(path: Path) -> tuple[float, ...]:
        with Image.open(path) as picture:
            return tuple(ImageStat.Stat(picture).mean)

    return measure


@pytest.fixture
def difference() -> Callable[[Path, Path], float]:
    """The mean difference of two pictures over all samples, in levels of 255."""

    def measure(one: Path, other: Path) -> float:
        from PIL import ImageChops

        with Image.open(one) as first, Image.open(other) as second:
            assert first.size == second.size
            bands = ImageStat.Stat(ImageChops.difference(first.convert("RGB"), second.convert("RGB"))).mean
        return sum(bands) / len(bands)

    return measure


Tags = dict[int, int | Sequence[int]]


@pytest.fixture
def write_tiff() -> Callable[..., Path]:
    """Writes little-endian TIFFs of any tags: each page is its tags and its strips or tiles of bytes."""

    def write(path: Path, *pages: tuple[Tags, Sequence[bytes]]) -> Path:
        out = bytearray(b"II*\0\0\0\0\0")
        link = 4
        for tags, chunks in pages:
            offsets = []
            for chunk in chunks:
                offsets.append(len(out))
                out += chunk
            counts = [len(chunk) for chunk in chunks]
            tiled = 322 in tags
            full = {**tags, (324 if tiled else 273): offsets, (325 if tiled else 279): counts}
            entries = []
            for tag, value in sorted(full.items()):
                values = [value] if isinstance(value, int) else list(value)
                where = values[0]
                if len(values) > 1:
                    where = len(out)
                    out += struct.pack(f"<{len(values)}I", *values)
                entries.append(struct.pack("<HHII", tag, 4, len(values), where))
            out[link : link + 4] = struct.pack("<I", len(out))
            out += struct.pack("<H", len(entries)) + b"".join(entries)
            link = len(out)
            out += b"\0\0\0\0"
        path.write_bytes(out)
        return path

    return write


@pytest.fixture
def rgb_tags() -> Tags:
    """An uncompressed RGB page of 16 x 8 pixels."""
    return {256: 16, 257: 8, 258: (8, 8, 8), 259: 1, 262: 2, 277: 3, 278: 8, 284: 1}


Objects = dict[int, str | tuple[str, bytes]]


@pytest.fixture
def write_pdf() -> Callable[..., Path]:
    """Writes PDFs of any objects, by number: a text, or a table without its ends and a stream. Object 1 is
    the catalog.
    """

    def write(path: Path, objects: Objects) -> Path:
        out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        offsets = {}
        for number, content in sorted(objects.items()):
            offsets[number] = len(out)
            if isinstance(content, tuple):
                table, stream = content
                head = f"<<{table}/Length {len(stream)}>>\nstream\n".encode()
                body = head + stream + b"\nendstream"
            else:
                body = content.encode()
            out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
        index = len(out)
        out += f"xref\n0 1\n{0:010d} 65535 f \n".encode()
        for number, offset in offsets.items():
            out += f"{number} 1\n{offset:010d} 00000 n \n".encode()
        size = max(objects) + 1
        out += f"trailer\n<</Root 1 0 R/Size {size}>>\nstartxref\n{index}\n%%EOF\n".encode()
        path.write_bytes(out)
        return path

    return write


@pytest.fixture
def book() -> Callable[..., Objects]:
    """The objects of a PDF of so many pages; each has its number in large letters."""

    def objects(pages: int, *, box: str = "0 0 200 100", page: str = "", catalog: str = "") -> Objects:
        first = 10
        kids = " ".join(f"{first + 2 * at} 0 R" for at in range(pages))
        numbered: Objects = {
            1: f"<</Type/Catalog/Pages 2 0 R{catalog}>>",
            2: f"<</Type/Pages/Count {pages}/Kids[{kids}]>>",
            3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        }
        for at in range(pages):
            text = f"BT /F 40 Tf 10 30 Td (page {at + 1}) Tj ET"
            numbered[first + 2 * at] = (
                f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Resources<</Font<</F 3 0 R>>>>"
                f"/Contents {first + 2 * at + 1} 0 R{page}>>"
            )
            numbered[first + 2 * at + 1] = ("", text.encode())
        return numbered

    return objects


@pytest.fixture
def to_markdown(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Converts a PDF as a worker does, from a file without an extension; checks its archive in a library and
    reads it again.
    """
    from quire.library.archives import ResultArchive, write_archive
    from quire.steps import converters, pdf_markdown

    def convert(source: Path, *, converter: Any = None, **options: Any) -> Any:
        folder = tmp_path_factory.mktemp("result")
        (folder / "blob").symlink_to(source)
        (folder / "made").mkdir()
        chosen = pdf_markdown.PdfMarkdownOptions(links="assets/", **options)
        file = File(key="k", path=source.name, name=source.name, size=1, content_type="application/pdf")
        step_input = StepInput(file=file, source=folder / "blob", folder=folder / "made")
        output = pdf_markdown.convert(
            step_input, chosen, converter or converters.choose_converter(chosen.converter)
        )
        markdown, *pictures = output.files
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        paths = {one.name: one.path for one in pictures}
        write_archive(folder / "result.zip", markdown.path, paths, output.value | {"hash": digest})
        with ResultArchive(folder / "result.zip") as archive:
            archive.check(digest)
            found = SimpleNamespace(
                markdown=archive.text(), info=archive.info(), assets=tuple(archive.assets())
            )
        assert len(found.assets) == output.facts["pictures"]
        return found

    return convert
