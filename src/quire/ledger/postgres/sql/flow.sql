-- Batches whose documents move on by themselves. A task's number begins with its phase (shifted by 40 bits), so the
-- tasks of a phase are one range of the primary key. Whoever changes one of them holds the batch's row first, by a
-- statement of its own: what the next statement reads was committed before.

-- name: flow_begin
-- The inputs have the numbers of their entries in the manifest; what is made beside the intake comes after all of them.
UPDATE batches SET stage = 'flowing', phase = 1, cursor = 0, sources = 1, wants_move = true, waits_at = %s,
                   updated_at = %s, last_file = greatest(last_file, total_files)
WHERE no = %s AND stage = 'filling' AND cursor = 0

-- name: flow_open_phases
INSERT INTO rounds (batch_no, round, phase, name, first_task, dispatch_at)
SELECT %s, 1, given.phase, given.name, 0, given.starts
FROM unnest(%s::bigint[], %s::text[], %s::double precision[]) AS given (phase, name, starts)
ON CONFLICT DO NOTHING

-- name: flow_plan
SELECT plan FROM batches WHERE no = %s

-- name: flow_hold
SELECT stage, round, phase, status, last_file, sources, open_tasks, waits_at, gathers, wants_move, manifest_key IS NOT NULL,
       coalesce(budget_seconds, budget_tokens, budget_money) IS NOT NULL
FROM batches WHERE no = %s FOR UPDATE

-- name: flow_rounds
SELECT phase, name, total - done - failed, last_task, next_task <= last_task
FROM rounds WHERE batch_no = %s AND round = 1 ORDER BY phase

-- name: flow_next_join
-- The first phase with a document whose branches have all settled.
SELECT phase FROM joins WHERE batch_no = %s AND "left" <= 0 AND NOT resolved ORDER BY "left", phase LIMIT 1

-- name: flow_progress
UPDATE batches SET open_tasks = %s, last_file = %s, updated_at = %s, phase = %s, status = %s, wants_move = %s, stage = %s
WHERE no = %s

-- name: flow_rest
UPDATE batches SET mover = NULL WHERE no = %s AND mover = %s

-- name: flow_admit
-- The compare-and-swap of the intake: as many entries read as before, nobody else's.
UPDATE batches SET cursor = %(cursor)s, admitted = %(admitted)s, admissible = %(admissible)s,
                   last_file = greatest(last_file, %(cursor)s), updated_at = %(now)s,
                   sources = CASE WHEN %(complete)s THEN 0 ELSE sources END, phase_retries = 0, rests_until = 0
WHERE no = %(no)s AND stage = 'flowing' AND cursor = %(at_cursor)s AND admitted = %(at_admitted)s AND gathers = 0
  AND sources > 0

-- name: flow_insert_files
INSERT INTO files (batch_no, file_no, root_no, born, listed, role, path, folded, name, key, size, content_type,
                   digest, cid, source_file, tags, config, parent_no, lineage)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[], %s::text[], %s::text[],
                     %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
                     %s::text[], %s::text[], %s::bigint[], %s::text[])

-- name: flow_insert_tasks
INSERT INTO tasks (batch_no, task_no, phase, file_no, branch, tries, given)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])

-- name: flow_insert_joins
INSERT INTO joins (batch_no, phase, file_no, "left")
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
ON CONFLICT (batch_no, phase, file_no) DO UPDATE SET "left" = excluded."left", resolved = false

-- name: flow_count_new
UPDATE rounds SET total = total + given.tasks, last_task = last_task + given.tasks
FROM unnest(%s::bigint[], %s::bigint[]) AS given (phase, tasks)
WHERE batch_no = %s AND round = 1 AND rounds.phase = given.phase

-- name: flow_leave_list
UPDATE files SET gone = given.phase FROM unnest(%s::bigint[], %s::bigint[]) AS given (phase, file_no)
WHERE batch_no = %s AND files.file_no = given.file_no

-- name: flow_walks
-- Inputs some of whose documents have ended their walk, or that have more of them on their way now.
UPDATE files f SET attempts = f.attempts + given.tries, open = f.open + given.more,
                   outcome = CASE WHEN f.outcome IS NOT NULL AND f.outcome <> 'done' THEN f.outcome
                                  WHEN f.open + given.more < 0 THEN 'done' END
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given (file_no, tries, more)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: flow_fail_roots
-- Of several failures the one that comes first in the pipeline is told, whichever was first in time.
UPDATE files f SET outcome = 'failed', error_class = given.error_class, reason = given.reason, failed_at = given.place
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) AS given (file_no, error_class, reason, place)
WHERE f.batch_no = %s AND f.file_no = given.file_no
  AND (f.outcome IS DISTINCT FROM 'failed' OR coalesce(f.failed_at, '') > given.place)

