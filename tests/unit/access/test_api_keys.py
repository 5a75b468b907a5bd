"""API keys: shown once, hashed, scoped, rotated with an overlap, and refused alike."""

import hashlib

import msgspec
import pytest

from quire.access import api_keys
from quire.access.api_keys import ApiKeyContext, KeyChecker, KeyDraft, Scope
from quire.access.sqlite import SqliteApiKeyStore
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite import SqliteLedger
from quire.model.errors import Missing, Reject, Retry, Unavailable
from quire.testing.time import CountingIds, FakeClock


@pytest.fixture
async def store(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    await SqliteLedger(database).prepare()
    yield SqliteApiKeyStore(database)
    await database.close()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def context(store, clock):
    made = iter(range(256))
    return ApiKeyContext(
        store=store, clock=clock, ids=CountingIds(), chance=lambda size: bytes([next(made)]) * size
    )


@pytest.fixture
def checker(store, clock):
    return KeyChecker(store, clock)


async def made(context, scope=Scope.SUBMIT, **drafted):
    return await api_keys.create(context, KeyDraft(scope=scope, **drafted))


async def test_a_key_is_random_and_only_its_hash_is_kept(context, store):
    new = await made(context, label="scanner")
    assert new.text == "qk_" + "A" * 43
    (kept,) = await store.list_keys()
    assert kept.hash == hashlib.sha256(new.text.encode()).hexdigest()
    assert (kept.hint, kept.label) == (new.text[:9], "scanner")
    assert new.text not in str(kept)


async def test_real_keys_differ(store, clock):
    context = ApiKeyContext(store=store, clock=clock, ids=CountingIds())
    assert (await made(context)).text != (await made(context)).text


async def test_what_is_listed_has_neither_key_nor_hash(context):
    new = await made(context, tenant="arke", max_bytes=5, lasts_seconds=60)
    (line,) = await api_keys.list_keys(context)
    assert line == new.key
    assert (line.state, line.tenant, line.max_bytes) == ("active", "arke", 5)
    assert line.expires_at == "2023-11-14T22:14:20.000Z"
    told = msgspec.json.encode(line).decode()
    assert new.text not in told
    assert hashlib.sha256(new.text.encode()).hexdigest() not in told


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.SUBMIT, {Scope.SUBMIT}),
        (Scope.READ, {Scope.READ}),
        (Scope.OPERATE, {Scope.SUBMIT, Scope.READ, Scope.OPERATE}),
        (Scope.ADMIN, set(Scope)),
    ],
)
async def test_a_scope_allows_what_it_says(context, checker, scope, allowed):
    new = await made(context, scope)
    for needed in Scope:
        if needed in allowed:
            assert (await checker.check(new.text, needed)).id == new.key.id
        else:
            with pytest.raises(Reject) as caught:
                await checker.check(new.text, needed)
            assert caught.value.code == "forbidden"


async def test_unknown_revoked_and_expired_look_the_same(context, checker, clock):
    revoked, expired = await made(context), await made(context, lasts_seconds=10)
    await api_keys.revoke(context, revoked.key.id)
    clock.advance(10)
    told = set()
    for presented in (
        revoked.text,
        expired.text,
        "qk_" + "x" * 43,
        "",
        "Bearer",
        "qk_" + "y" * 10_000,
        "qk_\ud800",
        expired.text.lower(),
    ):
        with pytest.raises(Reject) as caught:
            await checker.check(presented, Scope.SUBMIT)
        told.add((caught.value.code, str(caught.value)))
        assert await checker.identify(presented) is None
    assert len(told) == 1


async def test_a_key_is_valid_up_to_its_end(context, checker, clock):
    new = await made(context, lasts_seconds=10)
    clock.advance(9.9)
    await checker.check(new.text, Scope.SUBMIT)
    clock.advance(0.1)
    assert await checker.identify(new.text) is None
    assert [line.state for line in await api_keys.list_keys(context)] == ["expired"]


async def test_a_revoked_key_is_listed_as_such(context):
    new = await made(context)
    line = await api_keys.revoke(context, new.key.id)
    assert line.state == "revoked"
    assert await api_keys.list_keys(context) == [line]
    with pytest.raises(Missing):
        await api_keys.revoke(context, "nobody")


async def test_a_rotated_key_and_its_heir_are_both_valid_for_the_overlap(context, checker, clock):
    old = await made(
        context, Scope.OPERATE, label="scanner", tenant="arke", requests_per_minute=9, max_batches=2
    )
    clock.advance(5)
    new = await api_keys.rotate(context, old.key.id, overlap_seconds=100)
    assert new.text != old.text
    left, right = await checker.check(old.text, Scope.OPERATE), await checker.check(new.text, Scope.OPERATE)
    for same in ("scope", "label", "tenant", "requests_per_minute", "max_batches"):
        assert getattr(left, same) == getattr(right, same)
    clock.advance(100)
    assert await checker.identify(old.text) is None
    assert (await checker.check(new.text, Scope.OPERATE)).id == new.key.id


