-- name: insert_batch
INSERT INTO batches (id, run_key, pipeline, pipeline_version, plan, stage, status, created_at, updated_at,
                     served_at, tier, tenant, budget_seconds, budget_tokens, budget_money,
                     hands_over_to, plan_digest)
SELECT id, run_key, pipeline, version, plan, 'open', 'OPEN', now, now, now, tier, tenant, seconds, tokens, money,
       hands_over_to, digest
FROM (VALUES (%s::text, %s::text, %s::text, %s::bigint, %s::text, %s::double precision, %s::bigint, %s::text,
              %s::double precision, %s::bigint, %s::bigint, %s::text, %s::text))
     AS given (id, run_key, pipeline, version, plan, now, tier, tenant, seconds, tokens, money, hands_over_to, digest)
RETURNING no

-- name: batch_by_id
SELECT * FROM batch_rows WHERE id = %s

-- name: batch_by_no
SELECT * FROM batch_rows WHERE no = %s

-- name: batches_by_no
SELECT * FROM batch_rows WHERE no = ANY(%s::bigint[]) ORDER BY no

-- name: newest_by_run_key
SELECT * FROM batch_rows WHERE no = (SELECT max(no) FROM batches WHERE run_key = %s)

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

-- name: uploads_after
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = %s AND path > %s ORDER BY path LIMIT %s

-- name: finalize
UPDATE batches
SET stage = 'queued', status = 'QUEUED', manifest_key = %s, total_files = %s, refused = %s, passed_over = %s,
    message = %s, updated_at = %s
WHERE no = %s AND stage = 'open'

-- name: insert_letter
INSERT INTO outbox (queue, message_id, body, created_at) VALUES (%s, %s, %s, %s)

-- name: wake
-- Whoever listens looks for work when this is committed; equal ones of a transaction are sent once.
NOTIFY quire

-- name: delivered
UPDATE batches SET delivered_at = %s WHERE no = %s AND delivered_at IS NULL

-- name: end_batch
-- From outside, whatever it is at: where it stood is kept, so that it can go on from there.
UPDATE batches SET stood = stage, stage = %(stage)s, status = %(status)s, error = %(error)s, updated_at = %(now)s,
                   completed_at = %(now)s, hold = NULL, hold_reason = NULL, mover = NULL
WHERE no = %(no)s AND stage NOT IN ('done', 'error', 'cancelled')

