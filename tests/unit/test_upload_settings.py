"""Settings of `quire upload`: the published client's variables stand in, a key is not sent in the open."""

import pytest

from quire.model.errors import Misconfigured
from quire.settings import UPLOAD_FALLBACKS, load


def _loaded(folder, environment, **overrides):
    return load(environment, folder, overrides=overrides, fallbacks=UPLOAD_FALLBACKS)


def test_variables_of_the_published_client_stand_in_for_what_nobody_says(tmp_path):
    environment = {"ARKE_WORKER_URL": "https://a.example", "ARKE_PARALLEL": "2", "ARKE_UPLOADER": ""}
    loaded = _loaded(tmp_path, environment)
    upload = loaded.settings.upload
    assert (upload.url, upload.parallel, upload.uploader) == ("https://a.example", 2, "")
    assert loaded.sources["upload.url"] == "ARKE_WORKER_URL"


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "url"),
    [
        ('[upload]\nurl = "https://file.example"', {}, {}, "https://file.example"),
        ("", {"QUIRE_UPLOAD_URL": "https://own.example"}, {}, "https://own.example"),
        ("", {}, {"upload.url": "https://line.example"}, "https://line.example"),
    ],
)
def test_whatever_else_is_said_wins(tmp_path, text, environment, overrides, url):
    (tmp_path / "quire.toml").write_text(text, "utf-8")
    loaded = _loaded(tmp_path, environment | {"ARKE_WORKER_URL": "https://a.example"}, **overrides)
    assert loaded.settings.upload.url == url


def test_other_commands_do_not_look_at_them(tmp_path):
    loaded = load({"ARKE_WORKER_URL": "nonsense", "ARKE_PARALLEL": "many"}, tmp_path)
    assert loaded.settings.upload.url == ""


def test_a_wrong_one_is_named(tmp_path):
    with pytest.raises(Misconfigured, match="ARKE_PARALLEL"):
        _loaded(tmp_path, {"ARKE_PARALLEL": "many"})


@pytest.mark.parametrize("url", ["ftp://a", "https://u:p@a.example", "https://a.example/?x=1", "nonsense"])
def test_an_address_must_be_one(tmp_path, url):
    with pytest.raises(Misconfigured, match=r"upload\.url must be"):
        _loaded(tmp_path, {"QUIRE_UPLOAD_URL": url})


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://a.example", True),
        ("http://127.0.0.1:8787", True),
        ("http://localhost:8787", True),
        ("http://[::1]:8787", True),
        ("http://a.example", False),
        ("HTTP://a.example", False),
        ("http://127.evil.example", False),
    ],
)
def test_a_key_is_not_sent_in_the_open(tmp_path, url, fine):
    environment = {"QUIRE_UPLOAD_URL": url, "QUIRE_UPLOAD_KEY": "s3cret"}
    if fine:
        assert _loaded(tmp_path, environment).settings.upload.key.reveal() == "s3cret"
        return
    with pytest.raises(Misconfigured, match=r"upload\.allow_http") as caught:
        _loaded(tmp_path, environment)
    assert "s3cret" not in str(caught.value)
    assert _loaded(tmp_path, environment | {"QUIRE_UPLOAD_ALLOW_HTTP": "yes"}).settings.upload.url == url