-- name: flow_fail_members
WITH given AS (
  SELECT DISTINCT ON (f.root_no) f.root_no, given.*
  FROM unnest(%(units)s::bigint[], %(classes)s::text[], %(reasons)s::text[], %(places)s::text[])
       AS given (unit_no, error_class, reason, place)
  JOIN members m ON m.batch_no = %(no)s AND m.unit_no = given.unit_no
  JOIN files f ON f.batch_no = %(no)s AND f.file_no = m.file_no
  ORDER BY f.root_no, given.place COLLATE "C"
)
UPDATE files f SET outcome = 'failed', error_class = given.error_class, reason = given.reason, failed_at = given.place
FROM given WHERE f.batch_no = %(no)s AND f.file_no = given.root_no
  AND (f.outcome IS DISTINCT FROM 'failed' OR coalesce(f.failed_at, '') > given.place)

-- name: flow_count_settled
UPDATE rounds SET done = rounds.done + given.done, failed = rounds.failed + given.failed, cached = rounds.cached + given.cached,
                  seconds = rounds.seconds + given.seconds, bytes_in = rounds.bytes_in + given.bytes_in,
                  bytes_out = rounds.bytes_out + given.bytes_out, tokens_in = rounds.tokens_in + given.tokens_in,
                  tokens_out = rounds.tokens_out + given.tokens_out, money = rounds.money + given.money
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::double precision[], %s::bigint[], %s::bigint[],
            %s::bigint[], %s::bigint[], %s::bigint[])
     AS given (phase, done, failed, cached, seconds, bytes_in, bytes_out, tokens_in, tokens_out, money)
WHERE batch_no = %s AND round = 1 AND rounds.phase = given.phase

-- name: flow_settle_successes
-- The fence of successes that bring nothing but themselves. The answer is one row of NULL when all counted, so that
-- nothing travels then; otherwise the attempts that did.
WITH settled AS (
  UPDATE tasks t
  SET state = 'done', due_at = NULL, cached = false, result = NULL, error_class = NULL, error = NULL, outcome = 'done',
      worker = given.worker, started_at = given.started_at, seconds = given.seconds, cost = NULL
  FROM unnest(%(tasks)s::bigint[], %(attempts)s::bigint[], %(workers)s::text[], %(starts)s::double precision[],
              %(seconds)s::double precision[]) AS given (task_no, attempt, worker, started_at, seconds)
  WHERE t.batch_no = %(no)s AND t.task_no = given.task_no AND t.attempt = given.attempt
    AND t.state IN ('running', 'external') AND EXISTS (SELECT 1 FROM batches WHERE no = %(no)s AND stage = 'flowing')
  RETURNING t.task_no, t.attempt
), counted AS (
  SELECT count(*) AS total FROM settled
)
SELECT task_no, attempt FROM settled, counted WHERE total < cardinality(%(tasks)s::bigint[])
UNION ALL
SELECT NULL, NULL FROM counted WHERE total = cardinality(%(tasks)s::bigint[])

-- name: flow_settle_results
-- The same for successes with a result, or from the step cache.
WITH settled AS (
  UPDATE tasks t
  SET state = 'done', due_at = NULL, cached = given.cached, result = given.result, error_class = NULL, error = NULL,
      outcome = 'done', worker = given.worker, started_at = given.started_at, seconds = given.seconds, cost = given.cost
  FROM unnest(%(tasks)s::bigint[], %(attempts)s::bigint[], %(workers)s::text[], %(starts)s::double precision[],
              %(seconds)s::double precision[], %(cached)s::boolean[], %(results)s::bytea[], %(costs)s::bytea[])
       AS given (task_no, attempt, worker, started_at, seconds, cached, result, cost)
  WHERE t.batch_no = %(no)s AND t.task_no = given.task_no AND t.attempt = given.attempt
    AND t.state IN ('running', 'external') AND EXISTS (SELECT 1 FROM batches WHERE no = %(no)s AND stage = 'flowing')
  RETURNING t.task_no, t.attempt
), counted AS (
  SELECT count(*) AS total FROM settled
)
SELECT task_no, attempt FROM settled, counted WHERE total < cardinality(%(tasks)s::bigint[])
UNION ALL
SELECT NULL, NULL FROM counted WHERE total = cardinality(%(tasks)s::bigint[])

