-- name: insert_hook
INSERT INTO hooks (id, batch_no, url, secret, kinds, created_at, disabled_at, disabled_reason)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: batch_no_by_id
SELECT no FROM batches WHERE id = %s

-- name: hook_by_id
SELECT * FROM hook_rows WHERE id = %s

-- name: all_hooks
SELECT * FROM hook_rows ORDER BY no

-- name: hooks_of_no_batch
SELECT * FROM hook_rows WHERE batch_no IS NULL ORDER BY no

-- name: hooks_of_batch
SELECT * FROM hook_rows WHERE batch_no = (SELECT no FROM batches WHERE id = %s) ORDER BY no

-- name: disable_hook
UPDATE hooks SET disabled_at = %s, disabled_reason = %s WHERE id = %s AND disabled_at IS NULL

-- name: fail_deliveries
-- Those of a hook that was disabled.
UPDATE deliveries SET state = 'failed', next_at = NULL, last_error = %s
WHERE hook_no = (SELECT no FROM hooks WHERE id = %s) AND state = 'waiting'

-- name: lease_deliveries
WITH due AS MATERIALIZED (
  SELECT no FROM deliveries WHERE state = 'waiting' AND next_at <= %(now)s
  ORDER BY next_at, no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE deliveries d SET tries = d.tries + 1, next_at = %(now)s::float8 + %(lease)s, last_tried_at = %(now)s
FROM due WHERE d.no = due.no
RETURNING d.no

-- name: deliveries_by_no
SELECT * FROM delivery_rows WHERE no = ANY (%s) ORDER BY no

-- name: next_delivery
SELECT min(next_at) FROM deliveries WHERE state = 'waiting'

-- name: record_try
-- That it was delivered is true whatever became of its hook meanwhile.
UPDATE deliveries SET state = CASE WHEN %(error)s = '' THEN 'delivered'
                                   WHEN %(next_at)s::float8 IS NULL THEN 'failed' ELSE 'waiting' END,
                      last_error = %(error)s, next_at = CASE WHEN %(error)s = '' THEN NULL ELSE %(next_at)s::float8 END,
                      last_status = %(status)s, last_tried_at = %(now)s
WHERE no = %(no)s AND tries = %(tries)s AND (state = 'waiting' OR %(error)s = '')

-- name: all_deliveries
SELECT * FROM delivery_rows WHERE no < coalesce(%(before)s, 1::bigint << 62) ORDER BY no DESC LIMIT %(limit)s

-- name: deliveries_of_hook
SELECT * FROM delivery_rows
WHERE hook_no = (SELECT no FROM hooks WHERE id = %(hook_id)s) AND no < coalesce(%(before)s, 1::bigint << 62)
ORDER BY no DESC LIMIT %(limit)s

-- name: deliveries_of_batch
SELECT * FROM delivery_rows
WHERE batch_no = (SELECT no FROM batches WHERE id = %(batch_id)s)
  AND (%(hook_id)s::text IS NULL OR hook_id = %(hook_id)s) AND no < coalesce(%(before)s, 1::bigint << 62)
ORDER BY no DESC LIMIT %(limit)s

-- name: redeliver
UPDATE deliveries SET state = 'waiting', next_at = %(now)s
WHERE no = ANY (%(nos)s) AND EXISTS (SELECT 1 FROM hooks h WHERE h.no = hook_no AND h.disabled_at IS NULL)

-- name: wake
-- Senders look for due deliveries when this is committed.
NOTIFY quire
