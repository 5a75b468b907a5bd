"""One question to a model, against a real server on loopback."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standins.webhook_receiver import Reply, receiver

from quire.model.errors import Misconfigured, Reject, Retry
from quire.tools.chat_model import ModelAddress, _content, ask_model

KEY = "sk-very-secret"


def _answer(content):
    return msgspec.json.encode({"id": "x", "choices": [{"index": 0, "message": {"content": content}}]})


def _ask(server, **more):
    address = ModelAddress(url=server.url("/v1/"), model="seer", key=KEY, **{"seconds": 5, **more})
    return ask_model(address, [{"role": "user", "content": "hello"}])


def test_the_question_is_that_of_the_openai_interface():
    with receiver(Reply(200, body=_answer("good day"))) as server:
        assert _ask(server, max_tokens=9) == "good day"
    (got,) = server.received
    assert got.path == "/v1/chat/completions"
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert msgspec.json.decode(got.body) == {
        "model": "seer",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 9,
        "temperature": 0.0,
        "stream": False,
    }


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply(429, headers={"retry-after": "17"}), Retry, "status 429"),
        (Reply(503, headers={"retry-after": "soon"}), Retry, "status 503"),
        (Reply(400, body=b"too large"), Reject, "does not take this picture"),
        (Reply(401), Misconfigured, "check its address, its name and the key"),
        (Reply(307, headers={"location": "http://127.0.0.1:1/"}), Misconfigured, "status 307"),
        (Reply(200, body=b"<html>"), Retry, "no chat completion"),
        (Reply(200, body=b'{"choices": []}'), Retry, "is empty"),
        (Reply(200, body=b"[" * 100_000), Retry, "no chat completion"),
        (Reply(200, body=b" " * (3 << 20)), Retry, "more than 2097152 bytes"),
        (Reply(200, held=True), Retry, "no answer within 0.2 s"),
    ],
)
def test_what_is_no_answer_is_translated(reply, kind, says):
    with receiver(reply) as server, pytest.raises(kind, match=says) as failure:
        _ask(server, seconds=0.2 if reply.held else 5)
    assert KEY not in str(failure.value)
    if reply.status == 429:
        assert failure.value.delay_seconds == 17


def test_a_server_that_is_not_there_may_be_later():
    with receiver() as server:
        pass
    with pytest.raises(Retry, match="out of reach: ConnectError"):
        _ask(server)


@pytest.mark.parametrize("url", ["ftp://example.org", "nonsense", "http://[::1"])
def test_an_address_that_is_none_is_a_mistake_of_the_settings(url):
    with pytest.raises(Misconfigured, match="no http or https URL"):
        ask_model(ModelAddress(url=url, model="m"), [])


def test_no_proxy_of_the_environment_sees_the_question(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with receiver(Reply(200, body=_answer("direct"))) as server:
        assert _ask(server) == "direct"


def test_the_key_is_never_shown():
    shown = repr(ModelAddress(url="http://127.0.0.1/v1", model="m", key=KEY))
    assert shown == "ModelAddress(url='http://127.0.0.1/v1', model='m', key=set)"


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_an_answer_of_any_bytes_may_be_tried_again(body):
    address = ModelAddress(url="http://127.0.0.1/v1", model="m")
    with pytest.raises(Retry) as failure:
        _content(body, address)
    assert failure.value.code == "ocr_engine_error"
