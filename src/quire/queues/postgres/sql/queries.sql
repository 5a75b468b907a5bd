-- name: send
-- Numbered as given, so that they are delivered in that order; written in order of id, so that two who send
-- the same messages cannot wait for each other. Listeners are woken at commit, and only by new messages.
WITH numbered AS MATERIALIZED (
  SELECT nextval('messages_no') AS no, given.id, given.body, given.priority, given.checksum
  FROM unnest(%(ids)b::text[], %(bodies)b::bytea[], %(priorities)b::smallint[], %(checksums)b::bigint[])
    WITH ORDINALITY AS given (id, body, priority, checksum, place)
  ORDER BY given.place
), sent AS (
  INSERT INTO messages (no, queue, id, body, priority, due_at, sent_at, checksum)
  SELECT no, %(queue)s, id, body, priority, %(due_at)s, %(now)s, checksum FROM numbered ORDER BY id COLLATE "C"
  ON CONFLICT (queue, id) DO NOTHING
  RETURNING no
), counted AS (
  INSERT INTO happenings (queue, minute, what, backend, number)
  SELECT %(queue)s, %(minute)s, 'sent', pg_backend_pid(), count(*) FROM sent HAVING count(*) > 0
  ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
)
SELECT count(*), (SELECT pg_notify('quire', '') FROM sent LIMIT 1) IS NULL FROM sent

-- name: forget_ids
-- Those of a sending whose window is over, although no sweep has run yet; locked in order, like the sending.
DELETE FROM messages WHERE no IN (
  SELECT no FROM messages
  WHERE queue = %(queue)s AND id = ANY (%(ids)s::text[]) AND state = 'acknowledged' AND ended_at <= %(over)s
  ORDER BY id COLLATE "C" FOR UPDATE)

-- name: lease
-- One look for each priority, in order, until there are enough. What another consumer is leasing at this
-- moment is passed over, not waited for.
WITH due AS MATERIALIZED (
  SELECT found.no, found.due_at, found.token
  FROM generate_series(1, 5) AS asked (priority)
  CROSS JOIN LATERAL (
    SELECT no, due_at, token FROM messages
    WHERE queue = %(queue)s AND messages.priority = asked.priority::smallint AND state = 'waiting'
      AND due_at <= %(now)s
    ORDER BY due_at, no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
  ) AS found
  LIMIT %(limit)s
), leased AS (
  UPDATE messages
  SET token = %(token)s, worker = %(worker)s, due_at = %(until)s, deliveries = messages.deliveries + 1,
      trials = CASE WHEN due.token IS NULL THEN messages.trials ELSE messages.trials || json_build_object(
        'delivery', messages.deliveries, 'at', %(now)s::double precision, 'ending', 'expired',
        'worker', messages.worker)::text END
  FROM due WHERE messages.no = due.no
  RETURNING messages.no, messages.id, messages.body, messages.deliveries, messages.priority, messages.sent_at,
    messages.checksum, due.due_at AS was_due_at, due.token AS was_token
), counted AS (
  INSERT INTO happenings (queue, minute, what, backend, number)
  SELECT %(queue)s, %(minute)s, counts.what, pg_backend_pid(), counts.number
  FROM (
    SELECT 'delivered' AS what, count(*) AS number FROM leased
    UNION ALL SELECT 'expired', count(was_token) FROM leased
  ) AS counts WHERE counts.number > 0
  ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
)
SELECT no, id, body, deliveries, priority, sent_at, checksum FROM leased ORDER BY priority, was_due_at, no

-- name: next_due
SELECT min(found.due_at)
FROM generate_series(1, 5) AS asked (priority)
CROSS JOIN LATERAL (
  SELECT due_at FROM messages
  WHERE queue = %(queue)s AND messages.priority = asked.priority::smallint AND state = 'waiting'
    AND due_at > %(now)s
  ORDER BY due_at, no LIMIT 1
) AS found

-- name: extend
-- Here and where a lease ends: only what waits has a token. To ask for the state as well would lead the planner,
-- who knows little of a table that has just grown, to the index of all that waits.
UPDATE messages SET due_at = %(until)s
FROM unnest(%(nos)b::bigint[], %(tokens)b::text[]) AS given (no, token)
WHERE messages.no = given.no AND messages.token = given.token AND due_at > %(now)s
RETURNING messages.no, messages.token

