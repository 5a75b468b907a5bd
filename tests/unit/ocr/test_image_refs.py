"""References to pictures: each kind by its own rules, and every failure with a code of the contract."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.standins.raw_web_server import never_ending, redirect, reply, web_server

from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.foreign_buckets import ForeignBuckets
from quire.model.envelopes import ImageRef
from quire.model.errors import Misconfigured, QuireError, Reject, Retry
from quire.ocr.image_refs import ImageSources, load_image
from quire.tools.guarded_fetch import GuardedFetcher

INSIDE = GuardedFetcher(allow_private=True)


async def load(sources, kind, value):
    return await load_image(sources, ImageRef(kind=kind, value=value, index=0))


async def refusal(sources, kind, value):
    with pytest.raises(QuireError) as caught:
        await load(sources, kind, value)
    return type(caught.value), str(caught.value.code)


NOT_FOUND = (Reject, "image_not_found")
UNSUPPORTED = (Reject, "unsupported_media")
UNREAD = (Retry, "file_read_error")


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "images"
    root.mkdir()
    (root / "0.jpg").write_bytes(b"picture")
    (root / "empty.jpg").write_bytes(b"")
    (root / "large.jpg").write_bytes(b"x" * 101)
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    os.mkfifo(root / "pipe.jpg")
    return ImageSources(root=root, max_bytes=100)


async def test_a_path_is_relative_to_the_image_folder(folder):
    assert await load(folder, "local_path", "0.jpg") == b"picture"
    assert await load(folder, "local_path", str(folder.root / "0.jpg")) == b"picture"


async def test_paths_that_lead_elsewhere_are_not_found(folder):
    for value in (
        "../secret.jpg",
        "/etc/passwd",
        "link.jpg",
        "pipe.jpg",
        ".",
        "http://127.0.0.1/0.jpg",
        "no.jpg",
    ):
        assert await refusal(folder, "local_path", value) == NOT_FOUND


async def test_a_file_over_the_limit_or_without_bytes_is_no_picture(folder):
    assert await refusal(folder, "local_path", "large.jpg") == UNSUPPORTED
    assert await refusal(folder, "local_path", "empty.jpg") == UNSUPPORTED


async def test_a_file_that_cannot_be_read_may_be_tried_again(folder, monkeypatch):
    def broken(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("quire.ocr.image_refs.read_below", broken)
    assert await refusal(folder, "local_path", "0.jpg") == UNREAD


async def test_what_is_not_configured_is_not_found():
    for kind, value in (
        ("local_path", "0.jpg"),
        ("s3", "s3://recipes/0.jpg"),
        ("minio", "minio://recipes/0.jpg"),
        ("s3", "https://pictures.example/0.jpg"),
        ("db", "17"),
        ("s3", ""),
        ("s3", "x" * 9000),
    ):
        assert await refusal(ImageSources(), kind, value) == NOT_FOUND


class Buckets:
    """A store that says what it is told to."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def read(self, bucket, key, *, max_bytes):
        self.asked.append((bucket, key, max_bytes))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_an_object_is_read_from_its_bucket():
    buckets = Buckets(b"picture")
    sources = ImageSources(buckets=buckets)
    assert await load(sources, "s3", "s3://recipes/recipe-images/7/ä b%20c?d/0.jpg") == b"picture"
    assert await load(sources, "minio", "minio://recipes/0.jpg") == b"picture"
    assert await load(sources, "minio", "s3://recipes/0.jpg") == b"picture"
    assert [one[:2] for one in buckets.asked] == [
        ("recipes", "recipe-images/7/ä b%20c?d/0.jpg"),
        ("recipes", "0.jpg"),
        ("recipes", "0.jpg"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "s3://",
        "s3://recipes",
        "s3://recipes/",
        "s3:///0.jpg",
        "s3://a/0",
        "recipes/0.jpg",
        "ftp://h/0",
        "s3://u:p@h/0",
    ],
)
async def test_what_names_no_object_is_not_found(value):
    buckets = Buckets(b"picture")
    assert await refusal(ImageSources(buckets=buckets), "s3", value) == NOT_FOUND
    assert buckets.asked == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Retry("away", code="storage_unavailable"), UNREAD),
        (Reject("large", code="too_large"), UNSUPPORTED),
        (Reject("odd", code="bad_key"), NOT_FOUND),
        (Misconfigured("no rights", code="storage_denied"), NOT_FOUND),
    ],
)
async def test_failures_of_the_store_have_codes_of_the_contract(error, expected):
    assert await refusal(ImageSources(buckets=Buckets(error)), "s3", "s3://recipes/0.jpg") == expected


