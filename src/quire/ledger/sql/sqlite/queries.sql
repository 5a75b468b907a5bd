-- name: insert_batch
INSERT INTO batches (id, run_key, pipeline, pipeline_version, plan, stage, status, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, 'open', 'OPEN', ?, ?)

-- name: batch_by_id
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
       last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at
FROM batches WHERE id = ?

-- name: batch_by_no
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files,
       last_file, last_task, created_at, updated_at, completed_at, error, plan, delivered_at
FROM batches WHERE no = ?

-- name: newest_by_run_key
SELECT no FROM batches WHERE run_key = ? ORDER BY no DESC LIMIT 1

-- name: upsert_upload
INSERT OR REPLACE INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_upload
DELETE FROM uploads WHERE batch_no = ? AND path = ?

-- name: uploads_after
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason
FROM uploads WHERE batch_no = ? AND path > ? ORDER BY path LIMIT ?

-- name: finalize
UPDATE batches SET stage = 'queued', status = 'QUEUED', manifest_key = ?, total_files = ?, message = ?, updated_at = ?
WHERE no = ? AND stage = 'open'

-- name: insert_letter
INSERT INTO outbox (queue, message_id, body, created_at) VALUES (?, ?, ?, ?)

-- name: insert_event
INSERT INTO events (batch_no, at, type, data) VALUES (?, ?, ?, ?)

-- name: delivered
UPDATE batches SET delivered_at = ? WHERE no = ? AND delivered_at IS NULL

-- name: abandon
UPDATE batches SET stage = 'cancelled', status = 'CANCELLED', error = ?, updated_at = ?, completed_at = ?
WHERE no = ? AND stage NOT IN ('done', 'error', 'cancelled')

-- name: move
-- The compare-and-swap every move goes through.
UPDATE batches
SET stage = ?, phase = ?, cursor = ?, status = ?, updated_at = ?,
    last_file = coalesce(?, last_file), last_task = coalesce(?, last_task),
    error = coalesce(?, error), completed_at = ?
WHERE no = ? AND stage = ? AND phase = ? AND cursor = ?

-- name: open_phase
INSERT INTO phases (batch_no, phase, name) VALUES (?, ?, ?)

-- name: insert_file
INSERT INTO files (batch_no, file_no, root_no, born, listed, role, path, folded, name, key, size, content_type,
                   digest, cid, source_file, tags, config)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: retag_file
UPDATE files SET tags = ? WHERE batch_no = ? AND file_no = ?

-- name: retire_file
UPDATE files SET gone = ? WHERE batch_no = ? AND file_no = ?

-- name: insert_task
INSERT INTO tasks (batch_no, task_no, phase, file_no) VALUES (?, ?, ?, ?)

-- name: count_tasks
UPDATE phases SET total = total + ? WHERE batch_no = ? AND phase = ?

-- name: judge_input
-- A failure stays, whatever later phases say of the file's other descendants.
UPDATE files
SET attempts = attempts + ?,
    reason = CASE WHEN outcome IS 'failed' THEN reason ELSE ? END,
    error_class = CASE WHEN outcome IS 'failed' THEN error_class ELSE ? END,
    outcome = CASE WHEN outcome IS 'failed' THEN outcome ELSE ? END
WHERE batch_no = ? AND file_no = ?

-- name: skip_untouched
UPDATE files SET outcome = 'skipped', error_class = ?, reason = replace(?, '{type}', content_type)
WHERE batch_no = ? AND born = 0 AND outcome IS NULL

-- name: listed_files
SELECT file_no, root_no, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = ? AND file_no > ? AND listed = 1 AND gone IS NULL ORDER BY file_no LIMIT ?

-- name: taken_paths
-- A path that is the folder of others is taken too ('0' follows '/').
SELECT wanted.value AS path,
       (SELECT count(*) FROM files WHERE batch_no = ?1 AND folded = wanted.value)
       + EXISTS (SELECT 1 FROM files WHERE batch_no = ?1
                 AND folded >= wanted.value || '/' AND folded < wanted.value || '0') AS holders
FROM json_each(?2) wanted WHERE holders > 0

-- name: settled_tasks
SELECT t.task_no, t.state, CASE WHEN t.cached THEN t.attempt - 1 ELSE t.attempt END, t.result,
       coalesce(t.error_class, ''), coalesce(t.error, ''),
       f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file,
       f.tags, f.config
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = ? AND t.task_no > ? AND t.phase = ? ORDER BY t.task_no LIMIT ?

