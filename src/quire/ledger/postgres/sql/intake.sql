-- Batches that flow while their files still come in: names are listed folder by folder, then files are taken.

-- name: intake_begin
UPDATE batches SET stage = 'flowing', phase = 1, cursor = 0, sources = 1, wants_move = false, waits_at = %(waits_at)s,
                   status = %(status)s, updated_at = %(now)s, started_at = coalesce(started_at, %(now)s)
WHERE no = %(no)s AND stage = 'open'

-- name: intake_known
SELECT file_no, path, role FROM files WHERE batch_no = %s AND folded = ANY(%s::text[]) AND born = 0 ORDER BY file_no

-- name: intake_listed
UPDATE batches SET last_file = %s, updated_at = %s WHERE no = %s

-- name: intake_names
SELECT file_no, path, role FROM files WHERE batch_no = %s AND file_no > %s AND born = 0 ORDER BY file_no LIMIT %s

-- name: intake_taken_before
SELECT file_no FROM files WHERE batch_no = %s AND file_no = ANY(%s::bigint[]) AND role = 'input'

-- name: intake_take
UPDATE files f SET role = 'input', listed = true, key = given.key, size = given.size, content_type = given.content_type,
                   digest = given.digest, open = given.open
FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
     AS given (key, size, content_type, digest, open, file_no)
WHERE f.batch_no = %s AND f.file_no = given.file_no

-- name: intake_refuse
UPDATE files SET role = 'name' WHERE batch_no = %s AND file_no = ANY(%s::bigint[]) AND role = 'awaited'

-- name: intake_count
UPDATE batches SET total_files = total_files + %s WHERE no = %s

-- name: intake_close
UPDATE batches SET manifest_key = %(manifest_key)s, total_files = %(total_files)s, refused = %(refused)s,
                   passed_over = %(passed_over)s, message = %(message)s, updated_at = %(now)s, sources = sources - 1
WHERE no = %(no)s AND stage = 'flowing' AND sources > 0 AND manifest_key IS NULL

-- name: intake_last_file
SELECT last_file FROM batches WHERE no = %s

-- name: intake_finished
-- Inputs in a range of numbers and those of the list, and whether they have walked to their ends.
SELECT file_no, path, open < 0 FROM files
WHERE batch_no = %(no)s AND file_no > %(after)s AND file_no <= %(to)s AND born = 0 AND role IN ('input', 'awaited')
UNION ALL
SELECT file_no, path, open < 0 FROM files
WHERE batch_no = %(no)s AND file_no = ANY(%(numbers)s::bigint[]) AND role IN ('input', 'awaited')

-- name: intake_withdrawn
-- Only what nobody else is called like today.
SELECT f.file_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM files f
WHERE f.batch_no = %s AND f.file_no > %s AND f.born > 0 AND f.gone = 0 AND f.role NOT IN ('unit', 'kept')
  AND NOT EXISTS (SELECT 1 FROM files o WHERE o.batch_no = f.batch_no AND o.folded = f.folded
                  AND o.born > 0 AND o.gone IS DISTINCT FROM 0 AND o.role NOT IN ('unit', 'kept'))
ORDER BY f.file_no LIMIT %s

-- name: intake_runs
SELECT * FROM batch_rows WHERE no IN (SELECT no FROM batches WHERE run_key = %s) ORDER BY no
