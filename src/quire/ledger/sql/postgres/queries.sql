-- name: insert_batch
INSERT INTO batches (id, run_key, pipeline, pipeline_version, plan, stage, status, created_at, updated_at)
VALUES (%s, %s, %s, %s, %s, 'open', 'OPEN', %s, %s)
RETURNING no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
          last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at

-- name: batch_by_id
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
       last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at
FROM batches WHERE id = %s

-- name: newest_by_run_key
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
       last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at
FROM batches WHERE run_key = %s ORDER BY no DESC LIMIT 1

-- name: upsert_uploads
-- In order of path, so that two of them cannot wait for each other.
INSERT INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason)
SELECT %s, given.*
FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::text[])
     AS given (path, state, size, stamp, key, digest, content_type, error_class, reason)
ORDER BY given.path COLLATE "C"
ON CONFLICT (batch_no, path) DO UPDATE
SET state = excluded.state, size = excluded.size, stamp = excluded.stamp, key = excluded.key,
    digest = excluded.digest, content_type = excluded.content_type, error_class = excluded.error_class,
    reason = excluded.reason

-- name: delete_uploads
DELETE FROM uploads WHERE batch_no = %s AND path = ANY(%s::text[])

-- name: uploads_after
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason
FROM uploads WHERE batch_no = %s AND path > %s ORDER BY path LIMIT %s

-- name: finalize
UPDATE batches
SET stage = 'queued', status = 'QUEUED', manifest_key = %s, total_files = %s, message = %s, updated_at = %s
WHERE no = %s AND stage = 'open'
RETURNING no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
          last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at

-- name: insert_letter
INSERT INTO outbox (queue, message_id, body, created_at) VALUES (%s, %s, %s, %s)

-- name: insert_event
INSERT INTO events (batch_no, at, type, data) VALUES (%s, %s, %s, %s)

-- name: delivered
UPDATE batches SET delivered_at = %s WHERE no = %s AND delivered_at IS NULL

-- name: abandon
UPDATE batches SET stage = 'cancelled', status = 'CANCELLED', error = %s, updated_at = %s, completed_at = %s
WHERE no = %s AND stage NOT IN ('done', 'error', 'cancelled')

-- name: move
-- The compare-and-swap every move goes through; it holds the batch's row until the end.
UPDATE batches
SET stage = %s, phase = %s, cursor = %s, status = %s, updated_at = %s,
    last_file = coalesce(%s, last_file), last_task = coalesce(%s, last_task),
    error = coalesce(%s, error), completed_at = %s
WHERE no = %s AND stage = %s AND phase = %s AND cursor = %s
RETURNING no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
          last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at

-- name: open_phase
INSERT INTO phases (batch_no, phase, name) VALUES (%s, %s, %s)

-- name: insert_files
INSERT INTO files (batch_no, born, file_no, root_no, listed, role, path, folded, name, key, size, content_type,
                   digest, cid, source_file, tags, config)
SELECT %s, %s, given.*
FROM unnest(%s::bigint[], %s::bigint[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) AS given

-- name: retag_files
UPDATE files f SET tags = given.tags
FROM unnest(%s::bigint[], %s::text[]) AS given (file_no, tags)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: retire_files
UPDATE files SET gone = %s WHERE batch_no = %s AND file_no = ANY(%s::bigint[])

-- name: insert_tasks
INSERT INTO tasks (batch_no, phase, task_no, file_no)
SELECT %s, %s, given.* FROM unnest(%s::bigint[], %s::bigint[]) AS given

-- name: count_tasks
UPDATE phases SET total = total + %s WHERE batch_no = %s AND phase = %s

-- name: judge_inputs
-- A failure stays, whatever later phases say of the file's other descendants.
UPDATE files f
SET attempts = f.attempts + given.tries,
    reason = CASE WHEN f.outcome = 'failed' THEN f.reason ELSE given.reason END,
    error_class = CASE WHEN f.outcome = 'failed' THEN f.error_class ELSE given.error_class END,
    outcome = CASE WHEN f.outcome = 'failed' THEN f.outcome ELSE given.outcome END
FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::text[])
     AS given (file_no, outcome, tries, error_class, reason)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: skip_untouched