async def test_an_heir_has_what_its_elders_opened_and_their_limit(context, checker):
    first = await made(context, requests_per_minute=2)
    second = await api_keys.rotate(context, first.key.id)
    third = await api_keys.rotate(context, second.key.id)
    keys = [await context.store.get_key(one.key.id) for one in (first, second, third)]
    assert len({key.id for key in keys}) == 3
    assert {api_keys.owner_of(key) for key in keys} == {first.key.id}
    other = await context.store.get_key((await made(context)).key.id)
    assert api_keys.owner_of(other) != first.key.id
    assert [(await checker.identify(one.text))[1] > 0 for one in (first, second, third)] == [
        False,
        False,
        True,
    ]


async def test_a_rotation_puts_off_no_end(context, clock):
    old = await made(context, lasts_seconds=50)
    new = await api_keys.rotate(context, old.key.id, overlap_seconds=100)
    assert new.key.expires_at == old.key.expires_at
    assert (await context.store.get_key(old.key.id)).expires_at == clock.now() + 50


async def test_a_key_that_is_over_is_not_rotated(context):
    old = await made(context)
    await api_keys.revoke(context, old.key.id)
    with pytest.raises(Reject) as caught:
        await api_keys.rotate(context, old.key.id)
    assert caught.value.code == "key_not_valid"
    assert len(await api_keys.list_keys(context)) == 1
    with pytest.raises(Missing):
        await api_keys.rotate(context, "nobody")


async def test_who_asks_too_often_is_told_when_to_come_again(context, checker, clock):
    new = await made(context, requests_per_minute=2)
    await checker.check(new.text, Scope.SUBMIT)
    await checker.check(new.text, Scope.SUBMIT)
    with pytest.raises(Retry) as caught:
        await checker.check(new.text, Scope.SUBMIT)
    assert (caught.value.code, caught.value.delay_seconds) == ("rate_limited", 30.0)
    clock.advance(30)
    await checker.check(new.text, Scope.SUBMIT)


@pytest.mark.parametrize(
    ("scope", "bound_to", "owner", "tenant", "seen"),
    [
        (Scope.SUBMIT, "", "own", "", True),
        (Scope.SUBMIT, "", "another", "", False),
        (Scope.SUBMIT, "arke", "own", "other", False),
        (Scope.READ, "", "another", "arke", True),
        (Scope.READ, "arke", "another", "arke", True),
        (Scope.READ, "arke", "another", "other", False),
        (Scope.ADMIN, "", "another", "arke", True),
    ],
)
async def test_which_batches_a_key_sees(context, scope, bound_to, owner, tenant, seen):
    new = await made(context, scope, tenant=bound_to)
    key = await context.store.get_key(new.key.id)
    assert api_keys.sees(key, owner=key.id if owner == "own" else owner, tenant=tenant) is seen


class Noting:
    """The store, with the calls that record uses counted."""

    def __init__(self, store):
        self._store = store
        self.written = []
        self.away = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def record_uses(self, used):
        if self.away:
            raise Unavailable("away")
        self.written.append(used)
        await self._store.record_uses(used)


async def test_uses_are_written_together_and_once_a_minute_at_most(context, store, clock):
    noting = Noting(store)
    checker = KeyChecker(noting, clock)
    one, two = await made(context), await made(context)
    for _ in range(10):
        await checker.check(one.text, Scope.SUBMIT)
        await checker.check(two.text, Scope.SUBMIT)
        clock.advance(5)
    assert noting.written == []
    clock.advance(10)
    await checker.check(one.text, Scope.SUBMIT)
    assert noting.written == [{one.key.id: clock.now(), two.key.id: clock.now() - 15}]
    await checker.check(two.text, Scope.SUBMIT)
    await checker.record_uses()
    await checker.record_uses()
    assert len(noting.written) == 2
    assert {key.last_used_at for key in await store.list_keys()} == {clock.now()}


async def test_a_ledger_that_cannot_write_keeps_nobody_out_and_loses_no_use(context, store, clock):
    noting = Noting(store)
    checker = KeyChecker(noting, clock)
    new = await made(context)
    noting.away = True
    clock.advance(60)
    await checker.check(new.text, Scope.SUBMIT)
    noting.away = False
    await checker.record_uses()
    assert [key.last_used_at for key in await store.list_keys()] == [clock.now()]


@pytest.mark.parametrize(
    "drafted",
    [
        {"lasts_seconds": 0.0},
        {"lasts_seconds": -1.0},
        {"lasts_seconds": 5.4e16},
        {"lasts_seconds": float("inf")},
        {"lasts_seconds": float("nan")},
        {"requests_per_minute": -1},
        {"max_batches": 2**53},
        {"max_bytes": 10**30},
        {"label": "x" * 201},
        {"tenant": "a\x00b"},
    ],
    ids=str,
)
async def test_what_a_key_cannot_have_is_refused_and_no_key_is_made(context, drafted):
    """One that ends in the year 1718962613 could be made, and then no list of keys could be shown."""
    with pytest.raises(Reject):
        await made(context, **drafted)
    assert await api_keys.list_keys(context) == []
