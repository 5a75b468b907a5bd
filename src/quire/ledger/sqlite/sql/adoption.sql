-- Batches of the former form go on as batches that flow. Their tasks had numbers without a phase; those that are not
-- settled get it added, and every phase counts on above the last of them, so that a former number still names one task.

-- name: adoption_take
UPDATE batches SET mover = ?1
WHERE no IN (SELECT no FROM batches
             WHERE stage IN ('filling', 'gathering', 'discovering', 'working', 'transforming') AND plan_digest = ''
               AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until <= ?2
               AND (mover IS NULL OR mover = ?1) AND (?3 IS NULL OR no IN (SELECT value FROM json_each(?3)))
               AND pipeline IN (SELECT value FROM json_each(?5))
             ORDER BY mover IS NULL, tier, no LIMIT ?4)
RETURNING no

-- name: adoption_older_members
SELECT 1 FROM crew WHERE format IS NULL LIMIT 1

-- name: adoption_names_of_older_members
SELECT name FROM crew WHERE format IS NULL ORDER BY no

-- name: adoption_begin
UPDATE batches SET stage = 'flowing', plan = ?1, plan_digest = ?2, phase = max(phase, 1),
                   cursor = CASE stage WHEN 'filling' THEN cursor ELSE 0 END, sources = 1, gathers = 0, admitted = 0,
                   admissible = 0, wants_move = 1, waits_at = ?3, updated_at = ?4, rank = NULL, dispatch_at = 0,
                   phase_retries = 0, rests_until = 0, last_file = max(last_file, total_files),
                   adopts_to = CASE stage WHEN 'filling' THEN NULL ELSE last_file END,
                   adopts_after = CASE stage WHEN 'transforming' THEN cursor ELSE 0 END,
                   adopts_from = coalesce((SELECT first_task FROM rounds r WHERE r.batch_no = batches.no
                                           AND r.round = batches.round AND r.phase = batches.phase), 0)
WHERE no = ?5 AND stage = ?6 AND phase = ?7 AND cursor = ?8 AND round = ?9 AND plan_digest = ''

-- name: adoption_interrupt
-- Attempts that were out belong to nobody any more: what is reported of them changes nothing.
UPDATE tasks INDEXED BY tasks_running
SET state = 'waiting', due_at = 0, interruptions = interruptions + 1, outcome = 'interrupted', error_class = 'interrupted',
    error = 'quire stopped while this attempt was running'
WHERE state = 'running' AND batch_no = ?

-- name: adoption_end_of_former
-- One that has ended, before a person has it go on.
UPDATE batches SET plan = ?1, plan_digest = ?2 WHERE no = ?3 AND stage = 'done' AND round = ?4 AND plan_digest = ''

-- name: adoption_rounds
-- One round has all counters.
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed, cached, seconds, bytes_in, bytes_out,
                    tokens_in, tokens_out, money)
SELECT batch_no, 1, phase, name, 0, sum(total), sum(done), sum(failed), sum(cached), sum(seconds), sum(bytes_in),
       sum(bytes_out), sum(tokens_in), sum(tokens_out), sum(money)
FROM rounds WHERE batch_no = ? AND round > 1 GROUP BY phase
ON CONFLICT (batch_no, round, phase) DO UPDATE SET
  total = rounds.total + excluded.total, done = rounds.done + excluded.done, failed = rounds.failed + excluded.failed,
  cached = rounds.cached + excluded.cached, seconds = rounds.seconds + excluded.seconds,
  bytes_in = rounds.bytes_in + excluded.bytes_in, bytes_out = rounds.bytes_out + excluded.bytes_out,
  tokens_in = rounds.tokens_in + excluded.tokens_in, tokens_out = rounds.tokens_out + excluded.tokens_out,
  money = rounds.money + excluded.money

-- name: adoption_drop_rounds
DELETE FROM rounds WHERE batch_no = ? AND round > 1

-- name: adoption_one_round
UPDATE tasks SET round = 1 WHERE batch_no = ? AND round > 1

-- name: adoption_cursors
UPDATE rounds SET next_task = (SELECT last_task + 1 FROM batches WHERE no = ?1),
                  last_task = (SELECT last_task FROM batches WHERE no = ?1), dispatch_at = 0
WHERE batch_no = ?1 AND round = 1

-- name: adoption_documents
SELECT f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags,
       f.config, f.born, f.enters, f.listed = 1 AND f.gone IS NULL AND f.role <> 'unit' AND f.round = b.round,
       f.outcome, t.task_no, t.state, CASE WHEN t.cached THEN t.attempt - 1 ELSE t.attempt END, t.result,
       coalesce(t.error_class, ''), coalesce(t.error, ''), t.task_no <= b.adopts_after
FROM batches b CROSS JOIN files f ON f.batch_no = b.no AND f.file_no > ?2 AND f.file_no <= b.adopts_to
LEFT JOIN tasks t INDEXED BY tasks_of_file ON t.batch_no = f.batch_no AND t.file_no = f.file_no AND t.phase = ?4
     AND t.state <> 'superseded' AND t.task_no >= b.adopts_from AND t.task_no < 1 << 40
WHERE b.no = ?1 ORDER BY f.file_no LIMIT ?3

-- name: adoption_move
UPDATE batches SET cursor = ?1, updated_at = ?2, phase_retries = 0, rests_until = 0
WHERE no = ?3 AND stage = 'flowing' AND adopts_to IS NOT NULL AND cursor = ?4

-- name: adoption_reset_inputs
-- Nothing of an input is on its way; each of its documents adds itself.
UPDATE files SET open = -1 WHERE batch_no = ? AND file_no > ? AND file_no <= ? AND born = 0

-- name: adoption_add_lineage
-- What is made of them is named as what is made of results, and they stand in order of their paths.
UPDATE files SET lineage = path WHERE batch_no = ? AND file_no > ? AND file_no <= ? AND born > 0 AND lineage = ''

-- name: adoption_reset_all_inputs
UPDATE files SET open = -1 WHERE batch_no = ? AND born = 0

-- name: adoption_renumber
-- Due at once, unless it waits for a moment.
UPDATE tasks SET task_no = (phase << 40) + task_no, rank = NULL, state = 'waiting',
                 due_at = CASE state WHEN 'waiting' THEN due_at ELSE 0 END
WHERE batch_no = ? AND task_no = ?

-- name: adoption_renumber_attempts
UPDATE attempts SET task_no = task_no + (?3 << 40) WHERE batch_no = ?1 AND task_no = ?2

-- name: adoption_attempts_of_failed
UPDATE attempts SET task_no = task_no + ((SELECT t.phase FROM tasks t WHERE t.batch_no = ?1 AND t.task_no = attempts.task_no) << 40)
WHERE batch_no = ?1 AND task_no IN (SELECT t.task_no FROM tasks t INDEXED BY tasks_failed
                                    WHERE t.batch_no = ?1 AND t.state = 'failed' AND t.task_no < 1 << 40)

-- name: adoption_failed
-- Before they run again.
UPDATE tasks INDEXED BY tasks_failed SET task_no = (phase << 40) + task_no
WHERE batch_no = ? AND state = 'failed' AND task_no < 1 << 40

-- name: adoption_end
UPDATE batches SET adopts_to = NULL, adopts_from = NULL, adopts_after = NULL, sources = sources - 1, cursor = 0
WHERE no = ?

-- name: adoption_find
SELECT t.task_no FROM rounds r CROSS JOIN tasks t ON t.batch_no = r.batch_no AND t.task_no = (r.phase << 40) + ?2
WHERE r.batch_no = ?1 AND r.round = 1
