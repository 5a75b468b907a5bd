"""What every store of API keys promises. Needs a fixture `api_keys`."""

from typing import Any

import pytest

from quire.access.port import ApiKey, ApiKeyStore
from quire.model.errors import Missing, Stale


def key(key_id: str = "key_1", **changes: Any) -> ApiKey:
    known: dict[str, Any] = {
        "label": "scanner",
        "hint": "qk_abc",
        "hash": f"{key_id:0>64}",
        "scope": "submit",
        "created_at": 1.0,
    }
    return ApiKey(id=key_id, **(known | changes))


class ApiKeySuite:
    async def test_a_key_comes_back_as_it_was_added(self, api_keys: ApiKeyStore) -> None:
        one = key(tenant="arke", expires_at=9.5, requests_per_minute=60, max_batches=3, max_bytes=1 << 45)
        await api_keys.add_key(one)
        assert await api_keys.get_key("key_1") == one
        assert await api_keys.find_key(one.hash) == one

    async def test_an_unknown_key_is_missing(self, api_keys: ApiKeyStore) -> None:
        assert await api_keys.find_key("f" * 64) is None
        for asked in (
            api_keys.get_key("nobody"),
            api_keys.expire_key("nobody", at=1.0),
            api_keys.revoke_key("nobody", now=1.0),
        ):
            with pytest.raises(Missing) as caught:
                await asked
            assert caught.value.code == "unknown_key"

    async def test_an_id_or_a_hash_is_taken_once(self, api_keys: ApiKeyStore) -> None:
        await api_keys.add_key(key())
        with pytest.raises(Stale):
            await api_keys.add_key(key(hash="e" * 64))
        with pytest.raises(Stale):
            await api_keys.add_key(key("key_2", hash=key().hash))
        assert await api_keys.list_keys() == [key()]

    async def test_all_are_listed_newest_first(self, api_keys: ApiKeyStore) -> None:
        for number in (2, 3, 1):
            await api_keys.add_key(key(f"key_{number}"))
        assert [one.id for one in await api_keys.list_keys()] == ["key_1", "key_3", "key_2"]

    async def test_an_end_is_never_put_off(self, api_keys: ApiKeyStore) -> None:
        await api_keys.add_key(key())
        assert (await api_keys.expire_key("key_1", at=50.0)).expires_at == 50.0
        assert (await api_keys.expire_key("key_1", at=60.0)).expires_at == 50.0
        assert (await api_keys.expire_key("key_1", at=40.0)).expires_at == 40.0
        assert (await api_keys.get_key("key_1")).expires_at == 40.0

    async def test_revoked_once_is_revoked(self, api_keys: ApiKeyStore) -> None:
        await api_keys.add_key(key())
        await api_keys.add_key(key("key_2"))
        assert (await api_keys.revoke_key("key_1", now=7.0)).revoked_at == 7.0
        assert (await api_keys.revoke_key("key_1", now=8.0)).revoked_at == 7.0
        found = await api_keys.find_key(key().hash)
        assert found is not None
        assert found.revoked_at == 7.0
        assert (await api_keys.get_key("key_2")).revoked_at is None

    async def test_the_last_use_never_goes_back(self, api_keys: ApiKeyStore) -> None:
        for number in (1, 2, 3):
            await api_keys.add_key(key(f"key_{number}"))
        await api_keys.record_uses({"key_1": 20.0, "key_2": 30.0, "gone": 40.0})
        await api_keys.record_uses({"key_2": 25.0, "key_1": 21.0})
        await api_keys.record_uses({})
        assert [one.last_used_at for one in await api_keys.list_keys()] == [None, 30.0, 21.0]
