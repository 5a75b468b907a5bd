-- Batches whose documents move on by themselves. A task's number begins with its phase (shifted by 40 bits), so the
-- tasks of a phase are one range of the primary key.

-- name: flow_begin
-- The inputs have the numbers of their entries in the manifest; what is made beside the intake comes after all of them.
UPDATE batches SET stage = 'flowing', phase = 1, cursor = 0, sources = 1, wants_move = 1, waits_at = ?1, updated_at = ?2,
                   last_file = max(last_file, total_files)
WHERE no = ?3 AND stage = 'filling' AND cursor = 0

-- name: flow_open_phase
INSERT OR IGNORE INTO rounds (batch_no, round, phase, name, first_task, dispatch_at) VALUES (?, 1, ?, ?, 0, ?)

-- name: flow_batch
SELECT stage, last_file, budget_seconds IS NOT NULL OR budget_tokens IS NOT NULL OR budget_money IS NOT NULL,
       round
FROM batches WHERE no = ?

-- name: flow_cursors
SELECT phase, last_task FROM rounds WHERE batch_no = ? AND round = 1

-- name: flow_admit
-- The compare-and-swap of the intake: as many entries read as before, nobody else's.
UPDATE batches SET cursor = ?1, admitted = ?2, admissible = ?3, last_file = max(last_file, ?1), updated_at = ?4,
                   sources = CASE WHEN ?5 THEN 0 ELSE sources END, phase_retries = 0, rests_until = 0
WHERE no = ?6 AND stage = 'flowing' AND cursor = ?7 AND admitted = ?8 AND gathers = 0 AND sources > 0

