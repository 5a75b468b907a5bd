"""Bad documents of every kind in one batch, by the command line: each passes unchanged with a reason that
says what to do, its neighbours are done, no process needs more memory than a worker may have, the batch ends.
"""

import json
import shutil
import subprocess
import sys

import pytest
from tests.acceptance.conftest import Quire

pytestmark = pytest.mark.slow
MEMORY_MB = 512
# Ends with the largest memory, in kilobytes, of any process that the command or its workers were.
MEASURED = """
import json, resource, subprocess, sys
ran = subprocess.run(sys.argv[1:], check=False)
print(json.dumps([ran.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
ADVICE = ("Send ", "Convert ", "Raise ", "raise ", "Lower ", "Remove ", "Cut ", "check how")


def measured(quire: Quire, *arguments: str, **more: str) -> tuple[int, int]:
    """The exit code, and the peak in MB."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURED,
            *quire.command("run", *arguments, "--json", "--out", str(quire.out)),
        ],
        cwd=quire.folder,
        env=quire.environment(QUIRE_PREPROCESS_MEMORY_MB=str(MEMORY_MB), QUIRE_WORKERS="2", **more),
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    code, kilobytes = json.loads(ran.stdout.splitlines()[-1])
    return code, kilobytes // 1024


@pytest.fixture
def quire(tmp_path):
    return Quire(tmp_path)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


# What becomes of each: the class of its failure, or None for those that are done.
EXPECTED = {
    "good.tif": None,
    "good.jpg": None,
    "good.pdf": None,
    "jpeg called.tif": None,
    "jpeg called.png": None,
    "tiff called.jpg": None,
    "damaged.tif": {"corrupt", "unsupported_format"},
    "fuzzed.tif": {"corrupt", "truncated"},
    "cut.tif": {"truncated"},
    "cut.jpg": {"truncated"},
    "bomb.tif": {"too_many_pixels"},
    "bomb.png": {"too_many_pixels"},
    "tags/loop.tif": {"corrupt"},
    "tags/no width.tif": {"corrupt"},
    "tags/endless count.tif": {"truncated", "corrupt"},
    "tags/strips beyond the end.tif": {"truncated"},
    "tags/no directory.tif": {"corrupt", "truncated"},
    "tags/many entries.tif": {"corrupt"},
    "odd compression.tif": {"unsupported_format"},
    "complex numbers.tif": {"unsupported_format"},
    "text.tif": {"not_an_image"},
    "text.jpg": {"not_an_image"},
    "empty.tif": {"empty_file"},
    "locked.pdf": {"encrypted"},
    "no pages.pdf": {"no_pages"},
    "damaged.pdf": {"corrupt", "truncated"},
    "cut.pdf": {"truncated"},
    "huge page.pdf": {"too_many_pixels"},
    "picture bomb.pdf": {"too_many_pixels", "corrupt", None},
    "text.pdf": {"not_a_pdf"},
}


