"""The OCR service from settings: sources, limits, engines, and the variables of the published service."""

import pytest

from quire.assembly.picture_reading import build_sources, list_providers, reading_options
from quire.model.envelopes import ImageRef
from quire.model.errors import Misconfigured, Reject
from quire.ocr.image_refs import load_image
from quire.settings import OCR_FALLBACKS, load


def settings(tmp_path, environment=None, **overrides):
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    return load(environment or {}, tmp_path, overrides=named, fallbacks=OCR_FALLBACKS).settings


async def refusal(sources, kind, value):
    with pytest.raises(Reject) as caught:
        await load_image(sources, ImageRef(kind=kind, value=value, index=0))
    return str(caught.value)


async def test_without_settings_neither_buckets_nor_private_addresses_are_read(tmp_path):
    sources = build_sources(settings(tmp_path), None)
    assert sources.buckets is None
    assert sources.max_bytes == 20_000_000
    assert str(sources.root) == "/data/images"
    assert "ocr.allow_private" in await refusal(sources, "s3", "http://127.0.0.1/0.jpg")


async def test_addresses_can_be_switched_off(tmp_path):
    sources = build_sources(settings(tmp_path, ocr__fetch="false"), None)
    assert "not fetched" in await refusal(sources, "s3", "https://pictures.example/0.jpg")


async def test_only_buckets_that_are_named_are_asked(tmp_path):
    sources = build_sources(settings(tmp_path, ocr__buckets="recipes,scans"), None)
    assert "may not be read" in await refusal(sources, "s3", "s3://backups/0.jpg")


def test_variables_of_the_published_service_are_understood(tmp_path):
    found = settings(
        tmp_path,
        {
            "S3_ENDPOINT_URL": "http://127.0.0.1:9000",
            "S3_REGION": "eu-1",
            "S3_FORCE_PATH_STYLE": "false",
            "OCR_MAX_ATTEMPTS": "5",
            "OCR_ENABLED_TIERS": "tesseract",
            "QUIRE_OCR_S3_REGION": "eu-2",
        },
    ).ocr
    assert (found.s3_endpoint, found.s3_region, found.s3_path_style) == (
        "http://127.0.0.1:9000",
        "eu-2",
        False,
    )
    assert (found.max_attempts, found.tiers) == (5, ("tesseract",))


def test_what_is_no_address_is_refused(tmp_path):
    with pytest.raises(Misconfigured, match=r"ocr\.s3_endpoint"):
        settings(tmp_path, ocr__s3_endpoint="nowhere")


def test_every_engine_is_listed_and_those_that_are_there_are_named(tmp_path):
    found = list_providers(settings(tmp_path, ocr__tiers="tesseract"))
    assert set(found) == {"tesseract", "easyocr", "paddleocr", "apple_vision", "llm_local", "llm_cloud"}
    assert [name for name, is_there in found.items() if is_there] == ["tesseract"]


def test_how_pictures_are_read_can_travel_to_a_worker(tmp_path):
    options = reading_options(settings(tmp_path, ocr__tiers="tesseract", ocr__max_megapixels="7"))
    assert (options["tiers"], options["max_pixels"]) == (("tesseract",), 7_000_000)
