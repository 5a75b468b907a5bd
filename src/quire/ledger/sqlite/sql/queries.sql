-- There are no statistics in the file, and without them SQLite takes a batch for ten rows: it would rather walk one
-- of millions along the primary key than use an index. So the way is written down: INDEXED BY, and CROSS JOIN,
-- which keeps the order of the tables.

-- name: insert_batch
INSERT INTO batches (id, run_key, pipeline, pipeline_version, plan, stage, status, created_at, updated_at,
                     served_at, tier, tenant, budget_seconds, budget_tokens, budget_money,
                     hands_over_to, plan_digest)
VALUES (?, ?, ?, ?, ?, 'open', 'OPEN', ?6, ?6, ?6, ?, ?, ?, ?, ?, ?, ?)

-- name: batch_by_id
SELECT * FROM batch_rows WHERE id = ?

-- name: batch_by_no
SELECT * FROM batch_rows WHERE no = ?

-- name: newest_by_run_key
SELECT * FROM batch_rows WHERE no = (SELECT max(no) FROM batches WHERE run_key = ?)

-- name: upsert_upload
INSERT OR REPLACE INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_upload
DELETE FROM uploads WHERE batch_no = ? AND path = ?

-- name: uploads_after
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = ? AND path > ? ORDER BY path LIMIT ?

-- name: finalize
UPDATE batches SET stage = 'queued', status = 'QUEUED', manifest_key = ?, total_files = ?, refused = ?, passed_over = ?,
                   message = ?, updated_at = ?
WHERE no = ? AND stage = 'open'

-- name: insert_letter
INSERT INTO outbox (queue, message_id, body, created_at) VALUES (?, ?, ?, ?)

-- name: insert_event
INSERT INTO events (batch_no, at, type, data) VALUES (?, ?, ?, ?)

-- name: delivered
UPDATE batches SET delivered_at = ? WHERE no = ? AND delivered_at IS NULL

-- name: end_batch
-- From outside, whatever it is at: where it stood is kept, so that it can go on from there.
UPDATE batches SET stood = stage, stage = ?1, status = ?2, error = ?3, updated_at = ?4, completed_at = ?4,
                   hold = NULL, hold_reason = NULL, mover = NULL
WHERE no = ?5 AND stage NOT IN ('done', 'error', 'cancelled')

-- name: take
UPDATE batches SET mover = ?1
WHERE no IN (SELECT no FROM batches
             WHERE (stage IN ('filling', 'gathering', 'discovering', 'transforming', 'ending')
                    OR (stage = 'flowing' AND wants_move = 1))
               AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until <= ?2
               AND (mover IS NULL OR mover = ?1) AND (?3 IS NULL OR no IN (SELECT value FROM json_each(?3)))
               AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(?5) k
                                          WHERE json_extract(k.value, '$[0]') = batches.pipeline
                                            AND json_extract(k.value, '$[1]') = batches.pipeline_version
                                            AND json_extract(k.value, '$[2]') IN ('', batches.plan_digest)))
             ORDER BY mover IS NULL, tier, no LIMIT ?4)
RETURNING no

-- name: leave
UPDATE batches SET mover = NULL WHERE no = ? AND mover = ?

-- name: move
-- The compare-and-swap every move goes through.
UPDATE batches
SET stage = ?1, phase = ?2, cursor = ?3, round = ?4, status = ?5, updated_at = ?6, error = ?7, completed_at = ?8,
    stood = CASE WHEN ?8 IS NULL THEN NULL ELSE stage END,
    started_at = coalesce(started_at, CASE WHEN ?1 = 'filling' THEN ?6 END),
    phase_retries = 0, rests_until = 0,
    hold = CASE WHEN ?8 IS NULL THEN hold END, hold_reason = CASE WHEN ?8 IS NULL THEN hold_reason END,
    mover = CASE WHEN ?1 = 'filling' THEN mover END
WHERE no = ?9 AND stage = ?10 AND phase = ?11 AND cursor = ?12 AND round = ?13

-- name: put_off
UPDATE batches SET phase_retries = ?, rests_until = ?, updated_at = ?
WHERE no = ? AND stage = ? AND phase = ? AND cursor = ? AND round = ?

-- name: insert_member
INSERT OR IGNORE INTO members (batch_no, unit_no, file_no) VALUES (?, ?, ?)

