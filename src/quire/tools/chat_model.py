"""A model behind an OpenAI-compatible address: one request, one answer.

Promises: no redirect is followed and no proxy used; an answer ends within the time and the size allowed; what
comes back is text of a stranger. The key is sent and never shown. Must not know: what is asked.
"""

import time
from collections.abc import Mapping, Sequence

import httpx
import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured, Reject, Retry

CODE = "ocr_engine_error"
_MOST_ANSWER_BYTES = 2 << 20
_CONNECT_SECONDS = 5.0
_LONGEST_DELAY_SECONDS = 300.0


class ModelAddress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`url` is the address up to and including `/v1`. The key is never shown."""

    url: str
    model: str
    key: str = ""
    seconds: float = 60.0
    max_tokens: int = 4096

    def __repr__(self) -> str:
        return f"ModelAddress(url={self.url!r}, model={self.model!r}, key={'set' if self.key else 'not set'})"


class _Message(Struct):
    content: str | None = None


class _Choice(Struct):
    message: _Message


class _Answer(Struct):
    choices: list[_Choice]


def ask_model(
    address: ModelAddress,
    messages: Sequence[Mapping[str, object]],
    *,
    temperature: float = 0.0,
    as_json: bool = False,
) -> str:
    """The text of the answer. Raises Retry when the model is busy, out of reach, too slow or makes no sense,
    Reject when it will not answer this, Misconfigured when it is not the address of such a model.
    """
    asked: dict[str, object] = {
        "model": address.model,
        "messages": list(messages),
        "max_tokens": address.max_tokens,
        "temperature": temperature,
        "stream": False,
    }
    if as_json:
        asked["response_format"] = {"type": "json_object"}
    headers = {"authorization": f"Bearer {address.key}"} if address.key else {}
    target = f"{address.url.rstrip('/')}/chat/completions"
    limits = httpx.Timeout(address.seconds, connect=min(_CONNECT_SECONDS, address.seconds))
    try:
        with (
            httpx.Client(timeout=limits, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", target, json=asked, headers=headers) as response,
        ):
            body = _read_body(response, time.monotonic() + address.seconds)
            _check_status(response, address)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Misconfigured("the address of the model is no http or https URL", code="bad_model") from error
    except httpx.TimeoutException as error:
        raise Retry(f"model {address.model}: no answer within {address.seconds:g} s", code=CODE) from error
    except httpx.HTTPError as error:
        raise Retry(f"model {address.model} is out of reach: {type(error).__name__}", code=CODE) from error
    return _content(body, address)


def _read_body(response: httpx.Response, deadline: float) -> bytes:
    """A slow sender meets the deadline too: the timeout of the client counts anew for each piece."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MOST_ANSWER_BYTES:
            raise Retry(f"the model's answer has more than {_MOST_ANSWER_BYTES} bytes", code=CODE)
        if time.monotonic() > deadline:
            raise Retry("the model's answer did not end in time", code=CODE)
    return bytes(body)


def _check_status(response: httpx.Response, address: ModelAddress) -> None:
    status = response.status_code
    if status == httpx.codes.OK:
        return
    what = f"model {address.model} answered with status {status}"
    if status in {408, 409, 425, 429} or status >= 500:
        raise Retry(what, code=CODE, delay_seconds=_delay(response))
    if status in {400, 413, 415, 422}:
        raise Reject(f"{what}: it does not take this picture or text", code=CODE)
    raise Misconfigured(f"{what}; check its address, its name and the key", code="bad_model")


def _delay(response: httpx.Response) -> float | None:
    said = response.headers.get("retry-after", "")
    return min(float(said), _LONGEST_DELAY_SECONDS) if said.isascii() and said.isdigit() else None


def _content(body: bytes, address: ModelAddress) -> str:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Retry(f"the answer of model {address.model} is no chat completion", code=CODE) from error
    if not answer.choices:
        raise Retry(f"the answer of model {address.model} is empty", code=CODE)
    return answer.choices[0].message.content or ""
