-- name: send
-- Numbered as given, so that they are delivered in that order; written in order of id, so that two who send
-- the same messages cannot wait for each other. Who listens is told at commit, and only of something new.
WITH numbered AS MATERIALIZED (
  SELECT nextval('messages_no') AS no, given.id, given.body
  FROM unnest(%(ids)s::text[], %(bodies)s::bytea[]) WITH ORDINALITY AS given (id, body, place)
  ORDER BY given.place
), sent AS (
  INSERT INTO messages (no, queue, id, body, due_at, sent_at)
  SELECT no, %(queue)s, id, body, %(due_at)s, %(now)s FROM numbered ORDER BY id COLLATE "C", no
  ON CONFLICT (queue, id) DO NOTHING
  RETURNING no
)
SELECT pg_notify('quire', '') FROM sent LIMIT 1

-- name: lease
-- What another consumer is leasing at this moment is passed over, not waited for.
WITH due AS (
  SELECT no, due_at FROM messages
  WHERE queue = %(queue)s AND state = 'waiting' AND due_at <= %(now)s
  ORDER BY due_at, no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), leased AS (
  UPDATE messages SET token = %(token)s, due_at = %(until)s, deliveries = messages.deliveries + 1
  FROM due WHERE messages.no = due.no
  RETURNING messages.no, messages.id, messages.body, messages.deliveries, due.due_at AS was_due_at
)
SELECT id, body, deliveries FROM leased ORDER BY was_due_at, no

-- name: extend
UPDATE messages SET due_at = %(until)s
WHERE queue = %(queue)s AND id = %(id)s AND token = %(token)s AND state = 'waiting' AND due_at > %(now)s

-- name: acknowledge
UPDATE messages SET state = 'acknowledged', body = '', token = NULL, ended_at = %(now)s
WHERE queue = %(queue)s AND id = %(id)s AND token = %(token)s AND state = 'waiting'

-- name: release
-- Its row count is that of the update; who listens is told at commit.
WITH released AS (
  UPDATE messages SET token = NULL, due_at = %(due_at)s, errors = array_append(errors, %(entry)s::text)
  WHERE queue = %(queue)s AND id = %(id)s AND token = %(token)s AND state = 'waiting'
  RETURNING no
)
SELECT pg_notify('quire', '') FROM released

-- name: bury
UPDATE messages
SET state = 'dead', token = NULL, ended_at = %(now)s, errors = array_append(errors, %(entry)s::text)
WHERE queue = %(queue)s AND id = %(id)s AND token = %(token)s AND state = 'waiting'

-- name: depth
-- Two counts, each on an index of its own: the many acknowledged messages are not looked at.
SELECT count(*) FILTER (WHERE token IS NULL OR due_at <= %(now)s),
       count(*) FILTER (WHERE token IS NOT NULL AND due_at > %(now)s),
       (SELECT count(*) FROM messages WHERE queue = %(queue)s AND state = 'dead')
FROM messages WHERE queue = %(queue)s AND state = 'waiting'