-- name: flow_settle_others
-- The same for failures, and for requests to somebody outside: the attempts that counted.
UPDATE tasks t
SET state = given.state, due_at = given.due_at, failures = t.failures + given.blamed::int,
    interruptions = t.interruptions + given.interrupted::int, cached = given.cached, result = given.result,
    error_class = given.error_class, error = given.error, outcome = given.outcome, worker = given.worker,
    started_at = given.started_at, seconds = given.seconds, cost = given.cost
FROM unnest(%s::text[], %s::double precision[], %s::boolean[], %s::boolean[], %s::boolean[], %s::bytea[],
            %s::text[], %s::text[], %s::text[], %s::text[], %s::double precision[], %s::double precision[],
            %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[])
     AS given (state, due_at, blamed, interrupted, cached, result, error_class, error, outcome, worker, started_at,
               seconds, cost, batch_no, task_no, attempt)
WHERE t.batch_no = given.batch_no AND t.task_no = given.task_no AND t.attempt = given.attempt
  AND (t.state = 'running' OR (t.state = 'external' AND given.state <> 'external'))
  AND EXISTS (SELECT 1 FROM batches WHERE no = %s AND stage = 'flowing')
RETURNING t.task_no, t.attempt

-- name: flow_settle_joins
UPDATE joins SET "left" = joins."left" - given.branches
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given (phase, file_no, branches)
WHERE batch_no = %s AND joins.phase = given.phase AND joins.file_no = given.file_no
RETURNING joins.phase, joins."left"

-- name: flow_unblock
-- The tasks of the folders above these.
UPDATE tasks t SET waits_for = t.waits_for - below.settled,
                   state = CASE WHEN t.state = 'blocked' AND t.waits_for <= below.settled THEN 'waiting' ELSE t.state END,
                   due_at = CASE WHEN t.state = 'blocked' AND t.waits_for <= below.settled THEN 0 ELSE t.due_at END
FROM (SELECT blocks, count(*) AS settled FROM tasks WHERE batch_no = %(no)s AND task_no = ANY(%(tasks)s::bigint[])
      AND blocks IS NOT NULL GROUP BY blocks) below
WHERE t.batch_no = %(no)s AND t.task_no = below.blocks

-- name: flow_late_success
-- Given up for lost time, but it has arrived and nobody else is at it. Its failure is kept in the history: both parts
-- see the row as it was.
WITH kept AS (
  INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error, cost)
  SELECT batch_no, task_no, attempt, outcome, coalesce(worker, ''), coalesce(started_at, 0), coalesce(seconds, 0),
         error_class, error, cost
  FROM tasks WHERE batch_no = %(no)s AND task_no = %(task_no)s AND attempt = %(attempt)s AND state = %(state)s
    AND outcome = 'timed_out'
  ON CONFLICT DO NOTHING
)
UPDATE tasks
SET state = 'done', due_at = NULL, result = %(result)s, error_class = NULL, error = NULL, outcome = 'done',
    worker = %(worker)s, seconds = %(seconds)s, cost = %(cost)s
WHERE batch_no = %(no)s AND task_no = %(task_no)s AND attempt = %(attempt)s AND state = %(state)s
  AND outcome = 'timed_out'

-- name: flow_late_followers
-- What a document that was given up has to do next, unless somebody has begun with it.
SELECT task_no, state, phase FROM tasks WHERE batch_no = %s AND file_no = %s AND phase > %s AND state <> 'superseded'

-- name: flow_failed_beside
-- Whether something else has failed of an input: another task of it, or a unit that it belongs to; and whether units
-- were made of its list since.
WITH theirs AS (
  SELECT %(root)s::bigint AS file_no UNION ALL
  SELECT file_no FROM files WHERE batch_no = %(no)s AND root_no = %(root)s AND born > 0 AND role <> 'unit'
), about AS (
  SELECT file_no FROM theirs UNION ALL
  SELECT m.unit_no FROM theirs JOIN members m ON m.batch_no = %(no)s AND m.file_no = theirs.file_no
)
SELECT EXISTS (SELECT 1 FROM about JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = about.file_no
               WHERE t.state = 'failed' AND t.task_no <> %(task_no)s)
    OR EXISTS (SELECT 1 FROM files WHERE batch_no = %(no)s AND born > %(phase)s AND role = 'unit' AND gone IS NULL)
    OR EXISTS (SELECT 1 FROM batches WHERE no = %(no)s AND gathers > 0 AND waits_at > %(phase)s)

-- name: flow_awaits_branches
SELECT 1 FROM joins WHERE batch_no = %s AND phase = %s AND file_no = %s AND "left" > 0 AND NOT resolved