@pytest.mark.service
async def test_objects_of_a_real_bucket_are_read_within_the_rules(s3_server):
    access = {
        "region": s3_server.region,
        "access_key_id": s3_server.access_key_id,
        "secret_access_key": s3_server.secret_access_key,
    }
    own = S3Blobs(bucket=s3_server.bucket, endpoint=s3_server.endpoint, allow_http=True, **access)
    odd = "recipe-images/7/ä b%20c+d?e#f/0.jpg"
    await own.put(odd, b"picture")
    await own.put("large.jpg", b"x" * 101)
    await own.close()
    buckets = ForeignBuckets(
        [s3_server.bucket, "no-such-bucket"], endpoint=s3_server.endpoint, access=access, allow_http=True
    )
    sources = ImageSources(buckets=buckets, max_bytes=100)
    at = f"s3://{s3_server.bucket}"
    assert await load(sources, "s3", f"{at}/{odd}") == b"picture"
    assert await load(sources, "minio", f"minio://{s3_server.bucket}/{odd}") == b"picture"
    assert await refusal(sources, "s3", f"{at}/large.jpg") == UNSUPPORTED
    for value in (
        f"{at}/none.jpg",
        f"{at}/../secret",
        f"{at}//0.jpg",
        f"{at}/a\x00b",
        f"{at}/{'x' * 2000}",
        "s3://other-bucket/0.jpg",
        "s3://no-such-bucket/0.jpg",
    ):
        assert await refusal(sources, "s3", value) == NOT_FOUND


async def test_a_picture_comes_from_a_web_address():
    async with web_server(a=redirect("/b"), b=reply(b"picture")) as web:
        assert await load(ImageSources(fetcher=INSIDE), "s3", web.url("/a")) == b"picture"


async def test_failures_of_web_addresses_have_codes_of_the_contract():
    async with web_server(
        inside=redirect("http://169.254.169.254/latest"),
        busy=reply(b"", "503 Busy"),
        slow=reply(b"", "429 Slow down"),
        endless=never_ending,
        empty=reply(b""),
    ) as web:
        sources = ImageSources(fetcher=INSIDE, max_bytes=100)
        for path, expected in (
            ("/none", NOT_FOUND),
            ("/inside", NOT_FOUND),
            ("/busy", UNREAD),
            ("/slow", UNREAD),
            ("/endless", UNSUPPORTED),
            ("/empty", UNSUPPORTED),
        ):
            assert await refusal(sources, "s3", web.url(path)) == expected
        assert await refusal(ImageSources(fetcher=GuardedFetcher()), "s3", web.url("/none")) == NOT_FOUND
        url = web.url("/none")
    assert await refusal(sources, "s3", url) == UNREAD


async def test_a_picture_of_the_database_comes_from_the_address_of_the_setting():
    async with web_server() as web:
        web.answers["/pictures/a%2F..%2Fb%3Fc"] = reply(b"picture")
        sources = ImageSources(database_url=web.url("/pictures/{id}"), database=INSIDE)
        assert await load(sources, "db", "a/../b?c") == b"picture"
        web.answers["/pictures/1"] = redirect("/pictures/2")
        assert await refusal(sources, "db", "1") == NOT_FOUND


async def test_a_store_that_does_not_answer_is_not_waited_for():
    class Hanging:
        async def read(self, *_, **__):
            await asyncio.Event().wait()

    sources = ImageSources(root=Path("/"), buckets=Hanging(), timeout_seconds=0.05)
    assert await refusal(sources, "s3", "s3://recipes/0.jpg") == UNREAD


@pytest.mark.parametrize("value", [".", ".."])
async def test_an_id_does_not_lead_out_of_the_address_of_the_setting(value):
    async with web_server() as web:
        web.answers["/raw"] = web.answers["/pictures/raw"] = reply(b"something else")
        sources = ImageSources(database_url=web.url("/pictures/{id}/raw"), database=INSIDE)
        assert await refusal(sources, "db", value) == NOT_FOUND


def test_not_every_bucket_that_strangers_name_is_kept():
    buckets = ForeignBuckets(["*"], endpoint="http://127.0.0.1:1", access={"region": "x"}, allow_http=True)
    opened = {name: buckets._open(name) for name in (f"bucket-{number}" for number in range(100))}
    assert buckets._open("bucket-99") is opened["bucket-99"]
    assert buckets._open("bucket-0") is not opened["bucket-0"]
