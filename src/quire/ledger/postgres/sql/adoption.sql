-- Batches of the former form go on as batches that flow. Their tasks had numbers without a phase; those that are not
-- settled get it added, and every phase counts on above the last of them, so that a former number still names one task.

-- name: adoption_take
WITH found AS MATERIALIZED (
  SELECT no FROM batches
  WHERE stage IN ('filling', 'gathering', 'discovering', 'working', 'transforming') AND plan_digest = ''
    AND stage NOT IN ('done', 'error', 'cancelled') AND rests_until <= %(now)s
    AND (mover IS NULL OR mover = %(member)s) AND (%(only)s::bigint[] IS NULL OR no = ANY(%(only)s::bigint[]))
    AND pipeline = ANY(%(pipelines)s::text[])
  ORDER BY mover IS NULL, tier, no LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE batches b SET mover = %(member)s FROM found WHERE b.no = found.no RETURNING b.no

-- name: adoption_older_members
SELECT 1 FROM crew WHERE format IS NULL LIMIT 1

-- name: adoption_names_of_older_members
SELECT name FROM crew WHERE format IS NULL ORDER BY no

-- name: adoption_begin
UPDATE batches SET stage = 'flowing', plan = %(plan)s, plan_digest = %(digest)s, phase = greatest(phase, 1),
                   cursor = CASE stage WHEN 'filling' THEN cursor ELSE 0 END, sources = 1, gathers = 0, admitted = 0,
                   admissible = 0, wants_move = true, waits_at = %(waits_at)s, updated_at = %(now)s, rank = NULL,
                   dispatch_at = 0, phase_retries = 0, rests_until = 0, last_file = greatest(last_file, total_files),
                   adopts_to = CASE stage WHEN 'filling' THEN NULL ELSE last_file END,
                   adopts_after = CASE stage WHEN 'transforming' THEN cursor ELSE 0 END,
                   adopts_from = coalesce((SELECT first_task FROM rounds r WHERE r.batch_no = batches.no
                                           AND r.round = batches.round AND r.phase = batches.phase), 0)
WHERE no = %(no)s AND stage = %(at_stage)s AND phase = %(at_phase)s AND cursor = %(at_cursor)s
  AND round = %(at_round)s AND plan_digest = ''

-- name: adoption_interrupt
-- Attempts that were out belong to nobody any more: what is reported of them changes nothing.
UPDATE tasks
SET state = 'waiting', due_at = 0, interruptions = interruptions + 1, outcome = 'interrupted', error_class = 'interrupted',
    error = 'quire stopped while this attempt was running'
WHERE batch_no = %s AND state = 'running'

-- name: adoption_end_of_former
-- One that has ended, before a person has it go on.
UPDATE batches SET plan = %s, plan_digest = %s WHERE no = %s AND stage = 'done' AND round = %s AND plan_digest = ''

-- name: adoption_rounds
-- One round has all counters.
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed, cached, seconds, bytes_in, bytes_out,
                    tokens_in, tokens_out, money)
SELECT batch_no, 1, phase, min(name), 0, sum(total), sum(done), sum(failed), sum(cached), sum(seconds), sum(bytes_in),
       sum(bytes_out), sum(tokens_in), sum(tokens_out), sum(money)
FROM rounds WHERE batch_no = %s AND round > 1 GROUP BY batch_no, phase
ON CONFLICT (batch_no, round, phase) DO UPDATE SET
  total = rounds.total + excluded.total, done = rounds.done + excluded.done, failed = rounds.failed + excluded.failed,
  cached = rounds.cached + excluded.cached, seconds = rounds.seconds + excluded.seconds,
  bytes_in = rounds.bytes_in + excluded.bytes_in, bytes_out = rounds.bytes_out + excluded.bytes_out,
  tokens_in = rounds.tokens_in + excluded.tokens_in, tokens_out = rounds.tokens_out + excluded.tokens_out,
  money = rounds.money + excluded.money

-- name: adoption_drop_rounds
DELETE FROM rounds WHERE batch_no = %s AND round > 1

-- name: adoption_one_round
UPDATE tasks SET round = 1 WHERE batch_no = %s AND round > 1

-- name: adoption_cursors
UPDATE rounds SET next_task = b.last_task + 1, last_task = b.last_task, dispatch_at = 0
FROM batches b WHERE b.no = rounds.batch_no AND rounds.batch_no = %s AND rounds.round = 1

-- name: adoption_documents
SELECT f.file_no, f.root_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags,
       f.config, f.born, f.enters, f.listed AND f.gone IS NULL AND f.role <> 'unit' AND f.round = b.round,
       f.outcome, t.task_no, t.state, CASE WHEN t.cached THEN t.attempt - 1 ELSE t.attempt END, t.result,
       coalesce(t.error_class, ''), coalesce(t.error, ''), t.task_no <= b.adopts_after
FROM batches b JOIN files f ON f.batch_no = b.no AND f.file_no > %(after)s AND f.file_no <= b.adopts_to
LEFT JOIN tasks t ON t.batch_no = f.batch_no AND t.file_no = f.file_no AND t.phase = %(phase)s
     AND t.state <> 'superseded' AND t.task_no >= b.adopts_from AND t.task_no < 1::bigint << 40
WHERE b.no = %(no)s ORDER BY f.file_no LIMIT %(limit)s

-- name: adoption_move
UPDATE batches SET cursor = %(cursor)s, updated_at = %(now)s, phase_retries = 0, rests_until = 0
WHERE no = %(no)s AND stage = 'flowing' AND adopts_to IS NOT NULL AND cursor = %(at_cursor)s

-- name: adoption_reset_inputs
-- Nothing of an input is on its way; each of its documents adds itself.
UPDATE files SET open = -1 WHERE batch_no = %s AND file_no > %s AND file_no <= %s AND born = 0

-- name: adoption_add_lineage
-- What is made of them is named as what is made of results, and they stand in order of their paths.
UPDATE files SET lineage = path WHERE batch_no = %s AND file_no > %s AND file_no <= %s AND born > 0 AND lineage = ''

-- name: adoption_reset_all_inputs
UPDATE files SET open = -1 WHERE batch_no = %s AND born = 0

-- name: adoption_renumber
-- Due at once, unless it waits for a moment.
UPDATE tasks SET task_no = (phase << 40) + task_no, rank = NULL, state = 'waiting',
                 due_at = CASE state WHEN 'waiting' THEN due_at ELSE 0 END
WHERE batch_no = %s AND task_no = ANY(%s::bigint[])

-- name: adoption_renumber_attempts
UPDATE attempts SET task_no = task_no + (%s::bigint << 40) WHERE batch_no = %s AND task_no = ANY(%s::bigint[])

-- name: adoption_attempts_of_failed
UPDATE attempts a SET task_no = a.task_no + (t.phase << 40)
FROM tasks t WHERE t.batch_no = %(no)s AND t.state = 'failed' AND t.task_no < 1::bigint << 40
  AND a.batch_no = %(no)s AND a.task_no = t.task_no

-- name: adoption_failed
-- Before they run again.
UPDATE tasks SET task_no = (phase << 40) + task_no
WHERE batch_no = %(no)s AND state = 'failed' AND task_no < 1::bigint << 40

-- name: adoption_end
UPDATE batches SET adopts_to = NULL, adopts_from = NULL, adopts_after = NULL, sources = sources - 1, cursor = 0
WHERE no = %s

-- name: adoption_find
SELECT t.task_no FROM rounds r JOIN tasks t ON t.batch_no = r.batch_no AND t.task_no = (r.phase << 40) + %(task_no)s
WHERE r.batch_no = %(no)s AND r.round = 1