-- name: skip_untouched
-- ?4 is JSON: reasons of their own by content type.
UPDATE files SET outcome = 'skipped', error_class = ?1,
                 reason = coalesce((SELECT value FROM json_each(?4) WHERE key = content_type),
                                   replace(?2, '{type}', content_type))
WHERE batch_no = ?3 AND born = 0 AND outcome IS NULL

-- name: unit_members
SELECT f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file,
       f.tags, f.config
FROM members m JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
WHERE m.batch_no = ? AND m.unit_no = ? ORDER BY f.path, f.file_no

-- name: keep_attempt
-- The attempt before this one leaves the task's row for the history.
INSERT OR IGNORE INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error, cost)
SELECT batch_no, task_no, attempt, outcome, coalesce(worker, ''), coalesce(started_at, 0), coalesce(seconds, 0),
       error_class, error, cost
FROM tasks WHERE batch_no = ? AND task_no = ? AND outcome IS NOT NULL

-- name: begin_waiting
UPDATE tasks SET state = 'running', attempt = attempt + 1, started_at = ?, member = ?, outcome = NULL, worker = NULL,
                 seconds = NULL, error_class = NULL, error = NULL, cost = NULL
WHERE batch_no = ? AND task_no = ?

-- name: begin_fresh
UPDATE tasks SET state = 'running', attempt = 1, started_at = ?, member = ?
WHERE batch_no = ? AND task_no >= ? AND task_no < ? AND state = 'ready'

-- name: clear_alarm
DELETE FROM alarms WHERE batch_no = ?

-- name: earlier
-- By path, not without case: folders that differ in case are two. Units of earlier rounds that nothing has taken
-- the place of still stand. Bounds on both sides ('0' follows '/'; bytes follow all text), so that a directory
-- costs what is below it. Uploaded paths begin with a slash.
SELECT f.path, c.path, t.result
FROM tasks own CROSS JOIN files f ON f.batch_no = own.batch_no AND f.file_no = own.file_no
CROSS JOIN files c INDEXED BY files_unit_paths ON c.batch_no = own.batch_no AND c.role = 'unit' AND c.gone IS NULL AND c.born = own.phase
     AND c.folded > CASE f.folded WHEN '' THEN '' ELSE f.folded || '/' END
     AND c.folded < CASE f.folded WHEN '' THEN x'' ELSE f.folded || '0' END
     AND (f.path = '' OR substr(c.path, 1, length(f.path) + 1) = f.path || '/')
     AND instr(substr(c.path, CASE WHEN f.path <> '' THEN length(f.path) + 2 WHEN substr(c.path, 1, 1) = '/' THEN 2 ELSE 1 END), '/') = 0
CROSS JOIN tasks t INDEXED BY tasks_of_file
     ON t.batch_no = own.batch_no AND t.file_no = c.file_no AND t.state = 'done' AND t.phase = own.phase
WHERE own.batch_no = ? AND own.task_no = ? ORDER BY c.path

-- name: task_state
SELECT t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.phase, t.round, t.state
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = ? AND t.task_no = ?

-- name: running_tasks
-- Of batches that flow: what members of an earlier version ran is due again when its batch is adopted.
SELECT t.batch_no, t.task_no, t.attempt, t.failures, t.interruptions, t.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM tasks t INDEXED BY tasks_running
CROSS JOIN batches b ON b.no = t.batch_no AND b.stage = 'flowing'
CROSS JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.state = 'running' AND t.member = ?
ORDER BY t.batch_no, t.task_no

-- name: positions
SELECT no, stage, phase, cursor, round FROM batches WHERE no IN (SELECT value FROM json_each(?))

-- name: settle_task
-- The fence: only the current attempt, and only once.
UPDATE tasks
SET state = ?, due_at = ?, failures = failures + ?, interruptions = interruptions + ?, cached = ?,
    result = ?, error_class = ?, error = ?, outcome = ?, worker = ?, started_at = ?, seconds = ?, cost = ?
WHERE batch_no = ? AND task_no = ? AND attempt = ?
  AND (state = 'running' OR (state = 'external' AND ?1 <> 'external'))