-- name: acknowledge
-- What is left is the memory of its id.
WITH done AS (
  UPDATE messages
  SET state = 'acknowledged', body = '', trials = '{}', token = NULL, worker = '', ended_at = %(now)s
  FROM unnest(%(nos)b::bigint[], %(tokens)b::text[]) AS given (no, token)
  WHERE messages.no = given.no AND messages.token = given.token
  RETURNING messages.no, given.token, messages.queue
), counted AS (
  INSERT INTO happenings (queue, minute, what, backend, number)
  SELECT queue, %(minute)s, 'acknowledged', pg_backend_pid(), count(*) FROM done GROUP BY queue
  ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
)
SELECT no, token FROM done

-- name: release
-- Its row count is that of the update; listeners are woken at commit. Without an entry it is not counted.
WITH released AS (
  UPDATE messages
  SET token = NULL, worker = '', due_at = %(due_at)s,
      deliveries = deliveries - CASE WHEN %(entry)s::text IS NULL THEN 1 ELSE 0 END,
      trials = CASE WHEN %(entry)s::text IS NULL THEN trials
        ELSE trials || (left(%(entry)s, -1) || ', "worker": ' || to_json(worker)::text || '}') END
  WHERE no = %(no)s AND token = %(token)s
  RETURNING queue
), counted AS (
  INSERT INTO happenings (queue, minute, what, backend, number)
  SELECT queue, %(minute)s, 'released', pg_backend_pid(), 1 FROM released WHERE %(entry)s::text IS NOT NULL
  ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
)
SELECT pg_notify('quire', '') FROM released

-- name: give_up
WITH buried AS (
  UPDATE messages
  SET state = 'dead', token = NULL, worker = '', ended_at = %(now)s, error_class = %(error_class)s,
      buried_no = nextval('messages_buried_no'),
      trials = trials || (left(%(entry)s, -1) || ', "worker": ' || to_json(worker)::text || '}')
  WHERE no = %(no)s AND token = %(token)s
  RETURNING queue
), counted AS (
  INSERT INTO happenings (queue, minute, what, backend, number)
  SELECT queue, %(minute)s, 'buried', pg_backend_pid(), 1 FROM buried
  ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
)
SELECT queue FROM buried

-- name: dead
SELECT buried_no, id, body, priority, deliveries, sent_at, ended_at, error_class, checksum, trials, no FROM messages
WHERE queue = %(queue)s AND state = 'dead' AND buried_no > %(after)s
  AND (%(ids)s::text[] IS NULL OR id = ANY (%(ids)s::text[]))
  AND (%(error_class)s::text IS NULL OR error_class = %(error_class)s::text)
ORDER BY buried_no LIMIT %(limit)s

-- name: dead_letter
SELECT buried_no, id, body, priority, deliveries, sent_at, ended_at, error_class, checksum, trials FROM messages
WHERE queue = %(queue)s AND id = %(id)s AND state = 'dead'

-- name: dead_classes
SELECT error_class, count(*) FROM messages WHERE queue = %(queue)s AND state = 'dead'
GROUP BY error_class ORDER BY count(*) DESC, error_class COLLATE "C"

-- name: dead_numbers
-- Two operators who work on the same dead letters share them: those that the other has locked are skipped.
SELECT no FROM messages
WHERE queue = %(queue)s AND state = 'dead' AND (%(ids)s::text[] IS NULL OR id = ANY (%(ids)s::text[]))
  AND (%(error_class)s::text IS NULL OR error_class = %(error_class)s::text)
ORDER BY buried_no LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: lock_dead
SELECT no FROM messages WHERE no = ANY (%(nos)s::bigint[]) AND state = 'dead'
ORDER BY buried_no FOR UPDATE SKIP LOCKED

-- name: replay
-- With new numbers: those that become due together are delivered in the order in which they became dead letters.
WITH numbered AS MATERIALIZED (
  SELECT nextval('messages_no') AS new_no, given.no, given.place
  FROM unnest(%(nos)s::bigint[]) WITH ORDINALITY AS given (no, place) ORDER BY given.place
)
UPDATE messages
SET no = numbered.new_no, state = 'waiting', deliveries = 0, ended_at = NULL, error_class = '', buried_no = NULL,
    due_at = %(now)s + (numbered.place - 1) * %(pause)s::double precision,
    trials = trials || json_build_object(
      'delivery', deliveries, 'at', %(now)s::double precision, 'ending', 'replayed')::text
FROM numbered WHERE messages.no = numbered.no