-- name: take
-- SKIP LOCKED: what somebody else is just taking or moving is not for us. MATERIALIZED: the limited choice must
-- be made once.
WITH found AS MATERIALIZED (
  SELECT no FROM batches
  WHERE (stage IN ('filling', 'gathering', 'discovering', 'transforming', 'ending')
         OR (stage = 'flowing' AND wants_move))
    AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until <= %(now)s
    AND (mover IS NULL OR mover = %(member)s) AND (%(only)s::bigint[] IS NULL OR no = ANY(%(only)s::bigint[]))
    AND (%(pipelines)s::text[] IS NULL OR EXISTS (
           SELECT 1 FROM unnest(%(pipelines)s::text[], %(versions)s::bigint[], %(digests)s::text[]) AS known (name, version, digest)
           WHERE known.name = pipeline AND known.version = pipeline_version AND known.digest IN ('', plan_digest)))
  ORDER BY mover IS NULL, tier, no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE batches b SET mover = %(member)s FROM found WHERE b.no = found.no RETURNING b.no

-- name: leave
UPDATE batches SET mover = NULL WHERE no = %s AND mover = %s

-- name: move
-- The compare-and-swap every move goes through; it holds the batch's row until the end.
UPDATE batches
SET stage = %(stage)s, phase = %(phase)s, cursor = %(cursor)s, round = %(round)s, status = %(status)s,
    updated_at = %(now)s, error = %(error)s, completed_at = CASE WHEN %(ends)s THEN %(now)s END,
    stood = CASE WHEN %(ends)s THEN stage END,
    started_at = coalesce(started_at, CASE WHEN %(stage)s = 'filling' THEN %(now)s END),
    phase_retries = 0, rests_until = 0,
    hold = CASE WHEN NOT %(ends)s THEN hold END, hold_reason = CASE WHEN NOT %(ends)s THEN hold_reason END,
    mover = CASE WHEN %(stage)s = 'filling' THEN mover END
WHERE no = %(no)s AND stage = %(at_stage)s AND phase = %(at_phase)s AND cursor = %(at_cursor)s AND round = %(at_round)s

-- name: put_off
UPDATE batches SET phase_retries = %s, rests_until = %s, updated_at = %s
WHERE no = %s AND stage = %s AND phase = %s AND cursor = %s AND round = %s

-- name: insert_members
INSERT INTO members (batch_no, unit_no, file_no)
SELECT %s, given.* FROM unnest(%s::bigint[], %s::bigint[]) AS given ON CONFLICT DO NOTHING

-- name: skip_untouched
-- `own` is JSON: reasons of their own by content type.
UPDATE files SET outcome = 'skipped', error_class = %(error_class)s,
                 reason = coalesce(%(own)s::jsonb ->> content_type, replace(%(reason)s, '{type}', content_type))
WHERE batch_no = %(no)s AND born = 0 AND outcome IS NULL

-- name: unit_members
SELECT f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file,
       f.tags, f.config
FROM members m JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
WHERE m.batch_no = %s AND m.unit_no = %s ORDER BY f.path, f.file_no

-- name: lock_batch
SELECT 1 FROM batches WHERE no = %s FOR UPDATE

-- name: clear_alarm
DELETE FROM alarms WHERE batch_no = %s

-- name: earlier
-- By path, not without case: folders that differ in case are two. Units of earlier rounds that nothing has taken
-- the place of still stand. Uploaded paths begin with a slash.
SELECT own.task_no, c.path, t.result
FROM tasks own JOIN files f ON f.batch_no = own.batch_no AND f.file_no = own.file_no
JOIN files c ON c.batch_no = own.batch_no AND c.role = 'unit' AND c.gone IS NULL AND c.born = own.phase
     AND c.folded > f.folded
     AND (f.folded = '' OR (c.folded >= f.folded || '/' AND c.folded < f.folded || '0'))
     AND (f.path = '' OR left(c.path, length(f.path) + 1) = f.path || '/')
     AND strpos(substr(c.path, CASE WHEN f.path <> '' THEN length(f.path) + 2 WHEN left(c.path, 1) = '/' THEN 2 ELSE 1 END), '/') = 0
JOIN tasks t ON t.batch_no = own.batch_no AND t.file_no = c.file_no AND t.state = 'done' AND t.phase = own.phase
WHERE own.batch_no = %s AND own.task_no = ANY(%s::bigint[]) ORDER BY c.path

-- name: task_state
SELECT t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.phase, t.round, t.state
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = %s AND t.task_no = %s

-- name: running_tasks
-- Of batches that flow: what members of an earlier version ran is due again when its batch is adopted.
SELECT t.batch_no, t.task_no, t.attempt, t.failures, t.interruptions, t.started_at,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM tasks t JOIN batches b ON b.no = t.batch_no AND b.stage = 'flowing'
JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.state = 'running' AND t.member = %s
ORDER BY t.batch_no, t.task_no

-- name: positions
SELECT no, stage, phase, cursor, round FROM batches WHERE no = ANY(%s::bigint[])

-- name: tasks_now
SELECT task_no, attempt, state, error_class FROM tasks WHERE batch_no = %s AND task_no = ANY(%s::bigint[])

-- name: insert_strays
INSERT INTO strays (batch_no, task_no, attempt, outcome, worker, received_at, kind)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::double precision[],
                     %s::text[])

-- name: count_failures
INSERT INTO failures (batch_no, error_class, tasks)
SELECT %s, given.* FROM unnest(%s::text[], %s::bigint[]) AS given
ON CONFLICT (batch_no, error_class) DO UPDATE SET tasks = failures.tasks + excluded.tasks

