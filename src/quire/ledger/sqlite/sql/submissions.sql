-- Files that arrive over HTTP. `announce` and `received` come thousands of times a second: each touches the file's
-- row and the submission's, both by their keys.

-- name: insert_submission
INSERT INTO submissions (batch_no, session_id, uploader, root_path, parent_pi, file_count, total_size, metadata,
                         custom_prompts, owner, idempotency_key, fingerprint, active_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: own_batch
UPDATE batches SET owner = ?, staged = 1 WHERE no = ?

-- name: submission_by_key
SELECT batch_no, fingerprint FROM submissions WHERE owner = ? AND idempotency_key = ?

-- name: submission_by_id
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batch_rows b CROSS JOIN submissions s ON s.batch_no = b.no WHERE b.id = ?

-- name: submission_by_no
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batch_rows b CROSS JOIN submissions s ON s.batch_no = b.no WHERE b.no = ?

-- name: upload_at
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads WHERE batch_no = ? AND path = ?

-- name: is_open
SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no WHERE s.batch_no = ? AND b.stage = 'open'

-- name: count_uploads
-- A file has come, gone or changed; only while the batch is open.
UPDATE submissions
SET files_announced = files_announced + ?1, files_taken = files_taken + ?2, bytes_taken = bytes_taken + ?3,
    revision = revision + 1, active_at = max(active_at, ?4), bytes_announced = bytes_announced + ?6
WHERE batch_no = ?5 AND EXISTS (SELECT 1 FROM batches WHERE no = ?5 AND stage = 'open')
RETURNING owner, file_count, total_size, files_announced, bytes_announced

-- name: rival_path
-- A folder of the path that is a file, or a file below the path ('0' follows '/').
SELECT path FROM uploads WHERE batch_no = ?1 AND path IN (SELECT value FROM json_each(?3))
UNION ALL
SELECT path FROM uploads WHERE batch_no = ?1 AND path > ?2 || '/' AND path < ?2 || '0'
LIMIT 1

-- name: put_upload
INSERT OR REPLACE INTO uploads (batch_no, path, state, size, stamp, key, digest, content_type, error_class, reason, cid,
                                config, upload_id, taken_at, source_file, tags, folder)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: awaited
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads INDEXED BY uploads_awaited WHERE batch_no = ? AND path > '' AND state = 'awaited' ORDER BY path LIMIT ?

-- name: arrivals
SELECT path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, upload_id, taken_at,
       source_file, tags
FROM uploads INDEXED BY uploads_folders
WHERE batch_no = ? AND folder <> '' AND (folder, path) > (?, ?) ORDER BY folder, path LIMIT ?

-- name: close_submission
UPDATE submissions SET finalized_at = ?1, active_at = max(active_at, ?1)
WHERE batch_no = ?2 AND revision = ?3 AND finalized_at IS NULL
RETURNING files_taken

-- name: end_elsewhere
-- Numbers of files are never given twice: the tasks of those that go still name them.
UPDATE batches
SET stage = 'done', status = 'DONE', total_files = ?1, last_file = last_file + ?1, completed_at = ?2, updated_at = ?2,
    error = NULL, stood = NULL, hold = NULL, hold_reason = NULL, mover = NULL, phase_retries = 0, rests_until = 0
WHERE no = ?3 AND stage IN ('queued', 'filling', 'gathering', 'discovering', 'working', 'transforming',
                                 'flowing', 'ending')
RETURNING last_file - ?1, round

-- name: recount_submission
UPDATE submissions SET files_announced = ?1, files_taken = ?1, bytes_announced = ?2, bytes_taken = ?2, revision = revision + 1, active_at = ?3
WHERE batch_no = ?4

-- name: drop_uploads
DELETE FROM uploads WHERE batch_no = ?

-- name: drop_files
DELETE FROM files WHERE batch_no = ?

-- name: drop_members
DELETE FROM members WHERE batch_no = ?

-- name: drop_unsettled
-- Reports of attempts that are still out find nobody.
UPDATE tasks SET state = 'superseded' WHERE batch_no = ? AND state NOT IN ('done', 'superseded')

-- name: drop_failures
DELETE FROM failures WHERE batch_no = ?

-- name: drop_counts
UPDATE rounds SET total = done, failed = 0 WHERE batch_no = ?

-- name: insert_input
INSERT INTO files (batch_no, file_no, root_no, born, role, path, folded, name, key, size, content_type, digest, cid,
                   source_file, tags, config, outcome, round)
VALUES (?1, ?2, ?2, 0, 'input', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'done', ?14)

-- name: owners_load
SELECT count(*),
       coalesce(sum(CASE b.stage WHEN 'open' THEN max(s.total_size, s.bytes_announced) ELSE s.bytes_taken END), 0),
       coalesce(sum(CASE b.stage WHEN 'open' THEN max(s.file_count, s.files_announced) ELSE s.files_taken END), 0)
FROM batches b INDEXED BY batches_owned CROSS JOIN submissions s ON s.batch_no = b.no
WHERE b.owner = ? AND b.stage NOT IN ('done', 'error', 'cancelled')

-- name: owners_kept
-- Files and bytes also of batches that have ended, until they are swept.
SELECT coalesce(sum(b.stage NOT IN ('done', 'error', 'cancelled')), 0),
       coalesce(sum(CASE b.stage WHEN 'open' THEN max(s.total_size, s.bytes_announced) ELSE s.bytes_taken END), 0),
       coalesce(sum(CASE b.stage WHEN 'open' THEN max(s.file_count, s.files_announced) ELSE s.files_taken END), 0)
FROM batches b INDEXED BY batches_kept CROSS JOIN submissions s ON s.batch_no = b.no
WHERE b.owner = ? AND b.staged = 1

-- name: idle_submissions
-- Of those that ended while they were open few are met, and none that was swept.
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM submissions s INDEXED BY submissions_idle CROSS JOIN batch_rows b ON b.no = s.batch_no
WHERE s.active_at < ? AND s.finalized_at IS NULL AND s.swept_at IS NULL AND b.stage = 'open'
ORDER BY s.active_at, s.batch_no LIMIT ?

-- name: still_idle
SELECT 1 FROM submissions s JOIN batches b ON b.no = s.batch_no
WHERE s.batch_no = ? AND s.active_at < ? AND s.finalized_at IS NULL AND b.stage = 'open'

-- name: sweepable
SELECT s.session_id, s.uploader, s.root_path, s.parent_pi, s.file_count, s.total_size, s.metadata, s.custom_prompts,
       s.owner, s.files_announced, s.files_taken, s.bytes_taken, s.revision, s.active_at, s.finalized_at, s.swept_at, b.*
FROM batches ended INDEXED BY batches_staged CROSS JOIN batch_rows b ON b.no = ended.no
CROSS JOIN submissions s ON s.batch_no = ended.no
WHERE ended.staged = 1 AND ended.completed_at < ? ORDER BY ended.completed_at, ended.no LIMIT ?

-- name: swept
UPDATE submissions SET swept_at = ? WHERE batch_no = ? AND swept_at IS NULL

-- name: unstage
UPDATE batches SET staged = 0 WHERE no = ?