-- name: settle_success
-- The same for a success that brings nothing but itself: most tasks, and a third of the cost.
UPDATE tasks
SET state = 'done', due_at = NULL, cached = ?, result = NULL, error_class = NULL, error = NULL, outcome = 'done',
    worker = ?, started_at = ?, seconds = ?, cost = NULL
WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state IN ('running', 'external')

-- name: task_now
SELECT attempt, state, error_class FROM tasks WHERE batch_no = ? AND task_no = ?

-- name: insert_stray
INSERT INTO strays (batch_no, task_no, attempt, outcome, worker, received_at, kind) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: count_failures
INSERT INTO failures (batch_no, error_class, tasks) VALUES (?, ?, ?)
ON CONFLICT (batch_no, error_class) DO UPDATE SET tasks = tasks + excluded.tasks

-- name: hold_over_budget
UPDATE batches SET hold = 'budget', hold_reason = ?
WHERE no = ? AND hold IS NULL AND stage = 'flowing'
  AND (budget_seconds IS NOT NULL OR budget_tokens IS NOT NULL OR budget_money IS NOT NULL)
  AND EXISTS (SELECT 1 FROM (SELECT sum(seconds) AS seconds, sum(tokens_in + tokens_out) AS tokens,
                                    sum(money) AS money FROM rounds r WHERE r.batch_no = batches.no) s
              WHERE s.seconds >= budget_seconds OR s.tokens >= budget_tokens OR s.money >= budget_money)

-- name: remember_result
INSERT OR REPLACE INTO step_cache (key, result, made_at) VALUES (?, ?, ?)

-- name: cached_results
SELECT key, result FROM step_cache WHERE key IN (SELECT value FROM json_each(?))

-- name: evict_result
DELETE FROM step_cache WHERE key = ?

-- name: set_alarm
-- A batch that has ended while the attempt was out has none.
INSERT INTO alarms (batch_no, due_at) SELECT no, ?1 FROM batches WHERE no = ?2 AND stage = 'flowing'
ON CONFLICT (batch_no) DO UPDATE SET due_at = min(due_at, excluded.due_at)

-- name: next_alarm
SELECT min(at) FROM (
  SELECT a.due_at AS at FROM alarms a CROSS JOIN batches b ON b.no = a.batch_no
  WHERE b.stage = 'flowing' AND b.hold IS NULL AND a.due_at > ?1
    AND (?2 IS NULL OR b.no IN (SELECT value FROM json_each(?2)))
  UNION ALL
  SELECT r.dispatch_at FROM batches b CROSS JOIN rounds r ON r.batch_no = b.no AND r.round = 1
  WHERE b.stage = 'flowing' AND b.hold IS NULL AND r.dispatch_at > ?1
    AND (?2 IS NULL OR b.no IN (SELECT value FROM json_each(?2)))
  UNION ALL
  SELECT rests_until FROM batches
  WHERE stage IN ('filling', 'gathering', 'discovering', 'working', 'transforming', 'flowing', 'ending')
    AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until > ?1
    AND (?2 IS NULL OR no IN (SELECT value FROM json_each(?2))))

-- name: outbox_oldest
SELECT no, queue, message_id, body FROM outbox WHERE no > ? ORDER BY no LIMIT ?

-- name: delete_letter
DELETE FROM outbox WHERE no = ?

-- name: enlist
INSERT INTO crew (name, kind, place, enlisted_at, beat_at, format) VALUES (?, ?, ?, ?, ?, 1) RETURNING no

-- name: beat
UPDATE crew SET beat = beat + 1, beat_at = ? WHERE no = ?

-- name: crew
SELECT no, name, kind, place, beat, enlisted_at FROM crew ORDER BY no

-- name: dismiss
-- Not while an attempt is out with it: one that was taken for dead may have claimed more meanwhile.
DELETE FROM crew WHERE no = ?1 AND NOT EXISTS (
  SELECT 1 FROM tasks t INDEXED BY tasks_running
  CROSS JOIN batches b ON b.no = t.batch_no AND b.stage = 'flowing'
  WHERE t.state = 'running' AND t.member = ?1)

-- name: was_dismissed
-- The member was removed; numbers are never reused.
SELECT 1 FROM sqlite_sequence WHERE name = 'crew' AND seq >= ?1 AND NOT EXISTS (SELECT 1 FROM crew WHERE no = ?1)

