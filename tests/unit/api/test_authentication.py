"""Who may ask: what a page of another origin, a foreign name for this machine and a wrong key get."""

from types import SimpleNamespace

import pytest

from quire.access.api_keys import Scope, owner_of
from quire.access.port import ApiKey
from quire.api.app import ROUTES
from quire.api.authentication import ANONYMOUS, Authenticator, is_loopback
from quire.api.routing import Route
from quire.model.errors import Missing, Reject, Retry

OWN = {
    "mine": ("submit", ""),
    "reader": ("read", ""),
    "operator": ("operate", ""),
    "admin": ("admin", ""),
    "guest": ("operate", "guests"),
}
KEYS = {
    f"qk_{name}": ApiKey(id=name, label="", hint="", hash=name, scope=scope, tenant=tenant)
    for name, (scope, tenant) in OWN.items()
}
TIRED = ApiKey(id="tired", label="", hint="", hash="tired", scope="admin")


async def identify(text):
    if text == "qk_tired":
        return TIRED, 7.5
    return (KEYS[text], 0.0) if text in KEYS else None


async def origin(batch_id):
    known = {"of-mine": (owner_of(KEYS["qk_mine"]), ""), "of-guests": ("another", "guests")}
    if batch_id not in known:
        raise Missing("Batch not found", code="unknown_batch")
    return known[batch_id]


def gate(*, anonymous=True, hosts=("quire.example",)):
    return Authenticator(identify, origin, anonymous=anonymous, hosts=frozenset(hosts))


def route(name):
    return next(one for one in ROUTES if one.name == name)


def asked(batch_id=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(headers=named, path_params={} if batch_id is None else {"batch_id": batch_id})


async def refusal(request, name, *, kind=Reject, **options):
    with pytest.raises(kind) as caught:
        await gate(**options).admit(route(name), request)
    return caught.value.code


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8787",
        "127.8.8.8",
        "localhost",
        "LOCALHOST:80",
        "[::1]",
        "[::1]:8787",
        "quire.example:1",
    ],
)
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:8787", "http://[::1]:9", "https://quire.example"])
async def test_programs_and_pages_of_our_own_need_no_key(host, origin):
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    for name in ("listBatches", "cancelBatch", "createKey"):
        assert await gate().admit(route(name), asked(**headers)) == ANONYMOUS


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "file://",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://evil.example#127.0.0.1",
        "http://127.0.0.1@evil.example",
        "http://[::1",
        "http://[::ffff:1.2.3.4]",
        "127.0.0.1",
    ],
)
async def test_a_page_of_another_origin_cannot_act_without_a_key(origin):
    for name in ("listBatches", "cancelBatch", "createKey", "discardDeadLetters"):
        assert await refusal(asked(host="127.0.0.1:8787", origin=origin), name) == "forbidden"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "",
        "0.0.0.0",  # noqa: S104
        "[::ffff:8.8.8.8]",
        "[",
        "a@b:x",
    ],
)
async def test_a_foreign_name_that_leads_to_this_machine_is_refused(host):
    """What DNS rebinding makes: the page's origin and the host are the same, and both foreign."""
    for headers in ({"host": host}, {"host": host, "origin": f"http://{host}"}):
        assert await refusal(asked(**headers), "listBatches") == "forbidden"


async def test_the_upload_protocol_is_for_pages_of_any_origin():
    request = asked(host="evil.example", origin="http://evil.example")
    assert await gate().admit(route("openBatch"), request) == ANONYMOUS


async def test_a_key_is_good_from_any_origin():
    request = asked(host="evil.example", origin="http://evil.example", authorization="Bearer qk_admin")
    assert (await gate().admit(route("listKeys"), request)).name == "admin"


@pytest.mark.parametrize("said", ["Bearer qk_wrong", "Bearer  qk_wrong", "bearer qk_", "Basic qk_mine"])
@pytest.mark.parametrize("anonymous", [True, False])
async def test_a_wrong_key_of_ours_is_never_taken_for_no_key(said, anonymous):
    request = asked(host="localhost", authorization=said)
    assert await refusal(request, "listBatches", anonymous=anonymous) == "unauthorized"


@pytest.mark.parametrize("said", ["Bearer eyJhbGciOi", "Basic dXNlcg==", "", "x"])
async def test_a_foreign_token_is_no_key_where_none_is_needed(said):
    assert await gate().admit(route("openBatch"), asked(authorization=said)) == ANONYMOUS
    evil = asked(host="localhost", origin="http://evil.example", authorization=said)
    assert await refusal(evil, "listBatches") == "forbidden"
    assert await refusal(asked(authorization=said), "openBatch", anonymous=False) == "unauthorized"


async def test_where_keys_are_needed_nothing_else_opens():
    for one in ROUTES:
        if one.scope is None:
            assert await gate(anonymous=False).admit(one, asked()) == ANONYMOUS
        else:
            assert await refusal(asked(host="localhost"), one.name, anonymous=False) == "unauthorized"


MAY = {
    "mine": {Scope.SUBMIT},
    "reader": {Scope.READ},
    "operator": {Scope.SUBMIT, Scope.READ, Scope.OPERATE},
    "admin": set(Scope),
}


@pytest.mark.parametrize("name", MAY)
@pytest.mark.parametrize("one", [one for one in ROUTES if one.scope is not None], ids=lambda one: one.name)
async def test_a_key_opens_what_its_scope_allows(one: Route, name):
    of_batch = "batch_id" in one.path
    request = asked("of-mine" if of_batch else None, authorization=f"Bearer qk_{name}")
    looks_at_its_own = of_batch and one.method == "GET" and one.scope in {Scope.SUBMIT, Scope.READ}
    if one.scope in MAY[name] or looks_at_its_own:
        assert (await gate(anonymous=False).admit(one, request)).name == name
    else:
        assert await refusal(request, one.name, anonymous=False) == "forbidden"


@pytest.mark.parametrize(
    ("key", "batch"), [("mine", "of-guests"), ("mine", "unknown"), ("guest", "of-mine"), ("guest", "unknown")]
)
async def test_a_batch_of_others_looks_like_none(key, batch):
    request = asked(batch, authorization=f"Bearer qk_{key}")
    for name in ("batchStatus", "unifiedStatus", "downloadFile", "startFile"):
        assert await refusal(request, name, kind=Missing) == "unknown_batch"


async def test_a_key_of_a_tenant_is_not_for_the_whole_house():
    request = asked(authorization="Bearer qk_guest")
    for one in ROUTES:
        if one.whole:
            assert await refusal(request, one.name) == "forbidden"


async def test_who_asks_too_often_is_told_when_to_come_again():
    with pytest.raises(Retry) as caught:
        await gate().admit(route("listBatches"), asked(authorization="Bearer qk_tired"))
    assert (caught.value.code, caught.value.delay_seconds) == ("rate_limited", 7.5)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.", False),
        ("", False),
        ("2130706433", False),
        ("127.1", False),
    ],
)
def test_which_names_are_this_machine(host, loopback):
    assert is_loopback(host) is loopback