-- name: hold_over_budget
WITH held AS (
  UPDATE batches SET hold = 'budget', hold_reason = %(reason)s
  WHERE no = %(no)s AND hold IS NULL AND stage = 'flowing'
    AND EXISTS (SELECT 1 FROM (SELECT sum(seconds) AS seconds, sum(tokens_in + tokens_out) AS tokens,
                                      sum(money) AS money FROM rounds r WHERE r.batch_no = batches.no) s
                WHERE s.seconds >= budget_seconds OR s.tokens >= budget_tokens OR s.money >= budget_money)
  RETURNING no
), noted AS (
  INSERT INTO events (batch_no, at, type, data) SELECT no, %(now)s, 'batch_held', %(data)s FROM held
  RETURNING no, batch_no, at, type
), told AS (
  INSERT INTO deliveries (id, hook_no, batch_no, event_no, next_at, created_at)
  SELECT 'msg_' || e.no || '_' || h.id, h.no, e.batch_no, e.no, e.at, e.at
  FROM noted e JOIN hooks h ON h.disabled_at IS NULL AND (h.batch_no = e.batch_no OR h.batch_no IS NULL)
                           AND (h.kinds = '{}' OR e.type = ANY (h.kinds))
  RETURNING no
)
SELECT pg_notify('quire', '') FROM (SELECT no FROM told LIMIT 1) one

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

-- name: set_alarm
-- A batch that has ended while the attempt was out has none.
INSERT INTO alarms (batch_no, due_at) SELECT no, %s FROM batches WHERE no = %s AND stage = 'flowing'
ON CONFLICT (batch_no) DO UPDATE SET due_at = least(alarms.due_at, excluded.due_at)

-- name: next_alarm
SELECT min(at) FROM (
  SELECT a.due_at AS at FROM alarms a JOIN batches b ON b.no = a.batch_no
  WHERE b.stage = 'flowing' AND b.hold IS NULL AND a.due_at > %(now)s
    AND (%(only)s::bigint[] IS NULL OR b.no = ANY(%(only)s::bigint[]))
  UNION ALL
  SELECT r.dispatch_at FROM batches b JOIN rounds r ON r.batch_no = b.no AND r.round = 1
  WHERE b.stage = 'flowing' AND b.hold IS NULL AND r.dispatch_at > %(now)s
    AND (%(only)s::bigint[] IS NULL OR b.no = ANY(%(only)s::bigint[]))
  UNION ALL
  SELECT rests_until FROM batches
  WHERE stage IN ('filling', 'gathering', 'discovering', 'working', 'transforming', 'flowing', 'ending')
    AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until > %(now)s
    AND (%(only)s::bigint[] IS NULL OR no = ANY(%(only)s::bigint[]))) moments

-- name: outbox_oldest
SELECT no, queue, message_id, body FROM outbox WHERE no > %s ORDER BY no LIMIT %s

-- name: delete_letters
DELETE FROM outbox WHERE no = ANY(%s::bigint[])

-- name: enlist
INSERT INTO crew (name, kind, place, enlisted_at, beat_at, format) VALUES (%s, %s, %s, %s, %s, 1) RETURNING no

-- name: beat
UPDATE crew SET beat = beat + 1, beat_at = %s WHERE no = %s

-- name: crew
SELECT no, name, kind, place, beat, enlisted_at FROM crew ORDER BY no

-- name: dismiss
-- Not while an attempt is out with it: one that was taken for dead may have claimed more meanwhile.
DELETE FROM crew WHERE no = %(member)s AND NOT EXISTS (
  SELECT 1 FROM tasks t JOIN batches b ON b.no = t.batch_no AND b.stage = 'flowing'
  WHERE t.state = 'running' AND t.member = %(member)s)

-- name: lock_member
SELECT 1 FROM crew WHERE no = %s FOR UPDATE

-- name: hold_member
-- The member cannot be removed meanwhile. Heartbeats are possible: they change no key.
SELECT 1 FROM crew WHERE no = %s FOR KEY SHARE

-- name: was_enlisted
-- Numbers are never reused: one that was given out and has no row belongs to a removed member.
SELECT 1 FROM crew_no_seq WHERE is_called AND last_value >= %s

-- name: free_movers
UPDATE batches SET mover = NULL WHERE no IN (SELECT no FROM batches WHERE mover = %s ORDER BY no FOR UPDATE)

-- name: pause
UPDATE batches SET hold = 'paused', hold_reason = %s, updated_at = %s
WHERE no = %s AND hold IS DISTINCT FROM 'paused' AND stage NOT IN ('done', 'error', 'cancelled')

