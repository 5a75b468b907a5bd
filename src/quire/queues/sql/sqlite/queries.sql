-- name: send
INSERT INTO messages (queue, id, body, due_at, sent_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (queue, id) DO NOTHING

-- name: due
SELECT no, id, body, deliveries FROM messages
WHERE queue = ? AND state = 'waiting' AND due_at <= ? ORDER BY due_at, no LIMIT ?

-- name: lease
UPDATE messages SET token = ?, due_at = ?, deliveries = deliveries + 1 WHERE no = ?

-- name: extend
UPDATE messages SET due_at = ?
WHERE queue = ? AND id = ? AND token = ? AND state = 'waiting' AND due_at > ?

-- name: acknowledge
UPDATE messages SET state = 'acknowledged', body = x'', token = NULL, ended_at = ?
WHERE queue = ? AND id = ? AND token = ? AND state = 'waiting'

-- name: release
UPDATE messages SET token = NULL, due_at = ?, errors = json_insert(errors, '$[#]', json(?))
WHERE queue = ? AND id = ? AND token = ? AND state = 'waiting'

-- name: bury
UPDATE messages SET state = 'dead', token = NULL, ended_at = ?, errors = json_insert(errors, '$[#]', json(?))
WHERE queue = ? AND id = ? AND token = ? AND state = 'waiting'

-- name: depth
SELECT coalesce(sum(state = 'waiting' AND (token IS NULL OR due_at <= ?1)), 0),
       coalesce(sum(state = 'waiting' AND token IS NOT NULL AND due_at > ?1), 0),
       coalesce(sum(state = 'dead'), 0)
FROM messages WHERE queue = ?2 AND state IN ('waiting', 'dead')
