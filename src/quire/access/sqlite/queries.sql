-- name: insert_key
INSERT INTO api_keys (id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at,
                      requests_per_minute, max_batches, max_bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: key_by_hash
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys WHERE hash = ?

-- name: key_by_id
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys WHERE id = ?

-- name: all_keys
SELECT id, label, hint, hash, scope, tenant, created_at, expires_at, revoked_at, last_used_at, requests_per_minute,
       max_batches, max_bytes
FROM api_keys ORDER BY no DESC

-- name: expire_key
UPDATE api_keys SET expires_at = min(?1, coalesce(expires_at, ?1)) WHERE id = ?2

-- name: revoke_key
UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?

-- name: record_use
UPDATE api_keys SET last_used_at = ?1 WHERE id = ?2 AND coalesce(last_used_at, 0) < ?1