-- name: resume
UPDATE batches SET hold = NULL, hold_reason = NULL, updated_at = %s WHERE no = %s AND hold IS NOT NULL

-- name: set_budget
UPDATE batches SET budget_seconds = %s, budget_tokens = %s, budget_money = %s WHERE no = %s

-- name: prioritise
UPDATE batches SET tier = %s, updated_at = %s WHERE no = %s AND stage NOT IN ('done', 'error', 'cancelled')

-- name: chosen
-- Failed tasks by what a person may name: the error class, or the path of their file, of its input, or of a
-- member of their unit.
SELECT t.task_no, t.file_no, t.phase, f.role, f.root_no
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
JOIN files root ON root.batch_no = f.batch_no AND root.file_no = f.root_no
WHERE t.batch_no = %(no)s AND t.state = 'failed' AND t.error_class IS NOT NULL
  AND (%(error_class)s::text IS NULL OR t.error_class = %(error_class)s)
  AND (%(path)s::text IS NULL OR f.path = %(path)s OR root.path = %(path)s
       OR (f.role = 'unit' AND EXISTS (SELECT 1 FROM members m
                                       JOIN files g ON g.batch_no = m.batch_no AND g.file_no = m.file_no
                                       JOIN files r ON r.batch_no = m.batch_no AND r.file_no = g.root_no
                                       WHERE m.batch_no = t.batch_no AND m.unit_no = f.file_no
                                         AND %(path)s IN (g.path, r.path))))

-- name: chosen_failed
-- Of a batch that stopped half-way none runs again when it goes on.
SELECT t.phase, coalesce(t.error_class, ''), count(*)
FROM batches b JOIN tasks t ON t.batch_no = b.no
JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
JOIN files root ON root.batch_no = f.batch_no AND root.file_no = f.root_no
WHERE b.no = %(no)s AND b.stage = 'done' AND t.state = 'failed' AND t.error_class IS NOT NULL
  AND (%(error_class)s::text IS NULL OR t.error_class = %(error_class)s)
  AND (%(path)s::text IS NULL OR f.path = %(path)s OR root.path = %(path)s
       OR (f.role = 'unit' AND EXISTS (SELECT 1 FROM members m
                                       JOIN files g ON g.batch_no = m.batch_no AND g.file_no = m.file_no
                                       JOIN files r ON r.batch_no = m.batch_no AND r.file_no = g.root_no
                                       WHERE m.batch_no = t.batch_no AND m.unit_no = f.file_no
                                         AND %(path)s IN (g.path, r.path))))
GROUP BY 1, 2 ORDER BY 1, 2

-- name: unsettled
SELECT r.total - r.done - r.failed FROM batches b
JOIN rounds r ON r.batch_no = b.no AND r.round = b.round AND r.phase = b.phase
WHERE b.no = %s AND b.stood = 'working'

-- name: tasks_of_files
SELECT task_no FROM tasks WHERE batch_no = %s AND file_no = ANY(%s::bigint[]) AND state <> 'superseded'

-- name: uncount_tasks
UPDATE rounds SET total = rounds.total - gone.total, done = rounds.done - gone.done,
                  failed = rounds.failed - gone.failed, cached = rounds.cached - gone.cached
FROM (SELECT batch_no, round, phase, count(*) AS total, count(*) FILTER (WHERE state = 'done') AS done,
             count(*) FILTER (WHERE state = 'failed') AS failed, count(*) FILTER (WHERE cached) AS cached
      FROM tasks WHERE batch_no = %s AND task_no = ANY(%s::bigint[]) GROUP BY batch_no, round, phase) gone
WHERE rounds.batch_no = gone.batch_no AND rounds.round = gone.round AND rounds.phase = gone.phase

-- name: uncount_failures
UPDATE failures SET tasks = failures.tasks - gone.tasks
FROM (SELECT batch_no, coalesce(error_class, '') AS error_class, count(*) AS tasks FROM tasks
      WHERE batch_no = %s AND task_no = ANY(%s::bigint[]) AND state = 'failed' GROUP BY 1, 2) gone
WHERE failures.batch_no = gone.batch_no AND failures.error_class = gone.error_class

-- name: supersede_tasks
UPDATE tasks SET state = 'superseded' WHERE batch_no = %s AND task_no = ANY(%s::bigint[])