-- name: flow_insert_file
INSERT INTO files (batch_no, file_no, root_no, born, listed, role, path, folded, name, key, size, content_type,
                   digest, cid, source_file, tags, config, parent_no, lineage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: flow_insert_task
INSERT INTO tasks (batch_no, task_no, phase, file_no, branch, tries, given) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: flow_insert_tasks
INSERT INTO tasks (batch_no, task_no, phase, file_no, branch, tries)
SELECT ?1, ?2 + key, ?3, value, ?5, ?6 FROM json_each(?4)

-- name: flow_insert_join
INSERT INTO joins (batch_no, phase, file_no, left) VALUES (?, ?, ?, ?)
ON CONFLICT (batch_no, phase, file_no) DO UPDATE SET left = excluded.left, resolved = 0

-- name: flow_count_new
UPDATE rounds SET total = total + ?1, last_task = last_task + ?1 WHERE batch_no = ?2 AND round = 1 AND phase = ?3

-- name: flow_count_open
UPDATE batches SET open_tasks = open_tasks + ?, last_file = ?, updated_at = ? WHERE no = ?

-- name: flow_leave_list
UPDATE files SET gone = ? WHERE batch_no = ? AND file_no = ?

-- name: flow_end_walks
-- Inputs one of whose documents has ended its walk after the same number of tries.
UPDATE files SET attempts = attempts + ?3, open = open - 1,
                 outcome = CASE WHEN outcome IS NULL AND open = 0 THEN 'done' ELSE outcome END
WHERE batch_no = ?1 AND file_no IN (SELECT value FROM json_each(?2))

-- name: flow_end_walk
UPDATE files SET attempts = attempts + ?3, open = open - 1,
                 outcome = CASE WHEN outcome IS NULL AND open = 0 THEN 'done' ELSE outcome END
WHERE batch_no = ?1 AND file_no = ?2

-- name: flow_spread
-- More documents of an input are on their way.
UPDATE files SET open = open + ?3, outcome = CASE WHEN outcome = 'done' THEN NULL ELSE outcome END
WHERE batch_no = ?1 AND file_no = ?2

-- name: flow_fail_root
-- Of several failures the one that comes first in the pipeline is told, whichever was first in time.
UPDATE files SET outcome = 'failed', error_class = ?3, reason = ?4, failed_at = ?5
WHERE batch_no = ?1 AND file_no = ?2 AND (outcome IS NOT 'failed' OR coalesce(failed_at, '') > ?5)

-- name: flow_fail_members
UPDATE files SET outcome = 'failed', error_class = ?3, reason = ?4, failed_at = ?5
WHERE batch_no = ?1 AND (outcome IS NOT 'failed' OR coalesce(failed_at, '') > ?5)
  AND file_no IN (SELECT f.root_no FROM members m CROSS JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
                  WHERE m.batch_no = ?1 AND m.unit_no = ?2)

-- name: flow_count_settled
UPDATE rounds SET done = done + ?, failed = failed + ?, cached = cached + ?,
                  seconds = seconds + ?, bytes_in = bytes_in + ?, bytes_out = bytes_out + ?,
                  tokens_in = tokens_in + ?, tokens_out = tokens_out + ?, money = money + ?
WHERE batch_no = ? AND round = 1 AND phase = ?

-- name: flow_settle_join
UPDATE joins SET left = left - 1 WHERE batch_no = ? AND phase = ? AND file_no = ?

-- name: flow_unblock
UPDATE tasks SET waits_for = waits_for - 1
WHERE batch_no = ?1 AND task_no = (SELECT blocks FROM tasks WHERE batch_no = ?1 AND task_no = ?2)

-- name: flow_release_unblocked
UPDATE tasks SET state = 'waiting', due_at = 0
WHERE batch_no = ?1 AND task_no = (SELECT blocks FROM tasks WHERE batch_no = ?1 AND task_no = ?2)
  AND state = 'blocked' AND waits_for <= 0

-- name: flow_progress
SELECT b.stage, b.round, b.phase, b.sources, b.open_tasks, b.waits_at, b.gathers, b.manifest_key IS NOT NULL,
       (SELECT j.phase FROM joins j INDEXED BY joins_open WHERE j.batch_no = b.no AND j.left <= 0 AND j.resolved = 0
        ORDER BY j.left, j.phase LIMIT 1)
FROM batches b WHERE b.no = ?

-- name: flow_phases
SELECT phase, name, total - done - failed FROM rounds WHERE batch_no = ? AND round = 1 ORDER BY phase

-- name: flow_set_progress
UPDATE batches SET phase = ?1, status = ?2, wants_move = ?3, stage = ?4, updated_at = ?5
WHERE no = ?6 AND stage = 'flowing'

-- name: flow_rest
UPDATE batches SET mover = NULL WHERE no = ? AND mover = ?

-- name: flow_workable
SELECT b.*, (SELECT json_group_array(json_array(r.phase, r.last_task - r.next_task + 1)) FROM rounds r
             WHERE r.batch_no = b.no AND r.round = 1 AND r.next_task <= r.last_task AND r.dispatch_at <= ?1),
       CASE WHEN a.due_at <= ?1 THEN (SELECT json_group_array(DISTINCT due.phase) FROM (
              SELECT t.task_no >> 40 AS phase FROM tasks t INDEXED BY tasks_waiting
              CROSS JOIN rounds r ON r.batch_no = t.batch_no AND r.round = 1 AND r.phase = t.task_no >> 40
              WHERE t.batch_no = b.no AND t.state = 'waiting' AND t.due_at <= ?1 AND r.dispatch_at <= ?1 LIMIT 200) due)
            ELSE '[]' END
FROM batch_rows b LEFT JOIN alarms a ON a.batch_no = b.no
WHERE b.stage = 'flowing' AND b.hold IS NULL
  AND (?2 IS NULL OR b.no IN (SELECT value FROM json_each(?2)))
  AND (?4 IS NULL OR EXISTS (SELECT 1 FROM json_each(?4) k WHERE json_extract(k.value, '$[0]') = b.pipeline
                             AND json_extract(k.value, '$[1]') = b.pipeline_version
                             AND json_extract(k.value, '$[2]') IN ('', (SELECT plan_digest FROM batches WHERE no = b.no))))
  AND (a.due_at <= ?1 OR EXISTS (SELECT 1 FROM rounds r WHERE r.batch_no = b.no AND r.round = 1
                                 AND r.next_task <= r.last_task AND r.dispatch_at <= ?1))
ORDER BY CASE WHEN ?5 <= 0 THEN max(1, b.tier)
              WHEN max(0, ?1 - b.served_at) >= ?5 * (b.tier - 1) THEN 1
              ELSE b.tier - CAST(max(0, ?1 - b.served_at) / ?5 AS INTEGER) END,
         b.served_at, b.no LIMIT ?3

-- name: flow_claimable
SELECT r.next_task, r.last_task, (SELECT due_at FROM alarms WHERE batch_no = b.no)
FROM batches b CROSS JOIN rounds r ON r.batch_no = b.no AND r.round = 1 AND r.phase = ?2
WHERE b.no = ?1 AND b.stage = 'flowing' AND b.hold IS NULL AND r.dispatch_at <= ?3

-- name: flow_due_tasks
SELECT task_no FROM tasks INDEXED BY tasks_waiting
WHERE batch_no = ?1 AND state = 'waiting' AND due_at <= ?2 AND task_no >= ?4 AND task_no < ?5
ORDER BY due_at, task_no LIMIT ?3

-- name: flow_claimed
UPDATE rounds SET next_task = ?, dispatch_at = ? WHERE batch_no = ? AND round = 1 AND phase = ?

-- name: flow_served
UPDATE batches SET served_at = ? WHERE no = ?

-- name: flow_claimed_range
SELECT task_no, attempt, failures, interruptions, started_at, branch, file_no, tries, given
FROM tasks WHERE batch_no = ? AND task_no >= ? AND task_no < ? AND state = 'running' ORDER BY task_no

-- name: flow_documents
SELECT file_no, root_no, lineage, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = ?1 AND file_no IN (SELECT value FROM json_each(?2))

-- name: flow_task
SELECT t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE t.batch_no = ?1 AND t.task_no IN (SELECT value FROM json_each(?2))

-- name: flow_due_alarm
INSERT INTO alarms (batch_no, due_at)
SELECT ?1, min(due_at) FROM (
  SELECT * FROM (SELECT due_at FROM tasks INDEXED BY tasks_waiting WHERE batch_no = ?1 AND state = 'waiting'
                   AND due_at IS NOT NULL ORDER BY due_at LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT due_at FROM tasks INDEXED BY tasks_external WHERE batch_no = ?1 AND state = 'external'
                   AND due_at IS NOT NULL ORDER BY due_at LIMIT 1))
WHERE true HAVING min(due_at) IS NOT NULL
ON CONFLICT (batch_no) DO UPDATE SET due_at = min(due_at, excluded.due_at)

-- name: flow_overdue
-- Tasks whose answer from outside did not come in time. The alarm of a batch is not later than its first deadline.
SELECT t.batch_no, coalesce(t.error, ''), t.task_no, t.attempt, t.failures, t.interruptions, coalesce(t.started_at, 0),
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config,
       t.branch, t.file_no, f.root_no, f.lineage, t.tries, t.given
FROM alarms a CROSS JOIN batches b ON b.no = a.batch_no
CROSS JOIN tasks t INDEXED BY tasks_external ON t.batch_no = b.no AND t.state = 'external' AND t.due_at <= ?1
CROSS JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no
WHERE a.due_at <= ?1 AND b.stage = 'flowing' AND (?3 IS NULL OR b.no IN (SELECT value FROM json_each(?3))) LIMIT ?2

-- name: flow_note_answer
UPDATE tasks SET error = ? WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state = 'external'
  AND (SELECT stage FROM batches WHERE no = tasks.batch_no) = 'flowing'

-- name: flow_complete_joins
SELECT j.phase, j.file_no, f.root_no, f.lineage,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM joins j INDEXED BY joins_open CROSS JOIN files f ON f.batch_no = j.batch_no AND f.file_no = j.file_no
WHERE j.batch_no = ?1 AND j.left <= 0 AND j.resolved = 0 ORDER BY j.phase, j.file_no LIMIT ?2

-- name: flow_branches
SELECT branch, state, CASE WHEN cached THEN attempt - 1 ELSE attempt END, result, coalesce(error_class, ''),
       coalesce(error, ''), tries, given
FROM tasks INDEXED BY tasks_of_file
WHERE batch_no = ? AND file_no = ? AND phase = ? AND state IN ('done', 'failed') ORDER BY branch, task_no

-- name: flow_resolve_join
UPDATE joins SET resolved = 1 WHERE batch_no = ? AND phase = ? AND file_no = ? AND left <= 0 AND resolved = 0

-- name: flow_doubt_branch
UPDATE tasks INDEXED BY tasks_of_file SET state = 'failed', error_class = ?, error = ?
WHERE batch_no = ? AND file_no = ? AND phase = ? AND branch = ? AND state = 'done'

-- name: flow_listed_inputs
SELECT f.file_no, f.folded, f.born, f.root_no,
       f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM json_each(?2) wanted CROSS JOIN files f INDEXED BY files_folded ON f.batch_no = ?1 AND f.folded = wanted.value
WHERE f.role <> 'unit' AND f.gone IS NOT 0

-- name: flow_listed_folders
-- '0' follows '/'.
SELECT wanted.value FROM json_each(?2) wanted
WHERE EXISTS (SELECT 1 FROM files f INDEXED BY files_folded WHERE f.batch_no = ?1 AND f.folded >= wanted.value
              AND f.folded < substr(wanted.value, 1, length(wanted.value) - 1) || '0' AND f.born = 0)

-- name: flow_twin_folder
-- An input in a folder that is spelled otherwise, though it folds alike. '0' follows '/'; the top has no twin.
SELECT f.path FROM files f INDEXED BY files_folded
WHERE f.batch_no = ?1 AND ?2 <> '' AND f.folded >= ?2 || '/' AND f.folded < ?2 || '0' AND f.born = 0
  AND substr(f.path, 1, length(?3) + 1) <> ?3 || '/' LIMIT 1

-- name: flow_begin_gather
UPDATE batches SET gathers = 1, sources = sources + 1, cursor = 0, wants_move = 1
WHERE no = ? AND stage = 'flowing' AND gathers = 0 AND sources = 0 AND waits_at = ?

-- name: flow_gather
-- The compare-and-swap of who makes units: of the same phase in the same round, and as far as before.
UPDATE batches SET cursor = ?, last_file = ?, updated_at = ?, phase_retries = 0, rests_until = 0
WHERE no = ? AND stage = 'flowing' AND gathers = ? AND waits_at = ? AND round = ? AND cursor = ?

-- name: flow_gather_stage
UPDATE batches SET gathers = ?, cursor = 0 WHERE no = ? AND stage = 'flowing' AND gathers = ?

-- name: flow_end_gather
UPDATE batches SET gathers = 0, sources = sources - 1, cursor = 0, waits_at = ?, updated_at = ?
WHERE no = ? AND stage = 'flowing' AND gathers = ? AND waits_at = ? AND round = ? AND cursor = ?

-- name: flow_seen_by
-- The list as a phase sees it.
SELECT file_no, root_no, key, path, name, size, content_type, digest, cid, source_file, tags, config
FROM files WHERE batch_no = ?1 AND file_no > ?2 AND listed = 1 AND role <> 'unit' AND born < ?3
  AND (gone IS NULL OR gone >= ?3) AND (gone IS NULL OR gone > 0)
ORDER BY file_no LIMIT ?4

-- name: flow_tasks_behind
SELECT f.file_no, 1, t.phase, t.branch, t.state, t.result, f.role, f.lineage
FROM json_each(?2) given
CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = given.value
CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = f.file_no
WHERE t.state = 'failed'
UNION ALL
SELECT f.file_no, 0, t.phase, t.branch, t.state, t.result, f.role, f.lineage
FROM json_each(?2) given
CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = given.value
CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = f.parent_no AND t.phase = f.born
WHERE t.state IN ('done', 'failed')

-- name: flow_units
-- All rows of a batch that flows are of round 1: with that, they are in the index by number.
SELECT file_no, path FROM files INDEXED BY files_units
WHERE batch_no = ? AND file_no > ? AND role = 'unit' AND gone IS NULL AND round = 1 AND born = ? ORDER BY file_no LIMIT ?

-- name: flow_unit_numbers
SELECT path, file_no FROM files INDEXED BY files_unit_paths
WHERE batch_no = ? AND folded IN (SELECT value FROM json_each(?)) AND role = 'unit' AND gone IS NULL AND born = ?

-- name: flow_child_counts
-- Units right below each of these: by path, as folders that differ in case are two.
SELECT u.file_no, (SELECT count(*) FROM files c INDEXED BY files_unit_paths
                   WHERE c.batch_no = ?1 AND c.role = 'unit' AND c.gone IS NULL AND c.born = ?3
                     AND c.folded > CASE u.folded WHEN '' THEN '' ELSE u.folded || '/' END
                     AND c.folded < CASE u.folded WHEN '' THEN x'' ELSE u.folded || '0' END
                     AND (u.path = '' OR substr(c.path, 1, length(u.path) + 1) = u.path || '/')
                     AND instr(substr(c.path, CASE WHEN u.path <> '' THEN length(u.path) + 2
                                                   WHEN substr(c.path, 1, 1) = '/' THEN 2 ELSE 1 END), '/') = 0)
FROM files u WHERE u.batch_no = ?1 AND u.file_no IN (SELECT value FROM json_each(?2))

-- name: flow_values_of
-- The results of earlier phases on a document, and on what it was made of up to the phase that made it.
WITH RECURSIVE line (file_no, before, generation) AS (
  SELECT ?2, ?3, 0
  UNION ALL
  SELECT f.parent_no, min(line.before, f.born + 1), line.generation + 1
  FROM line CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = line.file_no
  WHERE f.parent_no IS NOT NULL
)
SELECT t.phase, t.branch, t.result FROM line CROSS JOIN tasks t INDEXED BY tasks_of_file
ON t.batch_no = ?1 AND t.file_no = line.file_no
WHERE t.state = 'done' AND t.result IS NOT NULL AND t.phase < line.before ORDER BY t.phase, line.generation DESC

-- name: flow_nearest_root
-- Of a folder without members: the first member of the nearest folder below that has one.
SELECT (SELECT f.root_no FROM members m CROSS JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
        WHERE m.batch_no = ?1 AND m.unit_no = u.file_no ORDER BY f.path, f.file_no LIMIT 1) AS root_no
FROM files u INDEXED BY files_unit_paths
WHERE u.batch_no = ?1 AND u.role = 'unit' AND u.gone IS NULL AND u.born = ?2
  AND u.folded > CASE ?3 WHEN '' THEN '' ELSE ?3 || '/' END AND u.folded < CASE ?3 WHEN '' THEN x'' ELSE ?3 || '0' END
  AND (?4 = '' OR substr(u.path, 1, length(?4) + 1) = ?4 || '/')
  AND EXISTS (SELECT 1 FROM members m WHERE m.batch_no = ?1 AND m.unit_no = u.file_no)
ORDER BY length(u.path) - length(replace(u.path, '/', '')), u.path LIMIT 1

-- name: flow_insert_unit_task
INSERT INTO tasks (batch_no, task_no, phase, file_no, state, due_at, waits_for, blocks, given)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: flow_fill_unit
UPDATE files SET key = ?, size = ?, digest = ?, root_no = ? WHERE batch_no = ? AND file_no = ?

-- name: flow_count_units
UPDATE rounds SET total = total + ? WHERE batch_no = ? AND round = 1 AND phase = ?

-- name: flow_done_members
-- Inputs that no step took by themselves, but that belong to a unit whose task is done.
UPDATE files SET outcome = 'done'
WHERE batch_no = ?1 AND born = 0 AND outcome IS NULL AND file_no IN (
  SELECT f.root_no FROM files u INDEXED BY files_units
  CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = u.batch_no AND t.file_no = u.file_no AND t.state = 'done'
  CROSS JOIN members m ON m.batch_no = u.batch_no AND m.unit_no = u.file_no
  CROSS JOIN files f ON f.batch_no = m.batch_no AND f.file_no = m.file_no
  WHERE u.batch_no = ?1 AND u.role = 'unit' AND u.gone IS NULL)

-- name: flow_late_followers
-- What a document that was given up has to do next, unless somebody has begun with it.
SELECT task_no, state, phase FROM tasks INDEXED BY tasks_of_file
WHERE batch_no = ? AND file_no = ? AND phase > ? AND state <> 'superseded'

-- name: flow_late_success
UPDATE tasks
SET state = 'done', due_at = NULL, result = ?, error_class = NULL, error = NULL, outcome = 'done', worker = ?,
    seconds = ?, cost = ?
WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state = ? AND outcome = 'timed_out'

-- name: flow_failed_beside
-- Whether something else has failed of an input: another task of it, or a unit that it belongs to; and whether units
-- were made of its list since.
WITH theirs (file_no) AS (
  SELECT ?2 UNION ALL
  SELECT file_no FROM files INDEXED BY files_made WHERE batch_no = ?1 AND root_no = ?2 AND born > 0 AND role <> 'unit'
), about (file_no) AS (
  SELECT file_no FROM theirs UNION ALL
  SELECT m.unit_no FROM theirs CROSS JOIN members m INDEXED BY members_file ON m.batch_no = ?1 AND m.file_no = theirs.file_no
)
SELECT EXISTS (SELECT 1 FROM about CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = about.file_no
               WHERE t.state = 'failed' AND t.task_no <> ?3),
       EXISTS (SELECT 1 FROM files INDEXED BY files_units
               WHERE batch_no = ?1 AND born > ?4 AND role = 'unit' AND gone IS NULL)
         OR EXISTS (SELECT 1 FROM batches WHERE no = ?1 AND gathers > 0 AND waits_at > ?4)

-- name: flow_unsettle_branch
-- While other branches of the document are not settled: nobody has put their results together yet.
UPDATE joins SET left = left + 1 WHERE batch_no = ? AND phase = ? AND file_no = ? AND left > 0 AND resolved = 0

-- name: flow_drop_joins
DELETE FROM joins WHERE batch_no = ? AND phase = ? AND file_no = ? AND resolved = 0

-- name: flow_unfail_root
-- On its way again, as before the failure: `tries` were counted when its walk ended there, or not at all.
UPDATE files SET outcome = NULL, error_class = NULL, reason = NULL, failed_at = NULL, open = open + ?3,
                 attempts = attempts - ?4
WHERE batch_no = ?1 AND file_no = ?2

-- name: flow_give_back
-- Due at once. Numbers of attempts never go back; this one does not count as a try.
UPDATE tasks SET state = 'waiting', due_at = 0, tries = tries - 1
WHERE batch_no = ? AND task_no = ? AND attempt = ? AND state = 'running'

-- name: flow_plan
SELECT plan FROM batches WHERE no = ?

-- name: flow_retry_batch
UPDATE batches SET stage = 'flowing', stood = NULL, round = round + 1, phase = ?1, status = ?2, completed_at = NULL, error = NULL,
                   sources = 0, gathers = 0, cursor = 0, waits_at = ?3, wants_move = 1, updated_at = ?4, mover = NULL,
                   phase_retries = 0, rests_until = 0, delivered_at = NULL
WHERE no = ?5 AND stage = 'done' AND round = ?6

-- name: flow_chosen
SELECT task_no, file_no, phase, role, root_no FROM temp.chosen ORDER BY phase, task_no

-- name: flow_made_since
-- What was made of a document at or after a phase, and of that, all the way down.
WITH RECURSIVE made (file_no) AS (
  SELECT f.file_no FROM files f INDEXED BY files_parent
  WHERE f.batch_no = ?1 AND f.parent_no = ?2 AND f.born >= ?3 AND f.gone IS NOT 0
  UNION
  SELECT f.file_no FROM made CROSS JOIN files f INDEXED BY files_parent
  ON f.batch_no = ?1 AND f.parent_no = made.file_no AND f.gone IS NOT 0
)
SELECT file_no FROM made

-- name: flow_tasks_after
SELECT task_no FROM tasks INDEXED BY tasks_of_file
WHERE batch_no = ? AND file_no = ? AND phase > ? AND state <> 'superseded'

-- name: flow_still_failed
SELECT t.task_no, t.file_no, t.phase, f.root_no, coalesce(t.error_class, '')
FROM json_each(?2) wanted CROSS JOIN tasks t ON t.batch_no = ?1 AND t.task_no = wanted.value
CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = t.file_no
WHERE t.state = 'failed' ORDER BY t.task_no

-- name: flow_back_in_list
UPDATE files SET gone = NULL WHERE batch_no = ? AND file_no = ? AND gone >= ?

-- name: flow_try_again
UPDATE tasks SET state = 'waiting', due_at = 0, failures = 0, interruptions = 0, tries = -attempt
WHERE batch_no = ? AND task_no = ? AND state = 'failed'

-- name: flow_uncount_failed
UPDATE rounds SET failed = failed - ? WHERE batch_no = ? AND round = 1 AND phase = ?

-- name: flow_rejoin
UPDATE joins SET left = left + 1, resolved = 0 WHERE batch_no = ? AND phase = ? AND file_no = ?

-- name: flow_units_from
SELECT file_no FROM files INDEXED BY files_units
WHERE batch_no = ? AND role = 'unit' AND gone IS NULL AND born >= ?

-- name: flow_recount_open
UPDATE batches SET open_tasks =
  (SELECT coalesce(sum(total - done - failed), 0) FROM rounds WHERE batch_no = ?1 AND round = 1)
  + (SELECT count(*) FROM joins INDEXED BY joins_open WHERE batch_no = ?1 AND resolved = 0)
WHERE no = ?1

-- name: flow_failures_of_roots
-- What still speaks against these inputs: failed tasks on their documents, on the units that those belong to, and on
-- folders without members that an input stands for.
WITH theirs AS (
  SELECT value AS root_no, value AS file_no FROM json_each(?2)
  UNION
  SELECT f.root_no, f.file_no FROM json_each(?2) r
  CROSS JOIN files f INDEXED BY files_made ON f.batch_no = ?1 AND f.root_no = r.value AND f.born > 0
), mine AS (
  SELECT root_no, file_no FROM theirs
  UNION
  SELECT theirs.root_no, m.unit_no FROM theirs
  CROSS JOIN members m INDEXED BY members_file ON m.batch_no = ?1 AND m.file_no = theirs.file_no
)
SELECT mine.root_no, t.phase, f.path, t.branch, coalesce(t.error_class, ''), coalesce(t.error, '')
FROM mine CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = mine.file_no
CROSS JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = ?1 AND t.file_no = mine.file_no AND t.state = 'failed'

-- name: flow_rejudge
UPDATE files SET outcome = ?3, error_class = ?4, reason = ?5, failed_at = ?6, open = open + ?7
WHERE batch_no = ?1 AND file_no = ?2

-- name: flow_has_done
SELECT r.value FROM json_each(?2) r
WHERE EXISTS (SELECT 1 FROM tasks t INDEXED BY tasks_of_file WHERE t.batch_no = ?1 AND t.file_no = r.value AND t.state = 'done')

-- name: flow_reopen_tasks
-- Attempts that were out when it ended belong to nobody any more.
UPDATE tasks SET state = 'waiting', due_at = 0, outcome = 'interrupted', error_class = 'interrupted',
                 error = 'the batch ended while this attempt was running'
WHERE batch_no = ? AND state = 'running'

-- name: flow_reopen
UPDATE batches SET wants_move = 1 WHERE no = ?

-- name: flow_unsettled
SELECT open_tasks FROM batches WHERE no = ? AND stood = 'flowing'
