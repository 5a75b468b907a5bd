-- name: insert_hook
INSERT INTO hooks (id, batch_no, url, secret, kinds, created_at, disabled_at, disabled_reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: batch_no_by_id
SELECT no FROM batches WHERE id = ?

-- name: hook_by_id
SELECT * FROM hook_rows WHERE id = ?

-- name: all_hooks
SELECT * FROM hook_rows ORDER BY no

-- name: hooks_of_no_batch
SELECT * FROM hook_rows WHERE batch_no IS NULL ORDER BY no

-- name: hooks_of_batch
SELECT * FROM hook_rows WHERE batch_no = (SELECT no FROM batches WHERE id = ?) ORDER BY no

-- name: disable_hook
UPDATE hooks SET disabled_at = ?, disabled_reason = ? WHERE id = ? AND disabled_at IS NULL

-- name: fail_deliveries
-- Those of a hook that was disabled.
UPDATE deliveries SET state = 'failed', next_at = NULL, last_error = ?
WHERE hook_no = (SELECT no FROM hooks WHERE id = ?) AND state = 'waiting'

-- name: lease_deliveries
UPDATE deliveries SET tries = tries + 1, next_at = ?1 + ?2, last_tried_at = ?1
WHERE no IN (SELECT no FROM deliveries INDEXED BY deliveries_due
             WHERE state = 'waiting' AND next_at <= ?1 ORDER BY next_at, no LIMIT ?3)
RETURNING no

-- name: delivery_by_no
SELECT * FROM delivery_rows WHERE no = ?

-- name: next_delivery
SELECT min(next_at) FROM deliveries INDEXED BY deliveries_due WHERE state = 'waiting'

-- name: record_try
-- That it was delivered is true whatever became of its hook meanwhile.
UPDATE deliveries SET state = CASE WHEN ?1 = '' THEN 'delivered' WHEN ?2 IS NULL THEN 'failed' ELSE 'waiting' END,
                      last_error = ?1, next_at = CASE WHEN ?1 = '' THEN NULL ELSE ?2 END, last_status = ?3,
                      last_tried_at = ?4
WHERE no = ?5 AND tries = ?6 AND (state = 'waiting' OR ?1 = '')

-- name: all_deliveries
SELECT * FROM delivery_rows WHERE no < coalesce(?1, 1 << 62) ORDER BY no DESC LIMIT ?2

-- name: deliveries_of_hook
SELECT * FROM delivery_rows
WHERE hook_no = (SELECT no FROM hooks WHERE id = ?3) AND no < coalesce(?1, 1 << 62) ORDER BY no DESC LIMIT ?2

-- name: deliveries_of_batch
SELECT * FROM delivery_rows
WHERE batch_no = (SELECT no FROM batches WHERE id = ?4) AND (?3 IS NULL OR hook_id = ?3) AND no < coalesce(?1, 1 << 62)
ORDER BY no DESC LIMIT ?2

-- name: redeliver
UPDATE deliveries SET state = 'waiting', next_at = ?1
WHERE no IN (SELECT value FROM json_each(?2))
  AND EXISTS (SELECT 1 FROM hooks h WHERE h.no = hook_no AND h.disabled_at IS NULL)