-- name: flow_unsettle_branch
-- While other branches of the document are not settled: nobody has put their results together yet.
UPDATE joins SET "left" = "left" + 1 WHERE batch_no = %s AND phase = %s AND file_no = %s

-- name: flow_drop_joins
DELETE FROM joins WHERE batch_no = %s AND phase = ANY(%s::bigint[]) AND file_no = %s AND NOT resolved

-- name: flow_unfail_root
-- On its way again, as before the failure: `tries` were counted when its walk ended there, or not at all.
UPDATE files SET outcome = NULL, error_class = NULL, reason = NULL, failed_at = NULL, open = open + %s,
                 attempts = attempts - %s
WHERE batch_no = %s AND file_no = %s

-- name: flow_count_open
UPDATE batches SET open_tasks = open_tasks + %s WHERE no = %s

-- name: flow_workable
SELECT b.*, fresh.phases, fresh.tasks, due.phases
FROM batch_rows b JOIN batches own ON own.no = b.no LEFT JOIN alarms a ON a.batch_no = b.no,
LATERAL (SELECT array_agg(r.phase) AS phases, array_agg(r.last_task - r.next_task + 1) AS tasks
         FROM rounds r WHERE r.batch_no = b.no AND r.round = 1 AND r.next_task <= r.last_task
           AND r.dispatch_at <= %(now)s) fresh,
LATERAL (SELECT array_agg(DISTINCT phase) AS phases FROM (
           SELECT t.phase FROM tasks t JOIN rounds r ON r.batch_no = t.batch_no AND r.round = 1 AND r.phase = t.phase
           WHERE a.due_at <= %(now)s AND t.batch_no = b.no AND t.state = 'waiting' AND t.due_at <= %(now)s
             AND r.dispatch_at <= %(now)s LIMIT 200) waiting) due
WHERE own.stage = 'flowing' AND own.hold IS NULL
  AND (%(only)s::bigint[] IS NULL OR own.no = ANY(%(only)s::bigint[]))
  AND (%(pipelines)s::text[] IS NULL OR EXISTS (
         SELECT 1 FROM unnest(%(pipelines)s::text[], %(versions)s::bigint[], %(digests)s::text[]) AS known (name, version, digest)
         WHERE known.name = own.pipeline AND known.version = own.pipeline_version
           AND known.digest IN ('', own.plan_digest)))
  AND (a.due_at <= %(now)s OR fresh.phases IS NOT NULL)
ORDER BY CASE WHEN %(ageing)s <= 0 THEN greatest(1, own.tier)
              WHEN greatest(0, %(now)s - own.served_at) >= %(ageing)s * (own.tier - 1) THEN 1
              ELSE own.tier - floor(greatest(0, %(now)s - own.served_at) / %(ageing)s) END,
         own.served_at, own.no LIMIT %(limit)s

-- name: flow_claimable
SELECT r.next_task, r.last_task, (SELECT due_at FROM alarms WHERE batch_no = b.no)
FROM batches b JOIN rounds r ON r.batch_no = b.no AND r.round = 1 AND r.phase = %(phase)s
WHERE b.no = %(no)s AND b.stage = 'flowing' AND b.hold IS NULL AND r.dispatch_at <= %(now)s

-- name: flow_begin_waiting
-- The attempts before these leave their tasks' rows for the history. MATERIALIZED: the limited choice must be made once.
WITH due AS MATERIALIZED (
  SELECT * FROM tasks
  WHERE batch_no = %(no)s AND state = 'waiting' AND due_at <= %(now)s AND task_no >= %(first)s AND task_no < %(end)s
  ORDER BY due_at, task_no LIMIT %(limit)s
), kept AS (
  INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error, cost)
  SELECT batch_no, task_no, attempt, outcome, coalesce(worker, ''), coalesce(started_at, 0), coalesce(seconds, 0),
         error_class, error, cost
  FROM due WHERE outcome IS NOT NULL ON CONFLICT DO NOTHING
), begun AS (
  UPDATE tasks t
  SET state = 'running', attempt = t.attempt + 1, started_at = %(now)s, member = %(member)s, due_at = NULL,
      outcome = NULL, worker = NULL, seconds = NULL, error_class = NULL, error = NULL, cost = NULL
  FROM due WHERE t.batch_no = %(no)s AND t.task_no = due.task_no
  RETURNING t.task_no, t.attempt, t.failures, t.interruptions, t.started_at, t.branch, t.file_no, t.tries, t.given,
            due.due_at
)
SELECT task_no, attempt, failures, interruptions, started_at, branch, file_no, tries, given
FROM begun ORDER BY due_at, task_no

