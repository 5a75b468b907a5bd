-- name: send
INSERT INTO messages (queue, id, body, priority, due_at, sent_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, id) DO NOTHING

-- name: forget_ids
-- Those of a sending whose window is over, although no sweep has run yet.
DELETE FROM messages
WHERE queue = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'acknowledged' AND ended_at <= ?3

-- name: due
-- Of one priority: delayed and leased messages lie behind the end of this range.
SELECT no, id, body, deliveries, sent_at, token, checksum FROM messages
WHERE queue = ? AND priority = ? AND state = 'waiting' AND due_at <= ? ORDER BY due_at, no LIMIT ?

-- name: note_expired
UPDATE messages SET trials = json_insert(
  trials, '$[#]', json_object('delivery', deliveries, 'at', ?1, 'ending', 'expired', 'worker', worker))
WHERE no IN (SELECT value FROM json_each(?2))

-- name: lease
UPDATE messages SET token = ?1, worker = ?2, due_at = ?3, deliveries = coalesce(deliveries, 0) + 1
WHERE no IN (SELECT value FROM json_each(?4))

-- name: next_due
SELECT min(due_at) FROM messages WHERE queue = ? AND priority = ? AND state = 'waiting' AND due_at > ?

-- name: extend
UPDATE messages SET due_at = ?1
WHERE no IN (SELECT value FROM json_each(?2)) AND token = ?3 AND state = 'waiting' AND due_at > ?4
RETURNING no

-- name: acknowledge
-- What is left is the memory of its id.
UPDATE messages SET state = 'acknowledged', body = x'', trials = '[]', token = NULL, worker = '', ended_at = ?1
WHERE no IN (SELECT value FROM json_each(?2)) AND token = ?3 AND state = 'waiting'
RETURNING no, queue

-- name: release
UPDATE messages
SET token = NULL, worker = '', due_at = ?1,
    trials = json_insert(trials, '$[#]', json_set(?2, '$.worker', worker))
WHERE no = ?3 AND token = ?4 AND state = 'waiting'

-- name: release_uncounted
UPDATE messages SET token = NULL, worker = '', due_at = ?1, deliveries = deliveries - 1
WHERE no = ?2 AND token = ?3 AND state = 'waiting'

-- name: give_up
UPDATE messages
SET state = 'dead', token = NULL, worker = '', ended_at = ?1, error_class = ?2,
    buried_no = (SELECT last + 1 FROM burials),
    trials = json_insert(trials, '$[#]', json_set(?3, '$.worker', worker))
WHERE no = ?4 AND token = ?5 AND state = 'waiting'

-- name: count_dead_letter
UPDATE burials SET last = last + 1

-- name: dead
SELECT buried_no, id, body, priority, deliveries, sent_at, ended_at, error_class, checksum, trials, no FROM messages
WHERE queue = ?1 AND state = 'dead' AND buried_no > ?2
  AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3))) AND (?4 IS NULL OR error_class = ?4)
ORDER BY buried_no LIMIT ?5

-- name: dead_letter
SELECT buried_no, id, body, priority, deliveries, sent_at, ended_at, error_class, checksum, trials FROM messages
WHERE queue = ? AND id = ? AND state = 'dead'

-- name: dead_classes
SELECT error_class, count(*) FROM messages WHERE queue = ? AND state = 'dead'
GROUP BY error_class ORDER BY count(*) DESC, error_class

-- name: dead_numbers
SELECT no FROM messages
WHERE queue = ?1 AND state = 'dead' AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
  AND (?3 IS NULL OR error_class = ?3)
ORDER BY buried_no LIMIT ?4

-- name: replay
-- With a new number: those that become due together are delivered in the order in which they became dead letters.
UPDATE messages
SET no = (SELECT max(no) + 1 FROM messages), state = 'waiting', due_at = ?1, deliveries = 0, ended_at = NULL, error_class = '', buried_no = NULL,
    trials = json_insert(
      trials, '$[#]', json_object('delivery', deliveries, 'at', ?2, 'ending', 'replayed'))
WHERE no = ?3

-- name: discard
UPDATE messages
SET state = 'acknowledged', body = x'', trials = '[]', ended_at = ?1, error_class = '', buried_no = NULL
WHERE no IN (SELECT value FROM json_each(?2))

-- name: names
-- From one name to the next, without reading what lies between.
WITH RECURSIVE found (queue) AS (
  SELECT min(queue) FROM messages
  UNION ALL
  SELECT (SELECT min(queue) FROM messages WHERE queue > found.queue) FROM found WHERE found.queue IS NOT NULL
)
SELECT queue FROM found WHERE queue IS NOT NULL

-- name: depth
-- Answered by the index alone.
SELECT count(*) FILTER (WHERE due_at <= ?1),
       count(*) FILTER (WHERE due_at > ?1 AND token IS NOT NULL),
       count(*) FILTER (WHERE due_at > ?1 AND token IS NULL),
       min(sent_at) FILTER (WHERE due_at <= ?1 OR token IS NOT NULL),
       (SELECT count(*) FROM messages WHERE queue = ?2 AND state = 'dead')
FROM messages WHERE queue = ?2 AND state = 'waiting'

-- name: peek_due
SELECT id, body, priority, deliveries, sent_at, due_at, token, worker, checksum FROM messages
WHERE queue = ? AND priority = ? AND state = 'waiting' AND due_at <= ? ORDER BY due_at, no LIMIT ?

-- name: peek_delayed
SELECT id, body, priority, deliveries, sent_at, due_at, token, worker, checksum FROM messages
WHERE queue = ? AND priority = ? AND state = 'waiting' AND due_at > ? AND token IS NULL
ORDER BY due_at, no LIMIT ?

-- name: peek_leased
SELECT id, body, priority, deliveries, sent_at, due_at, token, worker, checksum FROM messages
WHERE queue = ? AND priority = ? AND state = 'waiting' AND due_at > ? AND token IS NOT NULL
ORDER BY due_at, no LIMIT ?

-- name: count
INSERT INTO happenings (queue, minute, what, number) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, minute, what) DO UPDATE SET number = number + excluded.number

-- name: counters
SELECT what, sum(number) FROM happenings WHERE queue = ? AND minute >= ? GROUP BY what

-- name: purge
DELETE FROM messages WHERE queue = ?1 AND state = 'waiting' AND (token IS NULL OR due_at <= ?2)

-- name: forget
DELETE FROM messages WHERE no IN (
  SELECT no FROM messages WHERE state = 'acknowledged' AND ended_at <= ? ORDER BY ended_at LIMIT ?)

-- name: add_up
INSERT INTO happenings (queue, minute, what, number)
SELECT queue, ?1, what, sum(number) FROM happenings WHERE minute >= 0 AND minute < ?2 GROUP BY queue, what
ON CONFLICT (queue, minute, what) DO UPDATE SET number = number + excluded.number

-- name: forget_minutes
DELETE FROM happenings WHERE minute >= 0 AND minute < ?