-- name: free_movers
-- A batch that has ended has none.
UPDATE batches INDEXED BY batches_active SET mover = NULL
WHERE mover = ? AND stage NOT IN ('done', 'error', 'cancelled')

-- name: pause
UPDATE batches SET hold = 'paused', hold_reason = ?, updated_at = ?
WHERE no = ? AND hold IS NOT 'paused' AND stage NOT IN ('done', 'error', 'cancelled')

-- name: resume
UPDATE batches SET hold = NULL, hold_reason = NULL, updated_at = ? WHERE no = ? AND hold IS NOT NULL

-- name: set_budget
UPDATE batches SET budget_seconds = ?, budget_tokens = ?, budget_money = ? WHERE no = ?

-- name: prioritise
UPDATE batches SET tier = ?, updated_at = ? WHERE no = ? AND stage NOT IN ('done', 'error', 'cancelled')

-- name: chosen_failed
-- Failed tasks by what a person may name: the error class, or the path of their file, of its input, or of a
-- member of their unit.
-- Of a batch that stopped half-way none runs again when it goes on.
SELECT t.phase, coalesce(t.error_class, ''), count(*)
FROM batches b CROSS JOIN tasks t INDEXED BY tasks_failed ON t.batch_no = b.no
JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
JOIN files root ON root.batch_no = f.batch_no AND root.file_no = f.root_no
WHERE b.no = ?1 AND b.stage = 'done' AND t.batch_no = ?1 AND t.state = 'failed' AND (?2 IS NULL OR t.error_class = ?2)
  AND (?3 IS NULL OR f.path = ?3 OR root.path = ?3
       OR (f.role = 'unit' AND EXISTS (SELECT 1 FROM members m
                                       JOIN files g ON g.batch_no = m.batch_no AND g.file_no = m.file_no
                                       JOIN files r ON r.batch_no = m.batch_no AND r.file_no = g.root_no
                                       WHERE m.batch_no = ?1 AND m.unit_no = f.file_no AND ?3 IN (g.path, r.path))))
GROUP BY 1, 2 ORDER BY 1, 2

-- name: unsettled
SELECT r.total - r.done - r.failed FROM batches b
JOIN rounds r ON r.batch_no = b.no AND r.round = b.round AND r.phase = b.phase
WHERE b.no = ? AND b.stood = 'working'

-- name: again_drop_chosen
DROP TABLE IF EXISTS temp.chosen

-- name: again_select
-- The failed tasks that are selected, with their files.
CREATE TEMP TABLE chosen AS
SELECT t.task_no, t.file_no, t.phase, f.role, f.root_no
FROM tasks t INDEXED BY tasks_failed CROSS JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
CROSS JOIN files root ON root.batch_no = f.batch_no AND root.file_no = f.root_no
WHERE t.batch_no = ?1 AND t.state = 'failed' AND (?2 IS NULL OR t.error_class = ?2)
  AND (?3 IS NULL OR f.path = ?3 OR root.path = ?3
       OR (f.role = 'unit' AND EXISTS (SELECT 1 FROM members m
                                       JOIN files g ON g.batch_no = m.batch_no AND g.file_no = m.file_no
                                       JOIN files r ON r.batch_no = m.batch_no AND r.file_no = g.root_no
                                       WHERE m.batch_no = ?1 AND m.unit_no = f.file_no AND ?3 IN (g.path, r.path))))

-- name: tasks_of_files
SELECT task_no FROM tasks INDEXED BY tasks_of_file
WHERE batch_no = ? AND file_no IN (SELECT value FROM json_each(?)) AND state <> 'superseded'

-- name: uncount_tasks
UPDATE rounds SET total = rounds.total - gone.total, done = rounds.done - gone.done,
                  failed = rounds.failed - gone.failed, cached = rounds.cached - gone.cached
FROM (SELECT round, phase, count(*) AS total, sum(state = 'done') AS done, sum(state = 'failed') AS failed,
             sum(cached) AS cached
      FROM tasks WHERE batch_no = ?1 AND task_no IN (SELECT value FROM json_each(?2)) GROUP BY round, phase) gone
WHERE rounds.batch_no = ?1 AND rounds.round = gone.round AND rounds.phase = gone.phase