-- name: withdraw_files
UPDATE files SET gone = 0 WHERE batch_no = %s AND file_no = ANY(%s::bigint[])

-- name: roots_of_members
-- The inputs of all members of these units.
SELECT DISTINCT f.root_no FROM members m JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
WHERE m.batch_no = %s AND m.unit_no = ANY(%s::bigint[])

-- name: descendants_of
WITH RECURSIVE made (file_no) AS (
  SELECT given.no FROM unnest(%(units)s::bigint[]) AS given (no)
  UNION
  SELECT f.file_no FROM made JOIN files f ON f.batch_no = %(no)s AND f.born > 0 AND f.parent_no = made.file_no
       AND f.gone IS DISTINCT FROM 0
)
SELECT file_no FROM made

-- name: awaits_start
SELECT 1 FROM batches WHERE no = %s AND stood = 'queued' FOR UPDATE

-- name: reopen
-- Its message has been taken from the queue meanwhile: one that was on its way starts without it.
UPDATE batches SET stage = CASE stood WHEN 'queued' THEN 'filling' ELSE stood END, stood = NULL,
                   status = CASE stood WHEN 'open' THEN 'OPEN' ELSE %(status)s END, error = NULL, completed_at = NULL,
                   updated_at = %(now)s,
                   started_at = coalesce(started_at, CASE stood WHEN 'queued' THEN %(now)s END),
                   phase_retries = 0, rests_until = 0, mover = NULL
WHERE no = %(no)s AND stage IN ('error', 'cancelled') AND stood IS NOT NULL

-- name: list_batches
SELECT * FROM batch_rows
WHERE (%(before)s::bigint IS NULL OR no < %(before)s)
  AND (%(ended)s::boolean IS NULL OR (stage IN ('done', 'error', 'cancelled')) = %(ended)s)
  AND (%(state)s::text IS NULL OR %(state)s =
       CASE WHEN stage IN ('done', 'error', 'cancelled') THEN stage WHEN hold = 'budget' THEN 'held'
            WHEN hold IS NOT NULL THEN 'paused' WHEN stage = 'open' THEN 'receiving' WHEN stage = 'queued' THEN 'waiting'
            ELSE 'working' END)
  AND (%(phase)s::text IS NULL OR (status = %(phase)s AND stage NOT IN ('open', 'queued', 'done', 'error', 'cancelled')))
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
ORDER BY no DESC LIMIT %(limit)s

-- name: message
SELECT message FROM batches WHERE no = %s

-- name: phase_counts
SELECT phase, max(name), sum(total)::bigint, sum(done)::bigint, sum(failed)::bigint, sum(cached)::bigint,
       sum(seconds), sum(bytes_in)::bigint, sum(bytes_out)::bigint, sum(tokens_in)::bigint, sum(tokens_out)::bigint,
       sum(money)::bigint
FROM rounds WHERE batch_no = %s GROUP BY phase ORDER BY phase

-- name: failures
SELECT error_class, tasks FROM failures WHERE batch_no = %s AND tasks > 0
ORDER BY tasks DESC, error_class COLLATE "C"

-- name: failed_tasks
SELECT t.task_no, coalesce(r.name, ''), f.path, f.key, coalesce(t.error_class, ''), coalesce(t.error, ''), t.branch
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
LEFT JOIN rounds r ON r.batch_no = t.batch_no AND r.round = t.round AND r.phase = t.phase
WHERE t.batch_no = %s AND t.task_no > %s AND t.state = 'failed' AND t.error_class IS NOT NULL
ORDER BY t.task_no LIMIT %s

-- name: first_failed_tasks
-- In the order of the pipeline and of paths, whatever failed first; of very many those with the lowest numbers.
SELECT t.task_no, coalesce(r.name, ''), f.path, f.key, coalesce(t.error_class, ''), coalesce(t.error, ''), t.branch
FROM (SELECT * FROM tasks WHERE batch_no = %s AND state = 'failed' AND error_class IS NOT NULL
      ORDER BY task_no LIMIT 10000) t
JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
LEFT JOIN rounds r ON r.batch_no = t.batch_no AND r.round = t.round AND r.phase = t.phase
ORDER BY t.phase, f.path COLLATE "C", t.branch, t.task_no LIMIT %s

