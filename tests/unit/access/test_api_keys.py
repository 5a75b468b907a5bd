"""API keys: shown once, hashed, scoped, rotated with an overlap, and refused alike."""

import hashlib

import msgspec
import pytest

from quire.access import api_keys
from quire.access.api_keys import (
    ApiKeyContext,
    KeyChecker,
    KeyDraft,
    Scope,
)
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
def desk(store, clock):
    made = iter(range(256))
    return ApiKeyContext(
        store=store, clock=clock, ids=CountingIds(), chance=lambda size: bytes([next(made)]) * size
    )


@pytest.fixture
def door(store, clock):
    return KeyChecker(store, clock)


async def made(desk, scope=Scope.SUBMIT, **drafted):
    return await api_keys.create(desk, KeyDraft(scope=scope, **drafted))


async def test_a_key_is_random_and_only_its_hash_is_kept(desk, store):
    new = await made(desk, label="scanner")
    assert new.text == "qk_" + "A" * 43
    (kept,) = await store.list_keys()
    assert kept.hash == hashlib.sha256(new.text.encode()).hexdigest()
    assert (kept.hint, kept.label) == (new.text[:9], "scanner")
    assert new.text not in str(kept)


async def test_real_keys_differ(store, clock):
    desk = ApiKeyContext(store=store, clock=clock, ids=CountingIds())
    assert (await made(desk)).text != (await made(desk)).text


async def test_what_is_listed_has_neither_key_nor_hash(desk):
    new = await made(desk, tenant="arke", max_bytes=5, lasts_seconds=60)
    (line,) = await api_keys.list_keys(desk)
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
async def test_a_scope_allows_what_it_says(desk, door, scope, allowed):
    new = await made(desk, scope)
    for needed in Scope:
        if needed in allowed:
            assert (await door.check(new.text, needed)).id == new.key.id
        else:
            with pytest.raises(Reject) as caught:
                await door.check(new.text, needed)
            assert caught.value.code == "forbidden"


async def test_unknown_revoked_and_expired_look_the_same(desk, door, clock):
    revoked, expired = await made(desk), await made(desk, lasts_seconds=10)
    await api_keys.revoke(desk, revoked.key.id)
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
            await door.check(presented, Scope.SUBMIT)
        told.add((caught.value.code, str(caught.value)))
        assert await door.identify(presented) is None
    assert len(told) == 1


async def test_a_key_is_valid_up_to_its_end(desk, door, clock):
    new = await made(desk, lasts_seconds=10)
    clock.advance(9.9)
    await door.check(new.text, Scope.SUBMIT)
    clock.advance(0.1)
    assert await door.identify(new.text) is None
    assert [line.state for line in await api_keys.list_keys(desk)] == ["expired"]


async def test_a_revoked_key_is_listed_as_such(desk):
    new = await made(desk)
    line = await api_keys.revoke(desk, new.key.id)
    assert line.state == "revoked"
    assert await api_keys.list_keys(desk) == [line]
    with pytest.raises(Missing):
        await api_keys.revoke(desk, "nobody")


async def test_a_rotated_key_and_its_heir_are_both_valid_for_the_overlap(desk, door, clock):
    old = await made(
        desk, Scope.OPERATE, label="scanner", tenant="arke", requests_per_minute=9, max_batches=2
    )
    clock.advance(5)
    new = await api_keys.rotate(desk, old.key.id, overlap_seconds=100)
    assert new.text != old.text
    left, right = await door.check(old.text, Scope.OPERATE), await door.check(new.text, Scope.OPERATE)
    for same in ("scope", "label", "tenant", "requests_per_minute", "max_batches"):
        assert getattr(left, same) == getattr(right, same)
    clock.advance(100)
    assert await door.identify(old.text) is None
    assert (await door.check(new.text, Scope.OPERATE)).id == new.key.id


async def test_an_heir_has_what_its_elders_opened_and_their_limit(desk, door):
    first = await made(desk, requests_per_minute=2)
    second = await api_keys.rotate(desk, first.key.id)
    third = await api_keys.rotate(desk, second.key.id)
    keys = [await desk.store.get_key(one.key.id) for one in (first, second, third)]
    assert len({key.id for key in keys}) == 3
    assert {api_keys.owner_of(key) for key in keys} == {first.key.id}
    other = await desk.store.get_key((await made(desk)).key.id)
    assert api_keys.owner_of(other) != first.key.id
    assert [(await door.identify(one.text))[1] > 0 for one in (first, second, third)] == [False, False, True]


async def test_a_rotation_puts_off_no_end(desk, clock):
    old = await made(desk, lasts_seconds=50)
    new = await api_keys.rotate(desk, old.key.id, overlap_seconds=100)
    assert new.key.expires_at == old.key.expires_at
    assert (await desk.store.get_key(old.key.id)).expires_at == clock.now() + 50


async def test_a_key_that_is_over_is_not_rotated(desk):
    old = await made(desk)
    await api_keys.revoke(desk, old.key.id)
    with pytest.raises(Reject) as caught:
        await api_keys.rotate(desk, old.key.id)
    assert caught.value.code == "key_not_valid"
    assert len(await api_keys.list_keys(desk)) == 1
    with pytest.raises(Missing):
        await api_keys.rotate(desk, "nobody")


async def test_who_asks_too_often_is_told_when_to_come_again(desk, door, clock):
    new = await made(desk, requests_per_minute=2)
    await door.check(new.text, Scope.SUBMIT)
    await door.check(new.text, Scope.SUBMIT)
    with pytest.raises(Retry) as caught:
        await door.check(new.text, Scope.SUBMIT)
    assert (caught.value.code, caught.value.delay_seconds) == ("rate_limited", 30.0)
    clock.advance(30)
    await door.check(new.text, Scope.SUBMIT)


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
async def test_which_batches_a_key_sees(desk, scope, bound_to, owner, tenant, seen):
    new = await made(desk, scope, tenant=bound_to)
    key = await desk.store.get_key(new.key.id)
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


async def test_uses_are_written_together_and_once_a_minute_at_most(desk, store, clock):
    noting = Noting(store)
    door = KeyChecker(noting, clock)
    one, two = await made(desk), await made(desk)
    for _ in range(10):
        await door.check(one.text, Scope.SUBMIT)
        await door.check(two.text, Scope.SUBMIT)
        clock.advance(5)
    assert noting.written == []
    clock.advance(10)
    await door.check(one.text, Scope.SUBMIT)
    assert noting.written == [{one.key.id: clock.now(), two.key.id: clock.now() - 15}]
    await door.check(two.text, Scope.SUBMIT)
    await door.note_used()
    await door.note_used()
    assert len(noting.written) == 2
    assert {key.last_used_at for key in await store.list_keys()} == {clock.now()}


async def test_a_ledger_that_cannot_write_keeps_nobody_out_and_loses_no_use(desk, store, clock):
    noting = Noting(store)
    door = KeyChecker(noting, clock)
    new = await made(desk)
    noting.away = True
    clock.advance(60)
    await door.check(new.text, Scope.SUBMIT)
    noting.away = False
    await door.note_used()
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
async def test_what_a_key_cannot_have_is_refused_and_no_key_is_made(desk, drafted):
    """One that ends in the year 1718962613 could be made, and then no list of keys could be shown."""
    with pytest.raises(Reject):
        await made(desk, **drafted)
    assert await api_keys.list_keys(desk) == []