-- name: first_task_of_phase
-- The phases before it hold the lower numbers.
SELECT coalesce(sum(total), 0) FROM phases WHERE batch_no = ? AND phase < ?

-- name: due_tasks
SELECT task_no FROM tasks WHERE batch_no = ? AND state = 'waiting' AND due_at <= ? ORDER BY due_at LIMIT ?

-- name: begin_waiting
UPDATE tasks SET state = 'running', attempt = attempt + 1, started_at = ? WHERE batch_no = ? AND task_no = ?

-- name: next_task
SELECT next_task, last_task, stage FROM batches WHERE no = ?

-- name: begin_fresh
UPDATE tasks SET state = 'running', attempt = 1, started_at = ?
WHERE batch_no = ? AND task_no >= ? AND task_no < ? AND state = 'ready'

-- name: set_next_task
UPDATE batches SET next_task = ? WHERE no = ?

-- name: claimed_range
SELECT t.task_no, t.attempt, t.failures, t.interruptions, t.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = ? AND t.task_no >= ? AND t.task_no < ? ORDER BY t.task_no

-- name: running_tasks
SELECT t.task_no, t.attempt, t.failures, t.interruptions, t.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = ? AND t.task_no >= ? AND t.state = 'running' ORDER BY t.task_no

-- name: settle_task
-- The fence: only the current attempt, and only once.
UPDATE tasks
SET state = ?, due_at = ?, failures = failures + ?, interruptions = interruptions + ?, cached = ?,
    result = ?, error_class = ?, error = ?
WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state = 'running'

-- name: insert_attempt
INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_stray
INSERT INTO strays (batch_no, task_no, attempt, outcome, worker, received_at) VALUES (?, ?, ?, ?, ?, ?)

-- name: count_settled
UPDATE phases SET done = done + ?, failed = failed + ?, cached = cached + ?
WHERE batch_no = ? AND phase = (SELECT phase FROM batches WHERE no = ?)

-- name: end_phase_when_settled
UPDATE batches SET stage = 'transforming', cursor = 0, updated_at = ?
WHERE no = ? AND stage = 'working'
  AND EXISTS (SELECT 1 FROM phases p WHERE p.batch_no = batches.no AND p.phase = batches.phase
              AND p.done + p.failed = p.total)

-- name: remember_result
INSERT OR REPLACE INTO step_cache (key, result, made_at) VALUES (?, ?, ?)

-- name: cached_results
SELECT key, result FROM step_cache WHERE key IN (SELECT value FROM json_each(?))

-- name: evict_result
DELETE FROM step_cache WHERE key = ?

-- name: give_back
-- Due at once, whatever the clock will say by then.
UPDATE tasks SET state = 'waiting', due_at = 0, attempt = attempt - 1
WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state = 'running'

-- name: set_alarm
INSERT INTO alarms (batch_no, due_at) VALUES (?, ?)
ON CONFLICT (batch_no) DO UPDATE SET due_at = min(due_at, excluded.due_at)

-- name: alarm
SELECT due_at FROM alarms WHERE batch_no = ?

-- name: clear_alarm
DELETE FROM alarms WHERE batch_no = ? AND due_at <= ?

-- name: next_due
SELECT min(due_at) FROM tasks WHERE batch_no = ? AND state = 'waiting'

-- name: outbox_oldest
SELECT no, queue, message_id, body FROM outbox ORDER BY no LIMIT ?

-- name: delete_letter
DELETE FROM outbox WHERE no = ?

-- name: phase_counts
SELECT phase, name, total, done, failed, cached FROM phases WHERE batch_no = ? ORDER BY phase

-- name: inputs_by_folded
SELECT file_no, path, outcome, error_class, reason, attempts FROM files
WHERE batch_no = ? AND born = 0 AND folded IN (SELECT value FROM json_each(?))

-- name: made_files
SELECT root_no, role, key, path, name, size, content_type, digest, cid, source_file, tags, config FROM files
WHERE batch_no = ? AND born > 0 AND root_no IN (SELECT value FROM json_each(?)) ORDER BY file_no

-- name: batch_events
SELECT at, type, data FROM events WHERE batch_no = ? ORDER BY no LIMIT ?