-- name: discard
UPDATE messages
SET state = 'acknowledged', body = '', trials = '{}', ended_at = %(now)s, error_class = '', buried_no = NULL
WHERE no = ANY (%(nos)s::bigint[])

-- name: wake
SELECT pg_notify('quire', '')

-- name: names
-- From one name to the next, without reading what lies between.
WITH RECURSIVE found (queue) AS (
  SELECT min(queue) FROM messages
  UNION ALL
  SELECT (SELECT min(queue) FROM messages WHERE queue > found.queue) FROM found WHERE found.queue IS NOT NULL
)
SELECT queue FROM found WHERE queue IS NOT NULL ORDER BY queue COLLATE "C"

-- name: depth
-- Two counts, each on an index of its own: the many acknowledged messages are not looked at.
SELECT count(*) FILTER (WHERE due_at <= %(now)s),
       count(*) FILTER (WHERE due_at > %(now)s AND token IS NOT NULL),
       count(*) FILTER (WHERE due_at > %(now)s AND token IS NULL),
       min(sent_at) FILTER (WHERE due_at <= %(now)s OR token IS NOT NULL),
       (SELECT count(*) FROM messages WHERE queue = %(queue)s AND state = 'dead')
FROM messages WHERE queue = %(queue)s AND state = 'waiting'

-- name: peek_due
SELECT found.id, found.body, found.priority, found.deliveries, found.sent_at, found.due_at, found.token,
  found.worker, found.checksum
FROM generate_series(1, 5) AS asked (priority)
CROSS JOIN LATERAL (
  SELECT * FROM messages
  WHERE queue = %(queue)s AND messages.priority = asked.priority::smallint AND state = 'waiting'
    AND due_at <= %(now)s
  ORDER BY due_at, no LIMIT %(limit)s
) AS found
ORDER BY found.priority, found.due_at, found.no LIMIT %(limit)s

-- name: peek_delayed
SELECT found.id, found.body, found.priority, found.deliveries, found.sent_at, found.due_at, found.token,
  found.worker, found.checksum
FROM generate_series(1, 5) AS asked (priority)
CROSS JOIN LATERAL (
  SELECT * FROM messages
  WHERE queue = %(queue)s AND messages.priority = asked.priority::smallint AND state = 'waiting'
    AND due_at > %(now)s AND token IS NULL
  ORDER BY due_at, no LIMIT %(limit)s
) AS found
ORDER BY found.priority, found.due_at, found.no LIMIT %(limit)s

-- name: peek_leased
SELECT found.id, found.body, found.priority, found.deliveries, found.sent_at, found.due_at, found.token,
  found.worker, found.checksum
FROM generate_series(1, 5) AS asked (priority)
CROSS JOIN LATERAL (
  SELECT * FROM messages
  WHERE queue = %(queue)s AND messages.priority = asked.priority::smallint AND state = 'waiting'
    AND due_at > %(now)s AND token IS NOT NULL
  ORDER BY due_at, no LIMIT %(limit)s
) AS found
ORDER BY found.priority, found.due_at, found.no LIMIT %(limit)s

-- name: count
INSERT INTO happenings (queue, minute, what, backend, number)
VALUES (%(queue)s, %(minute)s, %(what)s, pg_backend_pid(), %(number)s)
ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number

-- name: counters
SELECT what, sum(number)::bigint FROM happenings WHERE queue = %(queue)s AND minute >= %(first)s GROUP BY what

-- name: purge
-- What a consumer is leasing at this moment is leased and stays.
DELETE FROM messages WHERE no IN (
  SELECT no FROM messages
  WHERE queue = %(queue)s AND state = 'waiting' AND (token IS NULL OR due_at <= %(now)s)
  FOR UPDATE SKIP LOCKED)

-- name: forget
-- Skips what a sender of the same id is deleting at this moment.
DELETE FROM messages WHERE no IN (
  SELECT no FROM messages WHERE state = 'acknowledged' AND ended_at <= %(over)s
  ORDER BY ended_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)

-- name: add_up
WITH late AS (
  DELETE FROM happenings WHERE minute >= 0 AND minute < %(first)s RETURNING queue, what, number
)
INSERT INTO happenings (queue, minute, what, backend, number)
SELECT queue, %(earlier)s, what, 0, sum(number) FROM late GROUP BY queue, what ORDER BY queue, what
ON CONFLICT (queue, minute, what, backend) DO UPDATE SET number = happenings.number + excluded.number