-- name: uncount_failures
UPDATE failures SET tasks = failures.tasks - gone.tasks
FROM (SELECT coalesce(error_class, '') AS error_class, count(*) AS tasks FROM tasks
      WHERE batch_no = ?1 AND state = 'failed' AND task_no IN (SELECT value FROM json_each(?2)) GROUP BY 1) gone
WHERE failures.batch_no = ?1 AND failures.error_class = gone.error_class

-- name: supersede_tasks
UPDATE tasks SET state = 'superseded' WHERE batch_no = ? AND task_no IN (SELECT value FROM json_each(?))

-- name: withdraw_files
UPDATE files SET gone = 0 WHERE batch_no = ? AND file_no IN (SELECT value FROM json_each(?))

-- name: roots_of_members
-- The inputs of all members of these units.
SELECT DISTINCT f.root_no FROM members m CROSS JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
WHERE m.batch_no = ? AND m.unit_no IN (SELECT value FROM json_each(?))

-- name: descendants_of
WITH RECURSIVE made (file_no) AS (
  SELECT value FROM json_each(?2)
  UNION
  SELECT f.file_no FROM made CROSS JOIN files f INDEXED BY files_parent
       ON f.batch_no = ?1 AND f.born > 0 AND f.parent_no = made.file_no AND f.gone IS NOT 0
)
SELECT file_no FROM made

-- name: awaits_start
SELECT 1 FROM batches WHERE no = ? AND stood = 'queued'

-- name: reopen
-- Its message has been taken from the queue meanwhile: one that was on its way starts without it.
UPDATE batches SET stage = CASE stood WHEN 'queued' THEN 'filling' ELSE stood END, stood = NULL,
                   status = CASE stood WHEN 'open' THEN 'OPEN' ELSE ?1 END, error = NULL, completed_at = NULL,
                   updated_at = ?2, started_at = coalesce(started_at, CASE stood WHEN 'queued' THEN ?2 END),
                   phase_retries = 0, rests_until = 0, mover = NULL
WHERE no = ?3 AND stage IN ('error', 'cancelled') AND stood IS NOT NULL

-- name: list_batches
SELECT * FROM batch_rows
WHERE (?1 IS NULL OR no < ?1) AND (?2 IS NULL OR (stage IN ('done', 'error', 'cancelled')) = ?2)
  AND (?3 IS NULL OR ?3 =
       CASE WHEN stage IN ('done', 'error', 'cancelled') THEN stage WHEN hold = 'budget' THEN 'held'
            WHEN hold IS NOT NULL THEN 'paused' WHEN stage = 'open' THEN 'receiving' WHEN stage = 'queued' THEN 'waiting'
            ELSE 'working' END)
  AND (?4 IS NULL OR (status = ?4 AND stage NOT IN ('open', 'queued', 'done', 'error', 'cancelled')))
  AND (?5 IS NULL OR tenant = ?5)
ORDER BY no DESC LIMIT ?6

-- name: message
SELECT message FROM batches WHERE no = ?

-- name: phase_counts
SELECT phase, max(name), sum(total), sum(done), sum(failed), sum(cached), sum(seconds), sum(bytes_in),
       sum(bytes_out), sum(tokens_in), sum(tokens_out), sum(money)
FROM rounds WHERE batch_no = ? GROUP BY phase ORDER BY phase

-- name: failures
SELECT error_class, tasks FROM failures WHERE batch_no = ? AND tasks > 0 ORDER BY tasks DESC, error_class

-- name: failed_tasks
SELECT t.task_no, coalesce(r.name, ''), f.path, f.key, coalesce(t.error_class, ''), coalesce(t.error, ''), t.branch
FROM tasks t INDEXED BY tasks_failed CROSS JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
LEFT JOIN rounds r ON r.batch_no = t.batch_no AND r.round = t.round AND r.phase = t.phase
WHERE t.batch_no = ? AND t.task_no > ? AND t.state = 'failed' ORDER BY t.task_no LIMIT ?

-- name: first_failed_tasks
-- In the order of the pipeline and of paths, whatever failed first; of very many those with the lowest numbers.
SELECT t.task_no, coalesce(r.name, ''), f.path, f.key, coalesce(t.error_class, ''), coalesce(t.error, ''), t.branch
FROM (SELECT * FROM tasks INDEXED BY tasks_failed WHERE batch_no = ?1 AND state = 'failed' ORDER BY task_no LIMIT 10000) t
CROSS JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
LEFT JOIN rounds r ON r.batch_no = t.batch_no AND r.round = t.round AND r.phase = t.phase
ORDER BY t.phase, f.path, t.branch, t.task_no LIMIT ?2

