"""Content types: signatures beat extensions, extensions decide where there is no signature."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.tools import sniff

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\0"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
WEBP = b"RIFF\x24\0\0\0WEBPVP8 "

TABLE = [
    ("p1.jpg", JPEG, "image/jpeg"),
    ("p1.JPEG", b"", "image/jpeg"),
    ("p1", JPEG, "image/jpeg"),
    ("p1.bin", JPEG, "image/jpeg"),
    ("p1.tif", JPEG, "image/jpeg"),
    ("p1.txt", JPEG, "image/jpeg"),
    ("p1.jpg", PNG, "image/png"),
    ("p1", WEBP, "image/webp"),
    ("sound", b"RIFF\x24\0\0\0WAVEfmt ", "application/octet-stream"),
    ("sound.wav", b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
    ("scan", b"II*\0\x08\0\0\0", "image/tiff"),
    ("scan", b"MM\0*\0\0\0\x08", "image/tiff"),
    ("scan", b"II+\0\x08\0\0\0", "image/tiff"),
    ("scan", b"MM\0+\0\x08\0\0", "image/tiff"),
    ("scan.TIFF", b"plain words", "image/tiff"),
    ("scan.tif", b"", "image/tiff"),
    ("a.gif", b"GIF89a\x01", "image/gif"),
    ("a", b"BM\x36\0\0\0\0\0\0\0\x36\0", "image/bmp"),
    ("a", b"BMW was founded in Munich.", "text/plain"),
    ("a.dat", b"%PDF-1.7\n", "application/pdf"),
    ("letter.docx", b"PK\x03\x04\x14", sniff._EXTENSIONS["docx"]),
    ("book.epub", b"PK\x03\x04\x14", "application/epub+zip"),
    ("a.unknown", b"PK\x03\x04\x14", "application/zip"),
    ("p1.jpg.ref.json", b'{"url":"x"}', "application/json"),
    ("data", b'  {"a": 1}', "application/json"),
    ("data", b"[1, 2]", "application/json"),
    ("note", b"[Chapter 1] It was a dark night", "text/plain"),
    ("note", "Grüße aus Köln".encode(), "text/plain"),
    ("note", "Grüße aus Köln, und so weiter".encode("latin-1"), "text/plain"),
    ("page", b"<!doctype html><html>", "application/xml"),
    ("noise", bytes(range(256)), "application/octet-stream"),
    ("empty", b"", "application/octet-stream"),
    (".tif", b"words", "text/plain"),
    ("", b"", "application/octet-stream"),
]


@pytest.mark.parametrize(("name", "head", "expected"), TABLE)
def test_content_type(name, head, expected):
    assert sniff.content_type(name, head) == expected


def test_a_head_may_end_inside_a_character():
    assert sniff.content_type("note", ("a" + "ü" * 400).encode()[: sniff.HEAD_BYTES]) == "text/plain"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"Dear reader", "plain text"),
        (b"%PDF-1.4", "a PDF"),
        (JPEG, "a JPEG picture"),
        (b"", "an empty file"),
        (bytes(9), "nothing but zero bytes"),
        (b"\x07\x01\x02", "data of an unknown kind"),
    ],
)
def test_looks_like_is_in_words(head, words):
    assert sniff.looks_like(head) == words


@settings(deadline=None)
@given(name=st.text(max_size=30), head=st.binary(max_size=600))
def test_any_name_and_any_bytes_give_an_answer(name, head):
    kind = sniff.content_type(name, head)

    assert kind.count("/") == 1
    assert sniff.looks_like(head)
    if (signed := sniff.signature(head)) and signed.startswith("image/"):
        assert kind == signed


def test_every_signature_has_words():
    assert {kind for _, _, kind in sniff._SIGNATURES} <= sniff._IN_WORDS.keys()
