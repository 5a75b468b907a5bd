"""Signatures: as AWS publishes them, and as another implementation makes them."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from quire.blobs.s3.signing import Signer
from quire.model.errors import Misconfigured
from quire.testing.blobs_suite import AWKWARD_KEYS

# The example on "Authenticating Requests: Using Query Parameters", with the keys of all examples of AWS.
EXAMPLE = {
    "region": "us-east-1",
    "access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
MOMENT = datetime(2013, 5, 24, tzinfo=UTC).timestamp()


def test_the_published_example():
    signer = Signer(endpoint="https://examplebucket.s3.amazonaws.com", **EXAMPLE)
    assert signer.url("GET", "/test.txt", query={}, seconds=86400, now=MOMENT) == (
        "https://examplebucket.s3.amazonaws.com/test.txt"
        "?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z"
        "&X-Amz-Expires=86400"
        "&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_another_implementation_signs_the_same(method, key):
    obstore = pytest.importorskip("obstore")
    store = obstore.store.S3Store("bucket", endpoint="https://store.example.org", **EXAMPLE)
    theirs = urlsplit(obstore.sign(store, method, key, timedelta(seconds=77)))
    asked = parse_qs(theirs.query)
    now = datetime.strptime(asked["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    signer = Signer(endpoint="https://store.example.org", **EXAMPLE)
    ours = urlsplit(signer.url(method, f"/bucket/{key}", query={}, seconds=77, now=now))
    assert parse_qs(ours.query) == asked
    assert ours.path == theirs.path


def test_every_part_of_the_request_is_signed():
    def signature(
        method="PUT", path="/b/k", query=None, seconds=60, now=MOMENT, host="https://a.example", region="r"
    ):
        access = {**EXAMPLE, "region": region}
        signer = Signer(endpoint=host, **access)
        return signer.url(method, path, query=query or {}, seconds=seconds, now=now)[-64:]

    others = [
        signature(),
        signature(method="GET"),
        signature(path="/b/l"),
        signature(query={"partNumber": "1"}),
        signature(query={"partNumber": "2"}),
        signature(seconds=61),
        signature(now=MOMENT + 1),
        signature(now=MOMENT + 86400),
        signature(host="https://b.example"),
        signature(region="q"),
    ]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize(
    ("endpoint", "begin"),
    [
        ("https://Store.Example:443/", "https://store.example/b/"),
        ("http://127.0.0.1:80", "http://127.0.0.1/b/"),
        ("http://127.0.0.1:8333", "http://127.0.0.1:8333/b/"),
        ("https://store.example/s3/", "https://store.example/s3/b/"),
        ("http://[::1]:8333", "http://[::1]:8333/b/"),
    ],
)
def test_the_host_is_signed_as_clients_send_it(endpoint, begin):
    signer = Signer(endpoint=endpoint, **EXAMPLE)
    assert signer.url("GET", "/b/ ü", query={}, seconds=1, now=MOMENT).startswith(begin + "%20%C3%BC?")


@pytest.mark.parametrize(
    "endpoint", ["", "store.example", "ftp://store.example", "https://me:word@store.example"]
)
def test_what_is_no_address_is_refused(endpoint):
    with pytest.raises(Misconfigured) as refused:
        Signer(endpoint=endpoint, **EXAMPLE)
    assert "word" not in str(refused.value)