-- name: flow_begin_fresh
WITH begun AS (
  UPDATE tasks SET state = 'running', attempt = 1, started_at = %(now)s, member = %(member)s
  WHERE batch_no = %(no)s AND task_no >= %(first)s AND task_no < %(end)s AND state = 'ready'
  RETURNING task_no, attempt, failures, interruptions, started_at, branch, file_no, tries, given
)
SELECT * FROM begun ORDER BY task_no

-- name: flow_documents
SELECT file_no, root_no, lineage, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = %s AND file_no = ANY(%s::bigint[])

-- name: flow_claimed
UPDATE rounds SET next_task = %s, dispatch_at = %s WHERE batch_no = %s AND round = 1 AND phase = %s

-- name: flow_served
UPDATE batches SET served_at = %s WHERE no = %s

-- name: flow_due_alarm
INSERT INTO alarms (batch_no, due_at)
SELECT batch_no, due_at FROM tasks
WHERE batch_no = %s AND due_at IS NOT NULL AND state IN ('waiting', 'external') ORDER BY due_at LIMIT 1
ON CONFLICT (batch_no) DO UPDATE SET due_at = least(alarms.due_at, excluded.due_at)

-- name: flow_tasks
SELECT t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = %s AND t.task_no = ANY(%s::bigint[])

-- name: flow_overdue
-- Tasks whose answer from outside did not come in time. The alarm of a batch is not later than its first deadline.
SELECT t.batch_no, coalesce(t.error, ''), t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM alarms a JOIN batches b ON b.no = a.batch_no AND b.stage = 'flowing'
JOIN tasks t ON t.batch_no = b.no AND t.state = 'external' AND t.due_at <= %(now)s
JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE a.due_at <= %(now)s AND (%(only)s::bigint[] IS NULL OR b.no = ANY(%(only)s::bigint[])) LIMIT %(limit)s

-- name: flow_note_answer
UPDATE tasks SET error = %s WHERE batch_no = %s AND task_no = %s AND attempt = %s AND state = 'external'
  AND (SELECT stage FROM batches WHERE no = tasks.batch_no) = 'flowing'

-- name: flow_give_back
-- Due at once. Numbers of attempts never go back; this one does not count as a try.
UPDATE tasks t SET state = 'waiting', due_at = 0, tries = t.tries - 1
FROM unnest(%s::bigint[], %s::bigint[]) AS given (task_no, attempt)
WHERE t.batch_no = %s AND t.task_no = given.task_no AND t.attempt = given.attempt AND t.state = 'running'

-- name: flow_complete_joins
SELECT j.phase, j.file_no, f.root_no, f.lineage,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM joins j JOIN files f ON f.batch_no = j.batch_no AND f.file_no = j.file_no
WHERE j.batch_no = %s AND j."left" <= 0 AND NOT j.resolved ORDER BY j."left", j.phase, j.file_no LIMIT %s

-- name: flow_branches
SELECT t.phase, t.file_no, t.branch, t.state, CASE WHEN t.cached THEN t.attempt - 1 ELSE t.attempt END, t.result,
       coalesce(t.error_class, ''), coalesce(t.error, ''), t.tries, t.given
FROM unnest(%s::bigint[], %s::bigint[]) AS given (phase, file_no)
JOIN tasks t ON t.batch_no = %s AND t.file_no = given.file_no AND t.phase = given.phase
WHERE t.state IN ('done', 'failed') ORDER BY t.branch, t.task_no

-- name: flow_resolve_joins
UPDATE joins SET resolved = true FROM unnest(%(phases)s::bigint[], %(files)s::bigint[]) AS given (phase, file_no)
WHERE batch_no = %(no)s AND joins.phase = given.phase AND joins.file_no = given.file_no AND "left" <= 0 AND NOT resolved
  AND EXISTS (SELECT 1 FROM batches WHERE no = %(no)s AND stage = 'flowing')
RETURNING joins.phase, joins.file_no

-- name: flow_doubt_branches
UPDATE tasks t SET state = 'failed', error_class = given.error_class, error = given.error
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[])
     AS given (phase, file_no, branch, error_class, error)
WHERE t.batch_no = %s AND t.file_no = given.file_no AND t.phase = given.phase AND t.branch = given.branch
  AND t.state = 'done'

-- name: flow_listed_files
SELECT file_no, folded, born, root_no, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = %s AND folded = ANY(%s::text[]) AND role <> 'unit' AND gone IS DISTINCT FROM 0
ORDER BY file_no