@pytest.fixture
def bad_batch(folder, corpus, write_tiff, write_pdf, rgb_tags, book):
    (folder / "tags").mkdir()
    copies = {
        "good.tif": "tiff/hopper_lzw.tif",
        "good.jpg": "image/invalid-exif.jpg",
        "good.pdf": "pdf/crazyones.pdf",
        "jpeg called.tif": "image/Landscape_6.jpg",
        "jpeg called.png": "image/Landscape_1.jpg",
        "tiff called.jpg": "tiff/rgb-3c-16b.tiff",
        "damaged.tif": "tiff/libtiff_segfault.tif",
        "fuzzed.tif": "tiff/crash-86214e58da443d2b80820cff9677a38a33dcbbca.tif",
        "cut.jpg": "image/truncated.jpg",
        "bomb.tif": "tiff/bomb_g4_60000x60000.tif",
        "bomb.png": "image/bomb_50000x50000.png",
        "locked.pdf": "pdf/crazyones-encrypted-256.pdf",
        "no pages.pdf": "pdf/zero-pages.pdf",
        "damaged.pdf": "pdf/issue9105_other.pdf",
    }
    for name, source in copies.items():
        shutil.copy(corpus / source, folder / name)
    for name, source in {"cut.tif": "tiff/pport_g4.tif", "cut.pdf": "pdf/multi_page.pdf"}.items():
        whole = (corpus / source).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
    for ending in ("tif", "jpg", "pdf"):
        (folder / f"text.{ending}").write_text("Dear reader,\nthis is a letter.\n", encoding="utf-8")
    (folder / "empty.tif").write_bytes(b"")
    pixels = [bytes(384)]
    tags = folder / "tags"
    loop = write_tiff(tags / "loop.tif", (rgb_tags, pixels))
    content = bytearray(loop.read_bytes())
    content[-4:] = content[4:8]
    loop.write_bytes(content)
    write_tiff(tags / "no width.tif", ({**rgb_tags, 256: 0}, pixels))
    write_tiff(tags / "strips beyond the end.tif", (rgb_tags, pixels))
    beyond = bytearray((tags / "strips beyond the end.tif").read_bytes())
    at = beyond.index(b"\x11\x01\x04\x00")  # tag 273, where the strip is
    beyond[at + 8 : at + 12] = (1 << 30).to_bytes(4, "little")
    (tags / "strips beyond the end.tif").write_bytes(beyond)
    endless = bytearray(write_tiff(tags / "endless count.tif", (rgb_tags, pixels)).read_bytes())
    at = endless.index(b"\x11\x01\x04\x00")
    endless[at + 4 : at + 8] = b"\xff\xff\xff\xff"
    (tags / "endless count.tif").write_bytes(endless)
    (tags / "no directory.tif").write_bytes(b"II*\0\0\0\0\0")
    (tags / "many entries.tif").write_bytes(b"II*\0\x08\0\0\0\xff\xff" + bytes(64))
    write_tiff(folder / "odd compression.tif", ({**rgb_tags, 259: 34712}, pixels))
    write_tiff(folder / "complex numbers.tif", ({**rgb_tags, 258: 32, 262: 1, 277: 1, 339: 5}, [bytes(512)]))
    write_pdf(folder / "huge page.pdf", book(1, box="0 0 14400 14400"))
    objects = book(1)
    side = 40_000
    objects[10] = objects[10].replace("/Resources<<", "/Resources<</XObject<</I 5 0 R>>")
    objects[11] = ("", b"q 200 0 0 100 0 0 cm /I Do Q")
    objects[5] = (
        f"/Type/XObject/Subtype/Image/Width {side}/Height {side}/ColorSpace/DeviceRGB/BitsPerComponent 8",
        bytes(100),
    )
    write_pdf(folder / "picture bomb.pdf", objects)
    return folder


def test_every_kind_of_bad_document_passes_with_its_reason_and_the_batch_ends(quire, bad_batch):
    before = {path: path.read_bytes() for path in bad_batch.rglob("*") if path.is_file()}
    asked = {"QUIRE_PREPROCESS_PDF_PAGES": "images", "QUIRE_PREPROCESS_PDF_DPI": "72"}
    code, megabytes = measured(quire, str(bad_batch), **asked, QUIRE_PREPROCESS_PDF_MAX_MEGAPIXELS="50")
    assert code == 3
    found = quire.files()
    ends = {path: entry["error_class"] for path, entry in found.items()}
    wrong = {
        path: (ends.get(path), found[path]["reason"])
        for path, classes in EXPECTED.items()
        if ends.get(path) not in (classes or {None})
    }
    assert wrong == {}
    assert set(found) == set(EXPECTED)
    for path, entry in found.items():
        if entry["error_class"] is None:
            assert (entry["status"], entry["reason"]) == ("done", None)
            assert entry["outputs"], path
        else:
            assert entry["status"] == "failed"
            assert not entry["outputs"], path
            assert any(words in entry["reason"] for words in ADVICE), (path, entry["reason"])
            assert entry["attempts"] <= 1, "what can never work is not tried again"
    assert {path: path.read_bytes() for path in before} == before
    assert megabytes < MEMORY_MB


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("most", "end"),
    [
        pytest.param("10000", None, id="allowed", marks=pytest.mark.soak),
        pytest.param("1000", "too_many_pages", id="over the limit"),
    ],
)
def test_five_thousand_pages_in_a_batch(most, end, quire, folder, write_pdf, book):
    write_pdf(folder / "long.pdf", book(5000))
    asked = {"QUIRE_PREPROCESS_PDF_PAGES": "pdfs", "QUIRE_PREPROCESS_PDF_MAX_PAGES": most}
    code, megabytes = measured(quire, str(folder), **asked)
    entry = quire.files()["long.pdf"]
    assert (code, entry["error_class"]) == (0 if end is None else 3, end)
    if end is None:
        assert len(entry["outputs"]) == 5000
        assert (quire.out / "long-p5000.pdf").read_bytes().startswith(b"%PDF-")
    else:
        assert "preprocess.pdf_max_pages" in entry["reason"]
        assert not entry["outputs"]
    assert megabytes < MEMORY_MB
