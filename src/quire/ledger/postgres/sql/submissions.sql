-- Files that arrive over HTTP. `announce` and `received` come thousands of times a second: each touches the file's
-- row and the submission's, both by their keys. Whoever changes a file of a submission holds its row first, and looks
-- in a statement after that: what it then sees nobody else changes.

-- name: insert_submission
INSERT INTO submissions (batch_no, session_id, uploader, root_path, parent_pi, file_count, total_size, metadata,
                         custom_prompts, owner, idempotency_key, fingerprint, active_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: own_batch
UPDATE batches SET owner = %s, staged = true WHERE no = %s

-- name: hold_key
-- Two requests with one key go one after the other; the second finds what the first has made.
SELECT pg_advisory_xact_lock(hashtext(%s::text), hashtext(%s::text))

-- name: submission_by_key
SELECT batch_no, fingerprint FROM submissions WHERE owner = %s AND idempotency_key = %s

-- name: submission_by_id
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batch_rows b JOIN submissions s ON s.batch_no = b.no WHERE b.id = %s

-- name: submission_by_no
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batch_rows b JOIN submissions s ON s.batch_no = b.no WHERE b.no = %s

-- name: upload_at
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = %s AND path = %s

-- name: hold_submission
SELECT 1 FROM submissions WHERE batch_no = %s FOR NO KEY UPDATE

-- name: announce
-- Is it open, what stands in the way (a folder of the path that is a file, or a file below the path: '0' follows '/'),
-- what was noted before; and the note and the counters, when nothing is against it.
WITH open AS MATERIALIZED (
  SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no
  WHERE s.batch_no = %(no)s AND s.finalized_at IS NULL AND b.stage = 'open'
), earlier AS MATERIALIZED (
  SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
  FROM uploads WHERE batch_no = %(no)s AND path = %(path)s
), rival AS MATERIALIZED (
  (SELECT path FROM uploads WHERE batch_no = %(no)s AND path = ANY(%(folders)s::text[]) LIMIT 1)
  UNION ALL
  (SELECT path FROM uploads WHERE batch_no = %(no)s AND path > %(from)s AND path < %(to)s LIMIT 1)
), free AS MATERIALIZED (
  SELECT 1 FROM open WHERE NOT EXISTS (SELECT 1 FROM rival)
), put AS (
  INSERT INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config,
                       upload_id, taken_at, source_file, tags, folder)
  SELECT %(no)s, %(path)s, %(state)s, %(size)s, %(stamp)s, %(key)s, %(digest)s, %(content_type)s, %(error_class)s,
         %(reason)s, %(cid)s, %(config)s, %(upload_id)s, %(taken_at)s, %(source_file)s, %(tags)s, %(folder)s
  FROM free
  ON CONFLICT (batch_no, path) DO UPDATE
  SET state = excluded.state, size = excluded.size, stamp = excluded.stamp, key = excluded.key,
      digest = excluded.digest, content_type = excluded.content_type, error_class = excluded.error_class,
      reason = excluded.reason, cid = excluded.cid, config = excluded.config, upload_id = excluded.upload_id,
      taken_at = excluded.taken_at, source_file = excluded.source_file, tags = excluded.tags, folder = excluded.folder
), counted AS (
  UPDATE submissions s
  SET files_announced = s.files_announced + (earlier.path IS NULL)::int,
      files_taken = s.files_taken - (earlier.state IS NOT DISTINCT FROM 'taken')::int,
      bytes_taken = s.bytes_taken - CASE earlier.state WHEN 'taken' THEN earlier.size ELSE 0 END,
      bytes_announced = s.bytes_announced + %(size)s - coalesce(earlier.size, 0),
      revision = s.revision + 1, active_at = greatest(s.active_at, %(now)s)
  FROM free LEFT JOIN earlier ON true WHERE s.batch_no = %(no)s
  RETURNING s.owner, s.file_count, s.total_size, s.files_announced, s.bytes_announced
)
SELECT EXISTS (SELECT 1 FROM open), (SELECT path FROM rival LIMIT 1), counted.*, earlier.*
FROM (VALUES (1)) AS one LEFT JOIN counted ON true LEFT JOIN earlier ON true