-- name: failed_paths
SELECT path FROM (
  SELECT path FROM files WHERE batch_no = %(no)s AND outcome = 'failed' AND born = 0 AND path > %(after)s
         AND (%(error_class)s::text IS NULL OR error_class = %(error_class)s)
  UNION
  SELECT path FROM uploads WHERE batch_no = %(no)s AND state = 'failed' AND path > %(after)s
         AND (%(error_class)s::text IS NULL OR error_class = %(error_class)s)
) failed ORDER BY path LIMIT %(limit)s

-- name: uploads_at
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = %s AND path = ANY(%s::text[]) ORDER BY path

-- name: inputs_by_folded
-- The last columns: does the batch's present round have anything to do with it, and, of one that flows, has it walked
-- to its end?
SELECT f.file_no, f.path, f.outcome, f.error_class, f.reason, f.attempts,
       f.round = b.round OR EXISTS (SELECT 1 FROM files d WHERE d.batch_no = f.batch_no AND d.root_no = f.file_no
                                    AND d.born > 0 AND d.role <> 'unit' AND d.round = b.round),
       f.open < 0
FROM batches b JOIN files f ON f.batch_no = b.no
WHERE b.no = %s AND f.born = 0 AND f.folded = ANY(%s::text[])

-- name: made_files
-- Numbers are in order of time where documents move on by themselves, so those count only in batches without lineages.
SELECT root_no, role, key, path, name, size, content_type, digest, cid, source_file, tags, config FROM files
WHERE batch_no = %s AND born > 0 AND root_no = ANY(%s::bigint[]) AND role NOT IN ('unit', 'kept')
  AND gone IS DISTINCT FROM 0
ORDER BY born, CASE lineage WHEN '' THEN '' ELSE path END COLLATE "C", file_no

-- name: root_of_path
SELECT root_no FROM files WHERE batch_no = %s AND folded = ANY(%s::text[]) AND path = %s AND role <> 'unit'
ORDER BY born, file_no LIMIT 1

-- name: story_files
SELECT file_no, path, role, born, gone, listed, key, size, content_type, tags FROM files
WHERE batch_no = %(no)s AND (file_no = %(root)s OR (root_no = %(root)s AND born > 0 AND role <> 'unit'))
ORDER BY born, CASE lineage WHEN '' THEN '' ELSE path END COLLATE "C", file_no

-- name: story_attempts
-- On the input, on what was made of it, and on the units that any of those belong to. The numbers of tasks of a batch
-- that flows begin with the phase, and go on in order of time: there path and branch count. Its tasks run again in
-- their own rows, so the round of an attempt follows from the retries before it.
WITH theirs AS (
  SELECT file_no FROM files
  WHERE batch_no = %(no)s AND (file_no = %(root)s OR (root_no = %(root)s AND born > 0 AND role <> 'unit'))
), mine AS (
  SELECT file_no FROM theirs
  UNION
  SELECT m.unit_no FROM theirs JOIN members m ON m.batch_no = %(no)s AND m.file_no = theirs.file_no
), work AS (
  SELECT t.*, f.path FROM mine JOIN files f ON f.batch_no = %(no)s AND f.file_no = mine.file_no
  JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = mine.file_no
)
SELECT name, round + CASE WHEN task_no >> 40 = 0 THEN 0 ELSE
         (SELECT count(*) FROM events e WHERE e.batch_no = %(no)s AND e.type = 'batch_retried' AND e.at <= found.started_at) END,
       task_no, attempt, state, outcome, worker, started_at, seconds, path, error_class, error, branch FROM (
SELECT coalesce(r.name, '') AS name, w.round, w.task_no, a.attempt, w.state, a.outcome, a.worker, a.started_at,
       a.seconds, w.path, coalesce(a.error_class, '') AS error_class, coalesce(a.error, '') AS error, w.branch,
       CASE WHEN w.task_no >> 40 = 0 AND (SELECT plan_digest FROM batches WHERE no = %(no)s) = '' THEN w.task_no ELSE w.phase END AS place
FROM work w JOIN attempts a ON a.batch_no = %(no)s AND a.task_no = w.task_no
LEFT JOIN rounds r ON r.batch_no = %(no)s AND r.round = w.round AND r.phase = w.phase
UNION
SELECT coalesce(r.name, ''), w.round, w.task_no, w.attempt, w.state, coalesce(w.outcome, ''), coalesce(w.worker, ''),
       w.started_at, coalesce(w.seconds, 0), w.path, coalesce(w.error_class, ''), coalesce(w.error, ''), w.branch,
       CASE WHEN w.task_no >> 40 = 0 AND (SELECT plan_digest FROM batches WHERE no = %(no)s) = '' THEN w.task_no ELSE w.phase END
FROM work w LEFT JOIN rounds r ON r.batch_no = %(no)s AND r.round = w.round AND r.phase = w.phase
WHERE w.attempt > 0 AND (w.state = 'running' OR w.outcome IS NOT NULL)) found
ORDER BY place,
         CASE WHEN task_no >> 40 = 0 THEN '' ELSE path END COLLATE "C", branch, task_no, attempt, outcome DESC