-- name: flow_twin_folders
-- An input in a folder that is spelled otherwise, though it folds alike. '0' follows '/'; the top has no twin.
SELECT wanted.path, twin.path FROM unnest(%s::text[], %s::text[]) AS wanted (folded, path)
CROSS JOIN LATERAL (SELECT f.path FROM files f
                    WHERE f.batch_no = %s AND wanted.folded <> '' AND f.folded >= wanted.folded || '/'
                      AND f.folded < wanted.folded || '0' AND f.born = 0
                      AND left(f.path, length(wanted.path) + 1) <> wanted.path || '/' LIMIT 1) twin

-- name: flow_listed_folders
-- '0' follows '/'.
SELECT wanted.path FROM unnest(%s::text[]) AS wanted (path)
WHERE EXISTS (SELECT 1 FROM files WHERE batch_no = %s AND folded >= wanted.path
              AND folded < left(wanted.path, -1) || '0' AND born = 0)

-- name: flow_begin_gather
UPDATE batches SET gathers = 1, sources = sources + 1, cursor = 0, wants_move = true
WHERE no = %s AND stage = 'flowing' AND gathers = 0 AND sources = 0 AND waits_at = %s

-- name: flow_gather
UPDATE batches SET cursor = %(cursor)s, updated_at = %(now)s, phase_retries = 0, rests_until = 0
WHERE no = %(no)s AND stage = 'flowing' AND gathers = %(gathers)s AND waits_at = %(phase)s AND round = %(round)s
  AND cursor = %(at_cursor)s
RETURNING last_file

-- name: flow_found_units
UPDATE batches SET last_file = %(last_file)s, gathers = CASE WHEN %(complete)s THEN 2 ELSE gathers END,
                   cursor = CASE WHEN %(complete)s THEN 0 ELSE cursor END
WHERE no = %(no)s

-- name: flow_end_gather
UPDATE batches SET gathers = 0, sources = sources - 1, cursor = 0, waits_at = %(waits_at)s, updated_at = %(now)s
WHERE no = %(no)s AND stage = 'flowing' AND gathers = %(gathers)s AND waits_at = %(phase)s AND round = %(round)s
  AND cursor = %(at_cursor)s

-- name: flow_seen_by
-- The list as a phase sees it.
SELECT file_no, root_no, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = %(no)s AND file_no > %(after)s AND listed AND role <> 'unit' AND born < %(phase)s
  AND (gone IS NULL OR (gone >= %(phase)s AND gone > 0))
ORDER BY file_no LIMIT %(limit)s

-- name: flow_tasks_behind
SELECT f.file_no, true, t.phase, t.branch, t.state, t.result, f.role, f.lineage
FROM files f JOIN tasks t ON t.batch_no = f.batch_no AND t.file_no = f.file_no
WHERE f.batch_no = %(no)s AND f.file_no = ANY(%(files)s::bigint[]) AND t.state = 'failed'
UNION ALL
SELECT f.file_no, false, t.phase, t.branch, t.state, t.result, f.role, f.lineage
FROM files f JOIN tasks t ON t.batch_no = f.batch_no AND t.file_no = f.parent_no AND t.phase = f.born
WHERE f.batch_no = %(no)s AND f.file_no = ANY(%(files)s::bigint[]) AND t.state IN ('done', 'failed')

-- name: flow_units
-- All rows of a batch that flows are of round 1: with that, they are in the index by number.
SELECT file_no, path FROM files
WHERE batch_no = %s AND file_no > %s AND role = 'unit' AND gone IS NULL AND round = 1 AND born = %s ORDER BY file_no LIMIT %s

-- name: flow_unit_numbers
SELECT path, file_no FROM files
WHERE batch_no = %s AND folded = ANY(%s::text[]) AND role = 'unit' AND gone IS NULL AND born = %s

-- name: flow_child_counts
-- Units right below each of these: by path, as folders that differ in case are two.
SELECT u.file_no, count(*)
FROM files u JOIN files c ON c.batch_no = u.batch_no AND c.role = 'unit' AND c.gone IS NULL AND c.born = %(phase)s
     AND c.folded > u.folded
     AND (u.folded = '' OR (c.folded >= u.folded || '/' AND c.folded < u.folded || '0'))
     AND (u.path = '' OR left(c.path, length(u.path) + 1) = u.path || '/')
     AND strpos(substr(c.path, CASE WHEN u.path <> '' THEN length(u.path) + 2 WHEN left(c.path, 1) = '/' THEN 2 ELSE 1 END), '/') = 0
