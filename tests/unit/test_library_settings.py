"""Settings of the library: where it lies, whose variables stand in, what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Misconfigured, Reject
from quire.settings import LIBRARY_FALLBACKS, Secret, load
from quire.settings.library import LibraryLocation, parse_location


def loaded(folder, environment):
    return load(environment, folder, fallbacks=LIBRARY_FALLBACKS)


@pytest.mark.parametrize(
    ("bucket", "prefix", "wanted"),
    [
        ("books", "pdf/", LibraryLocation(bucket="books", prefix="pdf/")),
        ("books", "pdf", LibraryLocation(bucket="books", prefix="pdf/")),
        ("books", "/a/b", LibraryLocation(bucket="books", prefix="a/b/")),
        ("books", "/", LibraryLocation(bucket="books")),
        ("s3://books", "pdf/", LibraryLocation(bucket="books", prefix="pdf/")),
        ("s3://books/", "pdf/", LibraryLocation(bucket="books", prefix="pdf/")),
        ("s3://books/old/lib", "pdf/", LibraryLocation(bucket="books", prefix="old/lib/")),
        ("file:///srv/my%20books", "pdf/", LibraryLocation(folder=Path("/srv/my books"), prefix="pdf/")),
        ("", "pdf/", LibraryLocation(prefix="pdf/")),
    ],
)
def test_a_place_is_a_bucket_or_a_folder_with_a_prefix(bucket, prefix, wanted):
    assert parse_location(bucket, prefix) == wanted


@pytest.mark.parametrize(
    "bucket",
    ["a b", "http://x", "s3://", "s3:///x", "file://host/x", "file:x", "file:///a%00b", "s3://b/../x", "b/x"],
)
def test_what_is_no_place_is_refused(bucket, tmp_path):
    with pytest.raises(Reject):
        parse_location(bucket, "pdf/")
    with pytest.raises(Misconfigured, match=r"library\.bucket"):
        loaded(tmp_path, {"QUIRE_BUCKET": bucket})


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_is_written_gives_a_safe_prefix_or_a_refusal(bucket, prefix):
    try:
        found = parse_location(bucket, prefix)
    except Reject:
        return
    assert ".." not in found.prefix.split("/")
    assert not found.prefix.startswith("/")
    assert found.prefix == "" or found.prefix.endswith("/")


def test_the_short_variable_names_the_bucket_and_the_full_one_counts_more(tmp_path):
    assert load({"QUIRE_BUCKET": "short"}, tmp_path).settings.library.bucket == "short"
    both = load({"QUIRE_BUCKET": "short", "QUIRE_LIBRARY_BUCKET": "full"}, tmp_path)
    assert both.settings.library.bucket == "full"


def test_variables_of_the_published_tools_stand_in(tmp_path):
    environment = {
        "BLOBFORGE_S3_BUCKET": "old",
        "BLOBFORGE_S3_PREFIX": "x",
        "BLOBFORGE_S3_REGION": "eu-west-1",
        "BLOBFORGE_S3_ENDPOINT_URL": "https://s3.example.org",
        "BLOBFORGE_S3_ACCESS_KEY_ID": "name",
        "BLOBFORGE_S3_SECRET_ACCESS_KEY": "hush",
        "BLOBFORGE_MAX_RETRIES": "5",
        "BLOBFORGE_HEARTBEAT_INTERVAL": "30",
        "BLOBFORGE_STALE_TIMEOUT_MINUTES": "20",
        "BLOBFORGE_CONVERSION_TIMEOUT": "86400",
        "BLOBFORGE_WORKER_ID": "w1",
        "BLOBFORGE_LOG_LEVEL": "DEBUG",
        "AWS_ACCESS_KEY_ID": "other",
    }
    found = loaded(tmp_path, environment)
    chosen = found.settings.library
    assert (chosen.bucket, chosen.prefix, chosen.region) == ("old", "x", "eu-west-1")
    assert (chosen.endpoint, chosen.access_key_id) == ("https://s3.example.org", Secret("name"))
    assert chosen.secret_access_key == Secret("hush")
    assert (chosen.max_retries, chosen.heartbeat_seconds, chosen.stale_minutes) == (5, 30, 20)
    assert (chosen.conversion_seconds, chosen.worker_id, chosen.log_level) == (86400, "w1", "DEBUG")
    assert found.sources["library.max_retries"] == "BLOBFORGE_MAX_RETRIES"
    assert "hush" not in str(found.rows())
    assert loaded(tmp_path, environment | {"QUIRE_BUCKET": "own"}).settings.library.bucket == "own"
    assert load(environment, tmp_path).settings.library.bucket == ""  # other commands do not look


def test_every_variable_of_the_contract_is_known():
    named = {one for some in LIBRARY_FALLBACKS.values() for one in some if one.startswith("BLOBFORGE_")}
    assert len(named) == 12


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"BLOBFORGE_MAX_RETRIES": "many"}, "BLOBFORGE_MAX_RETRIES"),
        ({"QUIRE_LIBRARY_ENDPOINT": "http://s3.example.org"}, "library.allow_http"),
        ({"QUIRE_LIBRARY_ENDPOINT": "https://u:p@s3.example.org"}, "without user name"),
        ({"QUIRE_LIBRARY_ACCESS_KEY_ID": "x"}, "library.secret_access_key is not"),
        ({"QUIRE_LIBRARY_HEARTBEAT_SECONDS": "600"}, "workers count as dead"),
        ({"QUIRE_LIBRARY_WORKER_ID": "../x"}, "library.worker_id"),
        ({"QUIRE_LIBRARY_RUN_WINDOWS": "22:00-06:00 25:00-26:00"}, "'25:00-26:00' is no window"),
        ({"QUIRE_LIBRARY_CONVERTER": "magic"}, "library.converter"),
    ],
)
def test_what_cannot_work_is_refused_by_name(tmp_path, environment, words):
    with pytest.raises(Misconfigured) as caught:
        loaded(tmp_path, environment)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8333", "http://localhost:9000", "https://s3.example.org"]
)
def test_a_server_on_this_machine_needs_no_tls(tmp_path, endpoint):
    assert loaded(tmp_path, {"QUIRE_LIBRARY_ENDPOINT": endpoint}).settings.library.endpoint == endpoint