-- name: received
-- Is it open, and what was noted before; and the note and the counters, when it is the file that was announced.
WITH open AS MATERIALIZED (
  SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no
  WHERE s.batch_no = %(no)s AND s.finalized_at IS NULL AND b.stage = 'open'
), noted AS MATERIALIZED (
  SELECT state, stamp, size FROM uploads WHERE batch_no = %(no)s AND path = %(path)s
), put AS (
  UPDATE uploads u
  SET state = 'taken', size = %(size)s, key = %(key)s, digest = %(digest)s, content_type = %(content_type)s,
      error_class = %(error_class)s, reason = %(reason)s, cid = %(cid)s, config = %(config)s,
      upload_id = %(upload_id)s, taken_at = %(taken_at)s, source_file = %(source_file)s, tags = %(tags)s
  FROM open WHERE u.batch_no = %(no)s AND u.path = %(path)s AND u.stamp = %(stamp)s AND u.state <> 'taken'
  RETURNING u.size
), counted AS (
  UPDATE submissions s
  SET files_taken = s.files_taken + 1, bytes_taken = s.bytes_taken + put.size, revision = s.revision + 1,
      bytes_announced = s.bytes_announced + put.size - noted.size, active_at = greatest(s.active_at, %(now)s)
  FROM put, noted WHERE s.batch_no = %(no)s
)
SELECT EXISTS (SELECT 1 FROM open), noted.state, noted.stamp FROM (VALUES (1)) AS one LEFT JOIN noted ON true

-- name: withdraw_upload
WITH open AS MATERIALIZED (
  SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no
  WHERE s.batch_no = %(no)s AND s.finalized_at IS NULL AND b.stage = 'open'
), gone AS (
  DELETE FROM uploads
  WHERE batch_no = %(no)s AND path = %(path)s AND state <> %(kept)s AND EXISTS (SELECT 1 FROM open)
  RETURNING path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
), counted AS (
  UPDATE submissions s
  SET files_announced = s.files_announced - 1, files_taken = s.files_taken - (gone.state = 'taken')::int,
      bytes_taken = s.bytes_taken - CASE gone.state WHEN 'taken' THEN gone.size ELSE 0 END,
      bytes_announced = s.bytes_announced - gone.size,
      revision = s.revision + 1, active_at = greatest(s.active_at, %(now)s)
  FROM gone WHERE s.batch_no = %(no)s
)
SELECT EXISTS (SELECT 1 FROM open), gone.* FROM (VALUES (1)) AS one LEFT JOIN gone ON true

-- name: awaited
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = %s AND state = 'awaited' ORDER BY path LIMIT %s

-- name: arrivals
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = %s AND folder <> '' AND (folder, path) > (%s, %s) ORDER BY folder, path LIMIT %s

-- name: close_submission
UPDATE submissions SET finalized_at = %(now)s, active_at = greatest(active_at, %(now)s)
WHERE batch_no = %(no)s AND revision = %(revision)s AND finalized_at IS NULL
RETURNING files_taken

-- name: end_elsewhere
-- Numbers of files are never given twice: the tasks of those that go still name them.
UPDATE batches
SET stage = 'done', status = 'DONE', total_files = %(files)s, last_file = last_file + %(files)s,
    completed_at = %(now)s, updated_at = %(now)s, error = NULL, stood = NULL, hold = NULL, hold_reason = NULL,
    mover = NULL, phase_retries = 0, rests_until = 0
WHERE no = %(no)s AND stage IN ('queued', 'filling', 'gathering', 'discovering', 'working', 'transforming',
                                 'flowing', 'ending')
RETURNING last_file - %(files)s, round

-- name: recount_submission
UPDATE submissions
SET files_announced = %(files)s, files_taken = %(files)s, bytes_announced = %(size)s, bytes_taken = %(size)s,
    revision = revision + 1, active_at = %(now)s
WHERE batch_no = %(no)s