WHERE u.batch_no = %(no)s AND u.file_no = ANY(%(units)s::bigint[]) GROUP BY u.file_no

-- name: flow_values_of
-- The results of earlier phases on documents, and on what they were made of up to the phase that made them.
WITH RECURSIVE line (start_no, file_no, before, generation) AS (
  SELECT given.no, given.no, %(phase)s::bigint, 0 FROM unnest(%(files)s::bigint[]) AS given (no)
  UNION ALL
  SELECT line.start_no, f.parent_no, least(line.before, f.born + 1)::bigint, line.generation + 1
  FROM line JOIN files f ON f.batch_no = %(no)s AND f.file_no = line.file_no
  WHERE f.parent_no IS NOT NULL
)
SELECT line.start_no, t.phase, t.branch, t.result
FROM line JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = line.file_no
WHERE t.state = 'done' AND t.result IS NOT NULL AND t.phase < line.before
ORDER BY line.start_no, t.phase, line.generation DESC, t.branch

-- name: flow_nearest_root
-- Of a folder without members: the first member of the nearest folder below that has one.
SELECT f.root_no
FROM (SELECT u.file_no FROM files u
      WHERE u.batch_no = %(no)s AND u.role = 'unit' AND u.gone IS NULL AND u.born = %(phase)s
        AND (%(folded)s = '' OR (u.folded >= %(folded)s || '/' AND u.folded < %(folded)s || '0'))
        AND (%(path)s = '' OR left(u.path, length(%(path)s) + 1) = %(path)s || '/') AND u.path <> %(path)s
        AND EXISTS (SELECT 1 FROM members m WHERE m.batch_no = %(no)s AND m.unit_no = u.file_no)
      ORDER BY length(u.path) - length(replace(u.path, '/', '')), u.path LIMIT 1) nearest
JOIN members m ON m.batch_no = %(no)s AND m.unit_no = nearest.file_no
JOIN files f ON f.batch_no = %(no)s AND f.file_no = m.file_no
ORDER BY f.path, f.file_no LIMIT 1

-- name: flow_insert_unit_tasks
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, due_at, waits_for, blocks, given)
SELECT %s, one.task_no, %s, one.file_no, CASE WHEN one.waits_for > 0 THEN 'blocked' ELSE 'waiting' END,
       CASE WHEN one.waits_for > 0 THEN NULL ELSE 0 END, one.waits_for, one.blocks, one.given
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
     AS one (task_no, file_no, waits_for, blocks, given)

-- name: flow_fill_units
UPDATE files f SET key = given.key, size = given.size, digest = given.digest, root_no = given.root_no
FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::bigint[]) AS given (file_no, key, size, digest, root_no)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: flow_count_units
UPDATE rounds SET total = total + %s WHERE batch_no = %s AND round = 1 AND phase = %s

-- name: flow_done_members
-- Inputs that no step took by themselves, but that belong to a unit whose task is done.
UPDATE files SET outcome = 'done'
WHERE batch_no = %(no)s AND born = 0 AND outcome IS NULL AND file_no IN (
  SELECT f.root_no FROM files u
  JOIN tasks t ON t.batch_no = u.batch_no AND t.file_no = u.file_no AND t.state = 'done'
  JOIN members m ON m.batch_no = u.batch_no AND m.unit_no = u.file_no
  JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
  WHERE u.batch_no = %(no)s AND u.role = 'unit' AND u.gone IS NULL)

-- name: flow_retry_batch
UPDATE batches SET stage = 'flowing', stood = NULL, round = round + 1, phase = %(phase)s, status = %(status)s,
                   completed_at = NULL, error = NULL, sources = 0, gathers = 0, cursor = 0, waits_at = %(waits_at)s,
                   wants_move = true, updated_at = %(now)s, mover = NULL, phase_retries = 0, rests_until = 0,
                   delivered_at = NULL
WHERE no = %(no)s AND stage = 'done' AND round = %(round)s

-- name: flow_made_since
-- What was made of documents at or after a phase, and of that, all the way down.
WITH RECURSIVE made (file_no, root_no) AS (
  SELECT f.file_no, f.root_no
  FROM unnest(%(files)s::bigint[], %(roots)s::bigint[], %(phases)s::bigint[]) AS given (file_no, root_no, phase)
  JOIN files f ON f.batch_no = %(no)s AND f.root_no = given.root_no AND f.born >= given.phase AND f.born > 0
       AND f.parent_no = given.file_no AND f.gone IS DISTINCT FROM 0
  UNION
  SELECT f.file_no, f.root_no FROM made
  JOIN files f ON f.batch_no = %(no)s AND f.root_no = made.root_no AND f.born > 0 AND f.parent_no = made.file_no
       AND f.gone IS DISTINCT FROM 0
)
SELECT file_no FROM made