UPDATE files SET outcome = 'skipped', error_class = %s, reason = replace(%s, '{type}', content_type)
WHERE batch_no = %s AND born = 0 AND outcome IS NULL

-- name: listed_files
SELECT file_no, root_no, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = %s AND file_no > %s AND listed AND gone IS NULL ORDER BY file_no LIMIT %s

-- name: taken_paths
-- A path that is the folder of others is taken too ('0' follows '/').
SELECT path, holders
FROM unnest(%(paths)s::text[]) AS wanted (path),
LATERAL (
  SELECT (SELECT count(*) FROM files WHERE batch_no = %(batch_no)s AND folded = wanted.path)
         + EXISTS (SELECT 1 FROM files WHERE batch_no = %(batch_no)s
                   AND folded >= wanted.path || '/' AND folded < wanted.path || '0')::int AS holders
) AS counted
WHERE holders > 0

-- name: settled_tasks
SELECT t.task_no, t.state, CASE WHEN t.cached THEN t.attempt - 1 ELSE t.attempt END, t.result,
       coalesce(t.error_class, ''), coalesce(t.error, ''),
       f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file,
       f.tags, f.config
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = %s AND t.task_no > %s AND t.phase = %s ORDER BY t.task_no LIMIT %s

-- name: first_task_of_phase
-- The phases before it hold the lower numbers.
SELECT coalesce(sum(total), 0)::bigint FROM phases WHERE batch_no = %s AND phase < %s

-- name: lock_batch
-- Claims and settlements of one batch go one after the other, and so never wait for each other in a ring.
SELECT next_task, last_task, stage FROM batches WHERE no = %s FOR UPDATE

-- name: lock_batches
SELECT no FROM batches WHERE no = ANY(%s::bigint[]) ORDER BY no FOR UPDATE

-- name: begin_waiting
-- MATERIALIZED: the limited choice must be made once.
WITH due AS MATERIALIZED (
  SELECT task_no, due_at FROM tasks
  WHERE batch_no = %(batch_no)s AND state = 'waiting' AND due_at <= %(now)s
  ORDER BY due_at, task_no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), begun AS (
  UPDATE tasks t SET state = 'running', attempt = t.attempt + 1, started_at = %(now)s
  FROM due WHERE t.batch_no = %(batch_no)s AND t.task_no = due.task_no
  RETURNING t.task_no, t.attempt, t.failures, t.interruptions, t.started_at, t.file_no, due.due_at
)
SELECT b.task_no, b.attempt, b.failures, b.interruptions, b.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM begun b JOIN files f ON f.batch_no = %(batch_no)s AND f.file_no = b.file_no
ORDER BY b.due_at, b.task_no

-- name: begin_fresh
WITH begun AS (
  UPDATE tasks SET state = 'running', attempt = 1, started_at = %(now)s
  WHERE batch_no = %(batch_no)s AND task_no >= %(first)s AND task_no < %(end)s AND state = 'ready'
  RETURNING task_no, attempt, failures, interruptions, started_at, file_no
)
SELECT b.task_no, b.attempt, b.failures, b.interruptions, b.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM begun b JOIN files f ON f.batch_no = %(batch_no)s AND f.file_no = b.file_no
ORDER BY b.task_no

-- name: set_next_task
UPDATE batches SET next_task = %s WHERE no = %s

-- name: running_tasks
SELECT t.task_no, t.attempt, t.failures, t.interruptions, t.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = %s AND t.task_no >= %s AND t.state = 'running' ORDER BY t.task_no

-- name: phase_of
SELECT phase FROM batches WHERE no = %s