-- name: drop_uploads
DELETE FROM uploads WHERE batch_no = %s

-- name: drop_files
DELETE FROM files WHERE batch_no = %s

-- name: drop_members
DELETE FROM members WHERE batch_no = %s

-- name: drop_unsettled
-- Reports of attempts that are still out find nobody.
UPDATE tasks SET state = 'superseded' WHERE batch_no = %s AND state NOT IN ('done', 'superseded')

-- name: drop_failures
DELETE FROM failures WHERE batch_no = %s

-- name: drop_counts
UPDATE rounds SET total = done, failed = 0 WHERE batch_no = %s

-- name: insert_processed
-- As one document: a hundred thousand rows in arrays take the client several times as long.
WITH given AS MATERIALIZED (
  SELECT * FROM ROWS FROM (
    json_to_recordset(%(uploads)s::json)
    AS (path text, state text, size bigint, stamp text, key text, digest text, content_type text, error_class text,
        reason text, cid text, config text, upload_id text, taken_at double precision, source_file text, tags text,
        folder text, folded text, name text)
  ) WITH ORDINALITY AS given (path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config,
                              upload_id, taken_at, source_file, tags, folder, folded, name, place)
), noted AS (
  INSERT INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config,
                       upload_id, taken_at, source_file, tags, folder)
  SELECT %(no)s, path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id,
         taken_at, source_file, tags, folder
  FROM given
)
INSERT INTO files (batch_no, file_no, root_no, born, role, path, folded, name, key, size, content_type, digest, cid,
                   source_file, tags, config, outcome, round)
SELECT %(no)s, %(last_file)s + place, %(last_file)s + place, 0, 'input', path, folded, name, key, size, content_type,
       digest, cid, source_file, tags, config, 'done', %(round)s
FROM given

-- name: owners_load
SELECT count(*),
       coalesce(sum(CASE b.stage WHEN 'open' THEN greatest(s.total_size, s.bytes_announced)
                                 ELSE s.bytes_taken END), 0)::bigint,
       coalesce(sum(CASE b.stage WHEN 'open' THEN greatest(s.file_count, s.files_announced)
                                 ELSE s.files_taken END), 0)::bigint
FROM batches b JOIN submissions s ON s.batch_no = b.no
WHERE b.owner = %s AND b.owner IS NOT NULL AND b.stage NOT IN ('done', 'error', 'cancelled')

-- name: owners_kept
-- Files and bytes also of batches that have ended, until they are swept.
SELECT count(*) FILTER (WHERE b.stage NOT IN ('done', 'error', 'cancelled')),
       coalesce(sum(CASE b.stage WHEN 'open' THEN greatest(s.total_size, s.bytes_announced)
                                 ELSE s.bytes_taken END), 0)::bigint,
       coalesce(sum(CASE b.stage WHEN 'open' THEN greatest(s.file_count, s.files_announced)
                                 ELSE s.files_taken END), 0)::bigint
FROM batches b JOIN submissions s ON s.batch_no = b.no
WHERE b.owner = %s AND b.owner IS NOT NULL AND b.staged

-- name: idle_submissions
-- Of those that ended while they were open few are met, and none that was swept.
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM submissions s JOIN batch_rows b ON b.no = s.batch_no
WHERE s.active_at < %s AND s.finalized_at IS NULL AND s.swept_at IS NULL AND b.stage = 'open'
ORDER BY s.active_at, s.batch_no LIMIT %s

-- name: still_idle
SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no
WHERE s.batch_no = %s AND s.active_at < %s AND s.finalized_at IS NULL AND b.stage = 'open'

-- name: sweepable
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batches ended JOIN batch_rows b ON b.no = ended.no JOIN submissions s ON s.batch_no = ended.no
WHERE ended.staged AND ended.completed_at < %s ORDER BY ended.completed_at, ended.no LIMIT %s

-- name: swept
UPDATE submissions SET swept_at = %s WHERE batch_no = %s AND swept_at IS NULL

-- name: unstage
UPDATE batches SET staged = false WHERE no = %s
