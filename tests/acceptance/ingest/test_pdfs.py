"""PDFs sent to the service: what becomes of their pages is said for each directory, or by the setting."""

import json
from pathlib import Path

import httpx
import pytest
from tests.acceptance.ingest.conftest import CONFIG, serving
from tests.acceptance.ingest.home import at_home
from tests.acceptance.ingest.sender import Sender

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parents[2] / "documents" / "corpus"
PDF = (CORPUS / "pdf" / "crazyones.pdf").read_bytes()
BINARY = "application/octet-stream"
FILES = {
    # path: bytes, what the file's configuration says
    "/fonds/a/x.pdf": (PDF, {"pdf_pages": "images"}),
    "/fonds/b/x.pdf": (PDF, {"pdf_pages": "none"}),
    "/fonds/c/x.pdf": (PDF, {"pdf_pages": "both"}),
    "/fonds/d/x.pdf": (PDF, {}),
    "/fonds/e/photo.jpg": ((CORPUS / "image" / "invalid-exif.jpg").read_bytes(), {}),
    "/fonds/e/locked.pdf": (
        (CORPUS / "pdf" / "crazyones-encrypted-256.pdf").read_bytes(),
        {"pdf_pages": "pdfs"},
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    environment = {"QUIRE_PREPROCESS_PDF_PAGES": "pdfs", "QUIRE_PREPROCESS_PDF_DPI": "50"}
    with serving(tmp_path_factory.mktemp("pdfs"), environment, "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with server.client() as made:
        yield made


def test_every_directory_gets_what_it_asks_for(server, client):
    total = sum(len(body) for body, _ in FILES.values())
    batch = Sender(client, root_path="/fonds", file_count=len(FILES), total_size=total)
    for path, (body, config) in FILES.items():
        said = {"content_type": BINARY, "processing_config": CONFIG | config}
        url = batch.start(path, len(body), **said).raise_for_status().json()["presigned_url"]
        assert httpx.put(url, content=body).status_code == 200
        assert batch.complete(path).json() == {"success": True}
    batch.finalize().raise_for_status()
    with client.stream("GET", f"{batch.at}/events") as stream:
        assert "event: end" in list(stream.iter_lines())

    ends = {one["path"]: one["error_class"] for one in client.get(f"{batch.at}/files").json()["files"]}
    assert ends == dict.fromkeys(FILES) | {
        "/fonds/b/x.pdf": "not_handled",
        "/fonds/e/locked.pdf": "encrypted",
    }
    listed = files_of(server, batch)
    assert {path: one.get("preprocessor_tags") for path, one in listed.items()} == {
        "/fonds/a/x.pdf": ["PdfSplitter:source"],
        "/fonds/a/x-p0001.jpg.ref.json": ["ImageProcessor"],
        "/fonds/b/x.pdf": None,
        "/fonds/c/x.pdf": ["PdfSplitter:source"],
        "/fonds/c/x-p0001.jpg.ref.json": ["ImageProcessor"],
        "/fonds/c/x-p0001.pdf": ["PdfSplitter"],
        "/fonds/d/x.pdf": ["PdfSplitter:source"],
        "/fonds/d/x-p0001.pdf": ["PdfSplitter"],
        "/fonds/e/locked.pdf": None,
        "/fonds/e/photo.jpg.ref.json": ["ImageProcessor"],
    }
    assert listed["/fonds/d/x-p0001.pdf"]["source_file"] == "x.pdf"


def files_of(server, batch):
    """The list that is handed on, by path."""

    async def read(office):
        return json.loads(await office.blobs.get(batch.key("/_manifest.json")))

    manifest = at_home(server, read)
    return {file["logical_path"]: file for one in manifest["directories"] for file in one["files"]}


def test_a_word_that_nobody_knows_is_refused_when_the_file_is_announced(client):
    answer = Sender(client).start("/x.pdf", processing_config=CONFIG | {"pdf_pages": "jpegs"})

    assert answer.status_code == 400
    assert answer.json()["error"] == (
        "Invalid processing_config: pdf_pages must be one of images, pdfs, both, none"
    )