-- name: failed_paths
-- Two lists in order, merged: a page reads no more than it gives.
SELECT path FROM files INDEXED BY files_failed
WHERE batch_no = ?1 AND outcome = 'failed' AND born = 0 AND path > ?2 AND (?3 IS NULL OR error_class = ?3)
UNION
SELECT path FROM uploads INDEXED BY uploads_failed
WHERE batch_no = ?1 AND state = 'failed' AND path > ?2 AND (?3 IS NULL OR error_class = ?3)
ORDER BY path LIMIT ?4

-- name: uploads_at
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = ? AND path IN (SELECT value FROM json_each(?)) ORDER BY path

-- name: inputs_by_folded
-- The last columns: does the batch's present round have anything to do with it, and, of one that flows, has it walked
-- to its end?
SELECT f.file_no, f.path, f.outcome, f.error_class, f.reason, f.attempts,
       f.round = b.round OR EXISTS (SELECT 1 FROM files d INDEXED BY files_made
                                    WHERE d.batch_no = f.batch_no AND d.root_no = f.file_no AND d.born > 0
                                    AND d.role <> 'unit' AND d.round = b.round),
       f.open < 0
FROM batches b CROSS JOIN files f INDEXED BY files_folded ON f.batch_no = b.no
WHERE b.no = ? AND f.born = 0 AND f.folded IN (SELECT value FROM json_each(?))

-- name: made_files
-- Numbers are in order of time where documents move on by themselves, so those count only in batches without lineages.
SELECT root_no, role, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files INDEXED BY files_made
WHERE batch_no = ? AND born > 0 AND root_no IN (SELECT value FROM json_each(?)) AND role NOT IN ('unit', 'kept')
  AND gone IS NOT 0
ORDER BY born, CASE lineage WHEN '' THEN '' ELSE path END, file_no

-- name: root_of_path
SELECT root_no FROM files INDEXED BY files_folded
WHERE batch_no = ? AND folded IN (SELECT value FROM json_each(?)) AND path = ? AND role <> 'unit'
ORDER BY born, file_no LIMIT 1

-- name: story_files
SELECT file_no, path, role, born, gone, listed, key, size, content_type, tags FROM files
WHERE batch_no = ?1 AND file_no IN (SELECT ?2
                                    UNION ALL
                                    SELECT file_no FROM files INDEXED BY files_made
                                    WHERE batch_no = ?1 AND root_no = ?2 AND born > 0 AND role <> 'unit')
ORDER BY born, CASE lineage WHEN '' THEN '' ELSE path END, file_no

-- name: story_attempts
-- On the input, on what was made of it, and on the units that any of those belong to. The numbers of tasks of a batch
-- that flows begin with the phase, and go on in order of time: there path and branch count. Its tasks run again in
-- their own rows, so the round of an attempt follows from the retries before it.
WITH theirs AS (
  SELECT ?2 AS file_no
  UNION
  SELECT file_no FROM files INDEXED BY files_made
  WHERE batch_no = ?1 AND root_no = ?2 AND born > 0 AND role <> 'unit'
), mine AS (
  SELECT file_no FROM theirs
  UNION
  SELECT m.unit_no FROM theirs
  CROSS JOIN members m INDEXED BY members_file ON m.batch_no = ?1 AND m.file_no = theirs.file_no
), work AS (
  SELECT t.*, f.path FROM mine CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = mine.file_no
  CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = mine.file_no
)
SELECT name, round + CASE WHEN task_no >> 40 = 0 THEN 0 ELSE
         (SELECT count(*) FROM events e WHERE e.batch_no = ?1 AND e.type = 'batch_retried' AND e.at <= found.started_at) END,
       task_no, attempt, state, outcome, worker, started_at, seconds, path, error_class, error, branch FROM (
SELECT coalesce(r.name, '') AS name, w.round, w.task_no, a.attempt, w.state, a.outcome, a.worker, a.started_at,
       a.seconds, w.path, coalesce(a.error_class, '') AS error_class, coalesce(a.error, '') AS error, w.branch,
       CASE WHEN w.task_no >> 40 = 0 AND (SELECT plan_digest FROM batches WHERE no = ?1) = '' THEN w.task_no ELSE w.phase END AS place
FROM work w CROSS JOIN attempts a ON a.batch_no = ?1 AND a.task_no = w.task_no
LEFT JOIN rounds r ON r.batch_no = ?1 AND r.round = w.round AND r.phase = w.phase
UNION
SELECT coalesce(r.name, ''), w.round, w.task_no, w.attempt, w.state, coalesce(w.outcome, ''), coalesce(w.worker, ''),
       w.started_at, coalesce(w.seconds, 0), w.path, coalesce(w.error_class, ''), coalesce(w.error, ''), w.branch,
       CASE WHEN w.task_no >> 40 = 0 AND (SELECT plan_digest FROM batches WHERE no = ?1) = '' THEN w.task_no ELSE w.phase END
FROM work w LEFT JOIN rounds r ON r.batch_no = ?1 AND r.round = w.round AND r.phase = w.phase
WHERE w.attempt > 0 AND (w.state = 'running' OR w.outcome IS NOT NULL)) found
ORDER BY place, CASE WHEN task_no >> 40 = 0 THEN '' ELSE path END,
         branch, task_no, attempt, outcome DESC