-- name: flow_tasks_after
SELECT DISTINCT t.task_no FROM unnest(%s::bigint[], %s::bigint[]) AS given (file_no, phase)
JOIN tasks t ON t.batch_no = %s AND t.file_no = given.file_no AND t.phase > given.phase AND t.state <> 'superseded'

-- name: flow_still_failed
SELECT t.task_no, t.file_no, t.phase, f.root_no, coalesce(t.error_class, '')
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = %s AND t.task_no = ANY(%s::bigint[]) AND t.state = 'failed' ORDER BY t.task_no

-- name: flow_back_in_list
UPDATE files f SET gone = NULL FROM unnest(%s::bigint[], %s::bigint[]) AS given (file_no, phase)
WHERE f.batch_no = %s AND f.file_no = given.file_no AND f.gone >= given.phase

-- name: flow_try_again
-- Their attempts so far leave the rows for the history: both parts see the rows as they were.
WITH kept AS (
  INSERT INTO attempts (batch_no, task_no, attempt, outcome, worker, started_at, seconds, error_class, error, cost)
  SELECT batch_no, task_no, attempt, outcome, coalesce(worker, ''), coalesce(started_at, 0), coalesce(seconds, 0),
         error_class, error, cost
  FROM tasks WHERE batch_no = %(no)s AND task_no = ANY(%(tasks)s::bigint[]) AND outcome IS NOT NULL
  ON CONFLICT DO NOTHING
)
UPDATE tasks SET state = 'waiting', due_at = 0, failures = 0, interruptions = 0, tries = -attempt
WHERE batch_no = %(no)s AND task_no = ANY(%(tasks)s::bigint[]) AND state = 'failed'

-- name: flow_rejoin
UPDATE joins SET "left" = joins."left" + given.branches, resolved = false
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given (phase, file_no, branches)
WHERE batch_no = %s AND joins.phase = given.phase AND joins.file_no = given.file_no

-- name: flow_units_from
SELECT file_no FROM files WHERE batch_no = %s AND role = 'unit' AND gone IS NULL AND born >= %s

-- name: flow_recount_open
UPDATE batches SET open_tasks =
  (SELECT coalesce(sum(total - done - failed), 0) FROM rounds WHERE batch_no = %(no)s AND round = 1)
  + (SELECT count(*) FROM joins WHERE batch_no = %(no)s AND NOT resolved)
WHERE no = %(no)s

-- name: flow_failures_of_roots
-- What still speaks against these inputs: failed tasks on their documents, on the units that those belong to, and on
-- folders without members that an input stands for.
WITH theirs AS (
  SELECT unnest(%(roots)s::bigint[]) AS root_no, unnest(%(roots)s::bigint[]) AS file_no
  UNION
  SELECT root_no, file_no FROM files WHERE batch_no = %(no)s AND root_no = ANY(%(roots)s::bigint[]) AND born > 0
), mine AS (
  SELECT root_no, file_no FROM theirs
  UNION
  SELECT theirs.root_no, m.unit_no FROM theirs
  JOIN members m ON m.batch_no = %(no)s AND m.file_no = theirs.file_no
)
SELECT mine.root_no, t.phase, f.path, t.branch, coalesce(t.error_class, ''), coalesce(t.error, '')
FROM mine JOIN files f ON f.batch_no = %(no)s AND f.file_no = mine.file_no
JOIN tasks t ON t.batch_no = %(no)s AND t.file_no = mine.file_no AND t.state = 'failed'

-- name: flow_has_done
SELECT DISTINCT file_no FROM tasks WHERE batch_no = %s AND file_no = ANY(%s::bigint[]) AND state = 'done'

-- name: flow_rejudge
UPDATE files f SET outcome = given.outcome, error_class = given.error_class, reason = given.reason,
                   failed_at = given.place, open = f.open + given.walking
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
     AS given (file_no, outcome, error_class, reason, place, walking)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: flow_reopen_tasks
-- Attempts that were out when it ended belong to nobody any more.
UPDATE tasks SET state = 'waiting', due_at = 0, outcome = 'interrupted', error_class = 'interrupted',
                 error = 'the batch ended while this attempt was running'
WHERE batch_no = %s AND state = 'running'

-- name: flow_reopen
UPDATE batches SET wants_move = true WHERE no = %s

-- name: flow_unsettled
SELECT open_tasks FROM batches WHERE no = %s AND stood = 'flowing'