-- name: steps_of_inputs
-- Settled tasks on these inputs, on what was made of them, and on the units that any of those belong to; also failed
-- ones on folders without members that an input stands for.
WITH theirs AS (
  SELECT unnest(%(roots)s::bigint[]) AS root_no, unnest(%(roots)s::bigint[]) AS file_no
  UNION
  SELECT root_no, file_no FROM files
  WHERE batch_no = %(no)s AND root_no = ANY(%(roots)s::bigint[]) AND born > 0 AND role <> 'unit'
), mine AS (
  SELECT root_no, file_no FROM theirs
  UNION
  SELECT theirs.root_no, m.unit_no FROM theirs
  JOIN members m ON m.batch_no = %(no)s AND m.file_no = theirs.file_no
  UNION
  SELECT u.root_no, u.file_no FROM files u
  JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = u.file_no AND t.state = 'failed'
  WHERE u.batch_no = %(no)s AND u.root_no = ANY(%(roots)s::bigint[]) AND u.born > 0 AND u.role = 'unit'
)
SELECT mine.root_no, t.phase, t.branch, coalesce(r.name, ''), t.state, coalesce(t.error_class, ''), coalesce(t.error, '')
FROM mine JOIN files f ON f.batch_no = %(no)s AND f.file_no = mine.file_no
JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = mine.file_no
LEFT JOIN rounds r ON r.batch_no = %(no)s AND r.round = t.round AND r.phase = t.phase
WHERE t.state IN ('done', 'failed')
ORDER BY t.phase, t.branch, f.path COLLATE "C", t.task_no

-- name: strays
SELECT task_no, attempt, outcome, worker, received_at, kind FROM strays WHERE batch_no = %s ORDER BY no LIMIT %s

-- name: batch_events
SELECT no, at, type, data FROM events WHERE batch_no = %s AND no > %s ORDER BY no LIMIT %s

-- name: insert_event
-- With its deliveries; where there are no hooks it looks once into an empty index. Who sends is woken. What
-- concerns no batch (number 0) is for the audit trail alone.
WITH noted AS (
  INSERT INTO events (batch_no, at, type, data) VALUES (%s, %s, %s, %s) RETURNING no, batch_no, at, type
), told AS (
  INSERT INTO deliveries (id, hook_no, batch_no, event_no, next_at, created_at)
  SELECT 'msg_' || e.no || '_' || h.id, h.no, e.batch_no, e.no, e.at, e.at
  FROM noted e JOIN hooks h ON h.disabled_at IS NULL AND (h.batch_no = e.batch_no OR h.batch_no IS NULL)
                           AND e.batch_no <> 0
                           AND (h.kinds = '{}' OR e.type = ANY (h.kinds))
  RETURNING no
)
SELECT pg_notify('quire', '') FROM (SELECT no FROM told LIMIT 1) one

-- Which files have these bytes: of each key the newest. Reads all files, for repairs.
-- name: blob_uses
SELECT DISTINCT ON (f.digest, f.key) f.digest, f.key, f.size, b.id, f.path, f.born = 0
FROM files f JOIN batches b ON b.no = f.batch_no
WHERE f.digest = ANY(%(digests)s::text[])
ORDER BY f.digest, f.key, f.batch_no DESC LIMIT %(limit)s