-- name: settle_tasks
-- The fence: only the current attempt, and only once.
UPDATE tasks t
SET state = given.state, due_at = given.due_at, failures = t.failures + given.blamed::int,
    interruptions = t.interruptions + given.interrupted::int, cached = given.cached, result = given.result,
    error_class = given.error_class, error = given.error
FROM unnest(%s::text[], %s::double precision[], %s::boolean[], %s::boolean[], %s::boolean[], %s::bytea[],
            %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
     AS given (state, due_at, blamed, interrupted, cached, result, error_class, error, batch_no, task_no, attempt)
WHERE t.batch_no = given.batch_no AND t.task_no = given.task_no AND t.attempt = given.attempt
  AND t.state = 'running'
RETURNING t.batch_no, t.task_no, t.attempt

-- name: insert_attempts
INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::double precision[],
                     %s::double precision[], %s::text[], %s::text[])

-- name: insert_strays
INSERT INTO strays (batch_no, task_no, attempt, outcome, worker, received_at)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::double precision[])

-- name: count_settled
UPDATE phases SET done = done + %s, failed = failed + %s, cached = cached + %s
WHERE batch_no = %s AND phase = (SELECT phase FROM batches WHERE no = %s)

-- name: end_phase_when_settled
UPDATE batches SET stage = 'transforming', cursor = 0, updated_at = %s
WHERE no = %s AND stage = 'working'
  AND EXISTS (SELECT 1 FROM phases p WHERE p.batch_no = batches.no AND p.phase = batches.phase
              AND p.done + p.failed = p.total)

-- name: remember_results
-- In order of key: batches that remember the same results cannot wait for each other.
INSERT INTO step_cache (key, result, made_at)
SELECT given.key, given.result, %s FROM unnest(%s::text[], %s::bytea[]) AS given (key, result)
ORDER BY given.key COLLATE "C"
ON CONFLICT (key) DO UPDATE SET result = excluded.result, made_at = excluded.made_at

-- name: cached_results
SELECT key, result FROM step_cache WHERE key = ANY(%s::text[])

-- name: evict_results
DELETE FROM step_cache
WHERE key IN (SELECT key FROM step_cache WHERE key = ANY(%s::text[]) ORDER BY key FOR UPDATE)

-- name: give_back
-- Due at once, whatever the clock will say by then.
UPDATE tasks t SET state = 'waiting', due_at = 0, attempt = t.attempt - 1
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given (batch_no, task_no, attempt)
WHERE t.batch_no = given.batch_no AND t.task_no = given.task_no AND t.attempt = given.attempt
  AND t.state = 'running'

-- name: set_alarm
INSERT INTO alarms (batch_no, due_at) VALUES (%s, %s)
ON CONFLICT (batch_no) DO UPDATE SET due_at = least(alarms.due_at, excluded.due_at)

-- name: alarm
SELECT due_at FROM alarms WHERE batch_no = %s

-- name: clear_alarm
DELETE FROM alarms WHERE batch_no = %s AND due_at <= %s

-- name: next_due
SELECT min(due_at) FROM tasks WHERE batch_no = %s AND state = 'waiting'

-- name: outbox_oldest
SELECT no, queue, message_id, body FROM outbox ORDER BY no LIMIT %s

-- name: delete_letters
DELETE FROM outbox WHERE no = ANY(%s::bigint[])

-- name: phase_counts
SELECT phase, name, total, done, failed, cached FROM phases WHERE batch_no = %s ORDER BY phase

-- name: inputs_by_folded
SELECT file_no, path, outcome, error_class, reason, attempts FROM files
WHERE batch_no = %s AND born = 0 AND folded = ANY(%s::text[])

-- name: made_files
SELECT root_no, role, key, path, name, size, content_type, digest, cid, source_file, tags, config FROM files
WHERE batch_no = %s AND born > 0 AND root_no = ANY(%s::bigint[]) ORDER BY file_no

-- name: batch_events
SELECT at, type, data FROM events WHERE batch_no = %s ORDER BY no LIMIT %s
