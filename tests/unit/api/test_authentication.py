"""Who may ask: what a page of another origin, a foreign name for this machine and a wrong key get."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from quire.access.api_keys import Scope, owner_of
from quire.access.port import ApiKey
from quire.api.app import ROUTES
from quire.api.authentication import ANONYMOUS, Authenticator, is_loopback
from quire.api.routing import Route
from quire.ledger.submissions import OwnerQuota
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


async def identify(text, address):
    assert address == "192.0.2.7"
    if text == "qk_tired":
        return TIRED, 7.5
    return (KEYS[text], 0.0) if text in KEYS else None


async def origin(batch_id):
    known = {"of-mine": (owner_of(KEYS["qk_mine"]), ""), "of-guests": ("another", "guests")}
    if batch_id not in known:
        raise Missing("Batch not found", code="unknown_batch")
    return known[batch_id]


def gate(*, anonymous=True, hosts=("quire.example",), **options):
    return Authenticator(identify, origin, anonymous=anonymous, hosts=frozenset(hosts), **options)


def route(name):
    return next(one for one in ROUTES if one.name == name)


def asked(batch_id=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("host", "localhost:8787")
    params = {} if batch_id is None else {"batch_id": batch_id}
    return SimpleNamespace(headers=named, path_params=params, client=SimpleNamespace(host="192.0.2.7"))


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
async def test_programs_and_pages_of_our_own_need_no_key(host):
    own = ({}, {"origin": f"http://{host}"}, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"})
    for more in own:
        for name in ("listBatches", "cancelBatch", "createKey", "openBatch", "startFile"):
            assert await gate().admit(route(name), asked(host=host, **more)) == ANONYMOUS


async def test_a_page_at_the_public_address_is_our_own_whatever_the_proxy_makes_of_the_host():
    public = {"public_url": "https://quire.example/at/home"}
    request = asked(host="127.0.0.1:8787", origin="https://quire.example")
    assert await gate(**public).admit(route("createKey"), request) == ANONYMOUS
    for foreign in ("http://quire.example", "https://quire.example:8443", "https://www.quire.example"):
        asks = asked(host="127.0.0.1:8787", origin=foreign)
        assert await refusal(asks, "createKey", **public) == "forbidden"


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
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "http://localhost:8787",
        "https://127.0.0.1:8787.evil.example",
    ],
)
async def test_a_page_of_another_origin_cannot_act_without_a_key(origin):
    """Another port of this machine is another origin, too."""
    changing = [one.name for one in ROUTES if one.scope is not None and one.method not in {"GET", "HEAD"}]
    assert {"openBatch", "startFile", "completeFile", "finalizeBatch", "createKey"} <= set(changing)
    for name in ("listBatches", *changing):
        assert await refusal(asked(host="127.0.0.1:8787", origin=origin), name) == "forbidden"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "x"])
async def test_a_request_that_a_page_of_another_site_causes_without_an_origin_is_refused(site):
    """Images, links and forms: browsers say where they are from."""
    for name in ("listBatches", "openBatch", "createKey"):
        assert await refusal(asked(sec_fetch_site=site), name) == "forbidden"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3000"])
async def test_no_page_of_another_origin_is_an_administrator_not_even_with_a_key(origin):
    request = asked(origin=origin, authorization="Bearer qk_admin")
    for name in ("listBatches", "cancelBatch", "createKey", "discardDeadLetters"):
        assert await refusal(request, name) == "forbidden"
        assert await refusal(request, name, anonymous=False) == "forbidden"


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
        for name in ("listBatches", "openBatch"):
            assert await refusal(asked(**headers), name) == "forbidden"


async def test_pages_of_any_origin_upload_with_a_key_and_look_without_one():
    request = asked(host="evil.example", origin="http://evil.example", authorization="Bearer qk_mine")
    assert (await gate().admit(route("openBatch"), request)).name == "mine"
    for name in ("batchStatus", "unifiedStatus"):
        asks = asked("of-mine", host="evil.example", origin="http://evil.example")
        assert await gate().admit(route(name), asks) == ANONYMOUS


async def test_a_server_that_is_open_to_all_takes_uploads_from_pages_of_any_origin():
    request = asked("of-mine", host="evil.example", origin="http://evil.example")
    for name in ("openBatch", "startFile", "completeFile", "finalizeBatch"):
        assert await gate(foreign_uploads=True).admit(route(name), request) == ANONYMOUS
    for name in ("listBatches", "cancelBatch", "createKey", "enqueueProcessed"):
        assert await refusal(request, name, foreign_uploads=True) == "forbidden"


async def test_a_caller_without_a_key_has_the_budget_of_the_server():
    budget = replace(ANONYMOUS, max_batches=3, quota=OwnerQuota(max_bytes=5))
    assert await gate(caller=budget).admit(route("openBatch"), asked()) == budget


async def test_a_page_of_the_server_acts_with_a_key_under_whatever_name_it_was_asked():
    """No name can be false where a key is needed: none is tried that the page does not have."""
    request = asked(host="any.example", origin="http://any.example", authorization="Bearer qk_admin")
    assert (await gate(anonymous=False).admit(route("listKeys"), request)).name == "admin"


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


async def test_callers_of_the_ocr_service_may_send_their_key_in_a_header_of_its_own():
    strict = gate(anonymous=False)
    own = asked(x_jarvis_app_id="app", x_jarvis_app_key="qk_mine")
    assert (await strict.admit(route("submitOcrJob"), own)).owner == owner_of(KEYS["qk_mine"])
    assert (
        await refusal(asked(x_jarvis_app_key="qk_wrong"), "submitOcrJob", anonymous=False) == "unauthorized"
    )
    # The usual header counts where both are there; and no other route reads this one.
    both = asked(x_jarvis_app_key="qk_mine", authorization="Bearer qk_wrong")
    assert await refusal(both, "submitOcrJob", anonymous=False) == "unauthorized"
    assert await refusal(own, "openBatch", anonymous=False) == "unauthorized"


async def test_a_key_of_another_service_does_no_harm_where_none_is_asked_for():
    caller = await gate().admit(route("submitOcrJob"), asked(x_jarvis_app_key="their-own"))
    assert caller.owner == ""
