"""The converters beside the default one: what they are asked, and how their answer is read. Libraries and
programs that are not installed are stood in for by others with the same face.
"""

import stat
import sys
import types
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from quire.model.errors import Misconfigured, Retry
from quire.settings import Library
from quire.steps import converters
from quire.tools import inspector, liteparse, marker, opendataloader, pymupdf4llm, tesseract

MARKER = """#!{python}
import json, sys
from pathlib import Path
source, arguments = Path(sys.argv[1]), sys.argv[2:]
folder = Path(arguments[arguments.index("--output_dir") + 1]) / source.stem
folder.mkdir(parents=True)
assert "--paginate_output" in arguments and source.read_bytes() == b"%PDF-"
line = "-" * 48
text = f"\\n\\n{{0}}{line}\\n\\n# One\\n\\n![](_page_0_Picture_1.jpeg)\\n\\n{{2}}{line}\\n\\nThree"
(folder / "document.md").write_text(text)
(folder / "_page_0_Picture_1.jpeg").write_bytes(b"jpeg")
(folder / "document_meta.json").write_text(json.dumps({"table_of_contents": []}))
"""


@pytest.fixture
def pdf(tmp_path) -> Path:
    path = tmp_path / "a name; with 'signs'.pdf"
    path.write_bytes(b"%PDF-")
    return path


@pytest.fixture
def scratch(tmp_path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "marker_single"
    path.write_text(text.replace("{python}", sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("tool", [liteparse, pymupdf4llm, opendataloader, marker, inspector, tesseract])
def test_every_tool_says_whether_it_is_there(tool):
    found = tool.probe()

    assert found.detail if found.ok else "install" in found.advice


def test_the_tools_of_this_environment_are_there():
    assert all(tool.probe().detail for tool in (liteparse, inspector, tesseract))


def test_marker_is_run_as_a_program_and_its_pages_are_separated(pdf, scratch, tmp_path):
    meta = {}
    command = program(tmp_path, MARKER)
    one, two, three = marker.pages(pdf, 3, scratch=scratch, command=command, meta=meta)

    assert one.markdown.startswith("# One")
    assert one.pictures == ((("_page_0_Picture_1.jpeg"), b"jpeg"),)
    assert two.fault
    assert three.markdown == "Three"
    assert meta == {"table_of_contents": []}
    assert marker.probe(command).detail


def test_marker_that_ends_badly_is_tried_again(pdf, scratch, tmp_path):
    command = program(tmp_path, "#!{python}\nimport sys\nsys.exit('no room on the card')")
    with pytest.raises(Retry, match="no room on the card"):
        list(marker.pages(pdf, 1, scratch=scratch, command=command))


def test_marker_that_is_not_there_says_what_to_install(pdf, scratch):
    with pytest.raises(Misconfigured, match="pip install"):
        list(marker.pages(pdf, 1, scratch=scratch, command="no-such-program"))


def test_pymupdf_is_asked_page_by_page_without_recognition(pdf, scratch, monkeypatch):
    def to_markdown(path, *, pages, image_path, use_ocr, **_):
        assert use_ocr is False
        if pages == [1]:
            raise ValueError(f"bad page in {path}")
        (Path(image_path) / "p.png").write_bytes(b"png")
        return [{"text": f"page {pages[0] + 1} ![]({image_path}/p.png)"}]

    pymupdf4llm._library.cache_clear()
    monkeypatch.setitem(sys.modules, "pymupdf4llm", types.SimpleNamespace(to_markdown=to_markdown))
    one, two, four = pymupdf4llm.pages(pdf, 4, scratch=scratch, leave_out={3})
    pymupdf4llm._library.cache_clear()

    assert (one.number, two.number, four.number) == (1, 2, 4)
    assert one.markdown.startswith("page 1")
    assert one.pictures[0].name in one.markdown
    assert two.fault == "bad page in "
    assert four.pictures[0].data == b"png"
    assert list(scratch.iterdir()) == []


def test_opendataloader_is_asked_once_and_parted_by_a_mark_that_no_document_has(pdf, scratch, monkeypatch):
    def convert(source, *, output_dir, markdown_page_separator, pages, **_):
        assert Path(source).read_bytes() == b"%PDF-"
        assert pages is None
        marks = [markdown_page_separator.replace("%page-number%", str(at)) for at in (1, 3)]
        images = Path(output_dir) / "document_images"
        images.mkdir()
        (images / "imageFile1.png").write_bytes(b"png")
        text = f"{marks[0]}\n\n# One ![](<document_images/imageFile1.png>)\n\npage-3\n\n{marks[1]}\n\nThree"
        (Path(output_dir) / "document.md").write_text(text)

    opendataloader._library.cache_clear()
    monkeypatch.setattr(opendataloader.shutil, "which", lambda _: "java")
    monkeypatch.setitem(sys.modules, "opendataloader_pdf", types.SimpleNamespace(convert=convert))
    one, two, three = opendataloader.pages(pdf, 3, scratch=scratch)
    opendataloader._library.cache_clear()

    assert one.markdown.endswith("page-3")
    assert one.pictures == (("document_images/imageFile1.png", b"png"),)
    assert two.fault
    assert three.markdown == "Three"


def test_converters_are_chosen_by_name():
    assert converters.choose_converter("liteparse").name == "liteparse"
    assert converters.choose_converter("pymupdf").name == "pymupdf4llm"
    with pytest.raises(Misconfigured, match="liteparse, pdfium, pymupdf4llm, opendataloader, marker"):
        converters.choose_converter("docling")


def test_all_names_that_a_library_may_be_set_to_are_known():
    names = get_args(get_args(get_type_hints(Library, include_extras=True)["converter"])[0])
    assert {converters.choose_converter(name).name for name in names} == set(converters.CONVERTERS)
