-- name: insert_key
INSERT INTO api_keys (id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at,
                      requests_per_minute, max_batches, max_bytes)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: key_by_hash
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys WHERE hash = %s

-- name: key_by_id
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys WHERE id = %s

-- name: all_keys
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys ORDER BY no DESC

-- name: expire_key
-- `least` passes over NULL.
UPDATE api_keys SET expires_at = least(expires_at, %s::float8) WHERE id = %s

-- name: revoke_key
UPDATE api_keys SET revoked_at = coalesce(revoked_at, %s::float8) WHERE id = %s

-- name: record_uses
-- Locked in order of id: several processes record uses of the same keys.
WITH given AS (SELECT * FROM unnest(%(ids)s::text[], %(moments)s::float8[]) AS one (id, at)),
     held AS (SELECT no, given.at FROM api_keys JOIN given USING (id) ORDER BY id FOR UPDATE OF api_keys)
UPDATE api_keys SET last_used_at = held.at FROM held
WHERE api_keys.no = held.no AND coalesce(last_used_at, 0) < held.at