-- name: steps_of_inputs
-- Settled tasks on these inputs, on what was made of them, and on the units that any of those belong to; also failed
-- ones on folders without members that an input stands for.
WITH theirs AS (
  SELECT value AS root_no, value AS file_no FROM json_each(?2)
  UNION
  SELECT f.root_no, f.file_no FROM json_each(?2) r
  CROSS JOIN files f INDEXED BY files_made ON f.batch_no = ?1 AND f.root_no = r.value AND f.born > 0 AND f.role <> 'unit'
), mine AS (
  SELECT root_no, file_no FROM theirs
  UNION
  SELECT theirs.root_no, m.unit_no FROM theirs
  CROSS JOIN members m INDEXED BY members_file ON m.batch_no = ?1 AND m.file_no = theirs.file_no
  UNION
  SELECT u.root_no, u.file_no FROM json_each(?2) r
  CROSS JOIN files u INDEXED BY files_made ON u.batch_no = ?1 AND u.root_no = r.value AND u.born > 0 AND u.role = 'unit'
  CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = u.file_no AND t.state = 'failed'
)
SELECT mine.root_no, t.phase, t.branch, coalesce(r.name, ''), t.state, coalesce(t.error_class, ''), coalesce(t.error, '')
FROM mine CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = mine.file_no
CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = mine.file_no
LEFT JOIN rounds r ON r.batch_no = ?1 AND r.round = t.round AND r.phase = t.phase
WHERE t.state IN ('done', 'failed')
ORDER BY t.phase, t.branch, f.path, t.task_no

-- name: strays
SELECT task_no, attempt, outcome, worker, received_at, kind FROM strays WHERE batch_no = ? ORDER BY no LIMIT ?

-- name: batch_events
SELECT no, at, type, data FROM events WHERE batch_no = ? AND no > ? ORDER BY no LIMIT ?

-- name: insert_deliveries
-- In the transaction of the event; where there are no hooks it looks once into an empty index. What concerns no
-- batch (number 0) is for the audit trail alone.
INSERT INTO deliveries (id, hook_no, batch_no, event_no, next_at, created_at)
SELECT 'msg_' || ?1 || '_' || h.id, h.no, ?2, ?1, ?3, ?3
FROM hooks h
WHERE h.disabled_at IS NULL AND (h.batch_no = ?2 OR h.batch_no IS NULL) AND ?2 <> 0
  AND (h.kinds = '[]' OR EXISTS (SELECT 1 FROM json_each(h.kinds) WHERE value = ?4))

-- Which files have these bytes: of each key the newest. Reads all files, for repairs.
-- name: blob_uses
SELECT f.digest, f.key, f.size, b.id, f.path, f.born = 0, max(f.batch_no)
FROM files f JOIN batches b ON b.no = f.batch_no
WHERE f.digest IN (SELECT value FROM json_each(?))
GROUP BY f.digest, f.key ORDER BY f.digest, f.key LIMIT ?
